"""Two runs of the same questions, compared question by question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evr_eval.results import read_results
from evr_eval.rows import ResultRow
from evr_eval.statistics import Estimate, cluster_mean
from evr_eval.summary import load_summary


@dataclass(frozen=True)
class Tally:
    """Questions on which the second run scored higher (wins), lower (losses) or the same."""

    wins: int
    losses: int
    ties: int


@dataclass(frozen=True)
class Comparison:
    """Run b against run a.

    Attributes:
        benchmark: ``name@version`` of both.
        difference: Mean of b's score minus a's over the common questions, with an interval clustered by video.
        tally: Over all problem types.
        by_problem_type: Difference of each problem type.
        tally_by_problem_type: Wins, losses and ties of each problem type.
        only_in_a: Questions that only the first run has; they are in neither number above.
        only_in_b: Questions that only the second run has.
    """

    benchmark: str
    difference: Estimate
    tally: Tally
    by_problem_type: Mapping[str, Estimate]
    tally_by_problem_type: Mapping[str, Tally]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]

    @property
    def significant(self) -> bool:
        """Whether the 95 % interval of the difference leaves out 0."""
        low, high = self.difference.low, self.difference.high
        return low is not None and high is not None and (low > 0 or high < 0)


def compare_runs(a_dir: str | Path, b_dir: str | Path, *, seed: int = 0) -> Comparison:
    """Pairs the rows of two finished runs by sample.

    Raises:
        ValueError: A folder holds no finished run, the benchmarks differ, a question differs between the runs, or
            the runs share no question.
    """
    benchmark_a, rows_a = _finished_rows(Path(a_dir))
    benchmark_b, rows_b = _finished_rows(Path(b_dir))
    if benchmark_a != benchmark_b:
        raise ValueError(f"cannot compare {benchmark_a} in {a_dir} with {benchmark_b} in {b_dir}")
    common = sorted(rows_a.keys() & rows_b.keys())
    if not common:
        raise ValueError(f"{a_dir} and {b_dir} have no question in common")
    pairs = [(rows_a[sample_id], rows_b[sample_id]) for sample_id in common]
    _check_same_records(pairs)
    by_type: dict[str, list[tuple[ResultRow, ResultRow]]] = defaultdict(list)
    for pair in pairs:
        by_type[pair[0].problem_type].append(pair)
    return Comparison(
        benchmark=benchmark_a,
        difference=_difference(pairs, seed),
        tally=_tally(pairs),
        by_problem_type={name: _difference(found, seed) for name, found in sorted(by_type.items())},
        tally_by_problem_type={name: _tally(found) for name, found in sorted(by_type.items())},
        only_in_a=tuple(sorted(rows_a.keys() - rows_b.keys())),
        only_in_b=tuple(sorted(rows_b.keys() - rows_a.keys())),
    )


def _finished_rows(output_dir: Path) -> tuple[str, dict[str, ResultRow]]:
    return load_summary(output_dir).benchmark, {row.sample_id: row for row in read_results(output_dir)}


def _check_same_records(pairs: list[tuple[ResultRow, ResultRow]]) -> None:
    for a, b in pairs:
        if (a.answer, a.problem_type, a.cluster) != (b.answer, b.problem_type, b.cluster):
            raise ValueError(
                f"question {a.sample_id!r} is not the same in both runs: answer {a.answer!r} against {b.answer!r}, "
                f"media {a.cluster!r} against {b.cluster!r}; evaluate both on the same record file"
            )


def _difference(pairs: list[tuple[ResultRow, ResultRow]], seed: int) -> Estimate:
    differences = [b.score - a.score for a, b in pairs]
    return cluster_mean(differences, [a.cluster for a, _ in pairs], seed=seed, bounds=(-1.0, 1.0))


def _tally(pairs: list[tuple[ResultRow, ResultRow]]) -> Tally:
    wins = sum(b.score > a.score for a, b in pairs)
    losses = sum(b.score < a.score for a, b in pairs)
    return Tally(wins, losses, len(pairs) - wins - losses)
