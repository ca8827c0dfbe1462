"""The numbers of a run, each with its interval, over a denominator that failures cannot shrink."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evr_eval.benchmark import Benchmark
from evr_eval.rows import Outcome, ResultRow
from evr_eval.statistics import Estimate, cluster_mean, cluster_mean_of_groups

SUMMARY_FILE = "summary.json"
RESULTS_FILE = "results.jsonl"


@dataclass(frozen=True)
class EvalSummary:
    """What ``summary.json`` holds.

    Attributes:
        benchmark: ``name@version``.
        config_hash: Of the rows that were added up.
        settings: What the hash was taken of: model digest, budgets, sampling.
        model_path: As given.
        native: The benchmark's own number (its aggregation); equals ``overall`` for a plain mean.
        aggregation: Name of that aggregation.
        overall: Mean score over ``num_expected``; errors, cut-off answers and missing rows count 0.
        lenient: As ``overall``, with cut-off responses scored by what they hold.
        by_problem_type: Mean score of the rows of each problem type.
        by_group: Per group key, mean score of each value.
        outcomes: Number of rows of every outcome; they add up to ``num_rows``.
        num_expected: The denominator.
        num_rows: Rows with an outcome.
        num_missing: ``num_expected - num_rows``: malformed records and questions that the record file lacks.
        count_note: Says where the record file and the definition differ.
        rejected: Malformed records, as messages.
        output_tokens: Generated in all rows.
        wall_s: Of this invocation.
        resumed_rows: Rows taken over from earlier invocations.
        torn_lines: Unfinished last lines dropped on opening.
        media: Frame cache counters of this invocation.
    """

    benchmark: str
    config_hash: str
    settings: Mapping[str, Any]
    model_path: str
    native: Estimate
    aggregation: str
    overall: Estimate
    lenient: Estimate
    by_problem_type: Mapping[str, Estimate]
    by_group: Mapping[str, Mapping[str, Estimate]]
    outcomes: Mapping[str, int]
    num_expected: int
    num_rows: int
    num_missing: int
    count_note: str = ""
    rejected: tuple[str, ...] = ()
    output_tokens: int = 0
    wall_s: float = 0.0
    resumed_rows: int = 0
    torn_lines: int = 0
    media: Mapping[str, float] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """Mean score over the expected count."""
        return self.overall.value

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """95 % interval of ``accuracy``, clustered by video."""
        return self.overall.low, self.overall.high

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; ``accuracy`` is repeated at the top for readers of the file."""
        return {"accuracy": self.accuracy, **dataclasses.asdict(self)}

    def write(self, output_dir: Path) -> Path:
        """Writes ``summary.json`` whole or not at all."""
        path = output_dir / SUMMARY_FILE
        staged = path.with_suffix(f".json.{os.getpid()}.tmp")
        staged.write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        staged.replace(path)
        return path


def load_summary(output_dir: str | Path) -> EvalSummary:
    """The summary of a finished run.

    Raises:
        ValueError: The folder holds no summary, or one of another version.
    """
    path = Path(output_dir) / SUMMARY_FILE
    if not path.is_file():
        raise ValueError(f"{path} does not exist; is {output_dir} the output_dir of a finished evaluation?")
    raw = json.loads(path.read_text(encoding="utf-8"))
    try:
        raw.pop("accuracy")
        for name in ("native", "overall", "lenient"):
            raw[name] = Estimate.from_dict(raw[name])
        raw["by_problem_type"] = {k: Estimate.from_dict(v) for k, v in raw["by_problem_type"].items()}
        raw["by_group"] = {
            key: {k: Estimate.from_dict(v) for k, v in table.items()} for key, table in raw["by_group"].items()
        }
        return EvalSummary(**{**raw, "rejected": tuple(raw["rejected"])})
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a summary of this version: {error}") from error


def summarise(
    rows: Sequence[ResultRow], benchmark: Benchmark, *, num_expected: int, seed: int, **fields: Any
) -> EvalSummary:
    """Adds up the rows of one configuration.

    Args:
        rows: One per question, any outcome.
        benchmark: Gives group keys and aggregation.
        num_expected: The denominator; rows short of it count 0, each as a cluster of its own.
        seed: Of the bootstrap.
        fields: The remaining fields of ``EvalSummary``.
    """
    assert len(rows) <= num_expected, "more rows than questions"
    rows = sorted(rows, key=lambda row: row.sample_id)
    num_missing = num_expected - len(rows)
    clusters = [row.cluster for row in rows] + [f"missing:{index}" for index in range(num_missing)]
    zeros = [0.0] * num_missing
    overall = cluster_mean([row.score for row in rows] + zeros, clusters, seed=seed)
    counted = Counter(row.outcome for row in rows)
    return EvalSummary(
        benchmark=benchmark.label,
        native=_native(rows, benchmark, overall, seed),
        aggregation=benchmark.aggregation,
        overall=overall,
        lenient=cluster_mean([row.lenient_score for row in rows] + zeros, clusters, seed=seed),
        by_problem_type=_table(((row.problem_type, row) for row in rows), seed),
        by_group={
            key.name: _table(((row.groups[key.name], row) for row in rows), seed) for key in benchmark.group_keys
        },
        outcomes={outcome.value: counted[outcome] for outcome in Outcome},
        num_expected=num_expected,
        num_rows=len(rows),
        num_missing=num_missing,
        output_tokens=sum(row.output_tokens for row in rows),
        **fields,
    )


def _native(rows: Sequence[ResultRow], benchmark: Benchmark, overall: Estimate, seed: int) -> Estimate:
    if benchmark.aggregation == "mean":
        return overall
    key = benchmark.group_keys[0].name
    return cluster_mean_of_groups(
        [row.score for row in rows], [row.cluster for row in rows], [row.groups[key] for row in rows], seed=seed
    )


def _table(pairs: Iterable[tuple[str, ResultRow]], seed: int) -> dict[str, Estimate]:
    table: dict[str, list[ResultRow]] = defaultdict(list)
    for name, row in pairs:
        table[name].append(row)
    return {
        name: cluster_mean([row.score for row in rows], [row.cluster for row in rows], seed=seed)
        for name, rows in sorted(table.items())
    }
