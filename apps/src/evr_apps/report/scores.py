"""Accuracies of one or two evaluations, in all and by problem type, with 95 % intervals clustered by video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evr_eval import Comparison, Estimate, EvalSummary, ResultRow, compare_runs, load_summary, read_results


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: its summary and the rows that were added up, by sample id."""

    summary: EvalSummary
    rows: Mapping[str, ResultRow]


@dataclass(frozen=True)
class ScoreLine:
    """One line of the before/after table; ``change`` is the paired difference on the same questions."""

    name: str
    count: int
    before: Estimate | None
    after: Estimate | None
    change: Estimate | None


@dataclass(frozen=True)
class OutcomeLine:
    """How many answers ended in an outcome, before and after."""

    name: str
    before: int | None
    after: int | None


def read_evaluation(folder: Path) -> Evaluation:
    """The evaluation in a folder.

    Raises:
        ValueError: The folder holds no finished evaluation.
    """
    return Evaluation(load_summary(folder), {row.sample_id: row for row in read_results(folder)})


def compare(before_dir: Path | None, after_dir: Path | None) -> Comparison | None:
    """The paired comparison of two evaluations; None unless both are given."""
    return compare_runs(before_dir, after_dir) if before_dir and after_dir else None


def score_table(before: Evaluation | None, after: Evaluation | None, comparison: Comparison | None) -> list[ScoreLine]:
    """One line per problem type, by name, and one for all of them at the end; empty without an evaluation."""
    first, second = (evaluation.summary if evaluation else None for evaluation in (before, after))
    names = sorted({name for summary in (first, second) if summary for name in summary.by_problem_type})
    lines = [
        _line(
            name,
            first.by_problem_type.get(name) if first else None,
            second.by_problem_type.get(name) if second else None,
            comparison.by_problem_type.get(name) if comparison else None,
        )
        for name in names
    ]
    if not names:
        return []
    change = comparison.difference if comparison else None
    total = _line("all questions", first.overall if first else None, second.overall if second else None, change)
    return [*lines, total]


def outcome_table(before: Evaluation | None, after: Evaluation | None) -> list[OutcomeLine]:
    """One line per outcome that occurs, in the order of the evaluation's outcomes."""
    first, second = (dict(evaluation.summary.outcomes) if evaluation else {} for evaluation in (before, after))
    return [
        OutcomeLine(name, first.get(name, 0) if before else None, second.get(name, 0) if after else None)
        for name in dict.fromkeys([*first, *second])
        if first.get(name) or second.get(name)
    ]


def _line(name: str, before: Estimate | None, after: Estimate | None, change: Estimate | None) -> ScoreLine:
    count = max(estimate.count for estimate in (before, after) if estimate is not None)
    return ScoreLine(name, count, before, after, change)
