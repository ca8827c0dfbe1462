"""Score a batch of records: parallel where it pays, failures as outcomes, never zeros in disguise."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol, runtime_checkable

from evr_core.schema import Sample
from evr_rewards._pool import Task, WorkerPool
from evr_rewards.records import found_in_record
from evr_rewards.result import Grade, Outcome, RewardResult, RewardWeights, failure
from evr_rewards.scoring import Found


@runtime_checkable
class ProcessScorer(Protocol):
    """A scorer whose grading may hang or crash: it grades in a process of ``pool``."""

    @property
    def pool(self) -> WorkerPool:
        """Where its tasks run."""
        ...

    def task(self, value: Any, sample: Sample) -> Task | Grade:
        """What to run, or the grade when that is known at once."""
        ...

    def finish(self, reply: Any, sample: Sample) -> Grade:
        """The grade from the task's answer."""
        ...


@runtime_checkable
class WaitingScorer(Protocol):
    """A scorer that waits for a server: up to ``concurrency`` gradings run in threads."""

    concurrency: int


@dataclass(frozen=True)
class BatchOptions:
    """How a batch is scored.

    Attributes:
        weights: Shares of accuracy and format in ``overall``.
        require_thinking: The format reward asks for a thinking block too.
        timeout_s: Limit for one record that is graded in a process (math, code); all others take microseconds.
        batch_timeout_s: Limit for the whole batch; what is not done by then has the outcome timeout.
        workers: Processes that grade at once, not counting hanging ones; 0 for one per core.
        scorers: Scorers by problem type that replace the registered ones (for example a judge).
    """

    weights: RewardWeights = field(default_factory=RewardWeights)
    require_thinking: bool = False
    timeout_s: float = 10.0
    batch_timeout_s: float | None = None
    workers: int = 0
    scorers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.timeout_s <= 0 or self.workers < 0 or (self.batch_timeout_s is not None and self.batch_timeout_s <= 0):
            raise ValueError(
                f"timeout_s={self.timeout_s}, batch_timeout_s={self.batch_timeout_s}, workers={self.workers}: "
                "time-outs must be > 0 and workers >= 0"
            )


_DEFAULT: Final = BatchOptions()


def score_records(records: Sequence[Mapping[str, Any]], options: BatchOptions = _DEFAULT) -> list[RewardResult]:
    """Score records in order. A record that cannot be scored gets the outcome error or timeout and says why.

    No process is started unless a record needs one (math that is not plainly equal, code); those then stay.
    """
    batch = _Batch(options, time.monotonic(), [None] * len(records))
    quick: list[tuple[int, Found]] = []
    for index, record in enumerate(records):
        found = _find(record, options)
        if isinstance(found, RewardResult):
            batch.results[index] = found
        elif (kind := _kind(type(found.scorer))) is ProcessScorer:
            batch.plan(index, found)
        elif kind is WaitingScorer:
            batch.waiting.append((index, found))
        else:
            quick.append((index, found))
    with ThreadPoolExecutor(max(1, len(batch.planned) + bool(batch.waiting)), "reward") as threads:
        jobs = batch.start(threads)
        for index, found in quick:
            batch.results[index] = _grade(found)
        for job in jobs:
            job.result()
    return [result for result in batch.results if result is not None]


@dataclass
class _Batch:
    options: BatchOptions
    started: float
    results: list[RewardResult | None]
    planned: dict[WorkerPool, list[tuple[int, Found, Task]]] = field(default_factory=dict)
    waiting: list[tuple[int, Found]] = field(default_factory=list)

    def plan(self, index: int, found: Found) -> None:
        """Note a process task, or grade at once where the scorer can."""
        assert isinstance(found.scorer, ProcessScorer)
        try:
            task = found.scorer.task(found.extraction.value, found.sample)
        except Exception as error:  # noqa: BLE001 - one bad record must not lose a batch; the outcome says what happened
            self.results[index] = found.failed(error)
            return
        if isinstance(task, Grade):
            self.results[index] = found.graded(task)
        else:
            self.planned.setdefault(found.scorer.pool, []).append((index, found, task))

    def start(self, threads: ThreadPoolExecutor) -> list[Future[None]]:
        """Begin everything that does not run in the caller."""
        jobs = [threads.submit(self._in_processes, pool, planned) for pool, planned in self.planned.items()]
        return [*jobs, threads.submit(self._in_threads)] if self.waiting else jobs

    def _in_processes(self, pool: WorkerPool, planned: list[tuple[int, Found, Task]]) -> None:
        limit = self.options.batch_timeout_s
        answers = pool.map(
            [task for _, _, task in planned],
            timeout_s=self.options.timeout_s,
            deadline=None if limit is None else self.started + limit,
            lanes=self.options.workers,
        )
        for (index, found, _), answer in zip(planned, answers, strict=True):
            self.results[index] = _finish(found, answer)

    def _in_threads(self) -> None:
        width = max(
            scorer.concurrency for _, found in self.waiting if isinstance(scorer := found.scorer, WaitingScorer)
        )
        with ThreadPoolExecutor(max(1, width), "judge") as threads:
            for (index, _), result in zip(
                self.waiting, threads.map(_grade, [found for _, found in self.waiting]), strict=True
            ):
                self.results[index] = result


@cache
def _kind(scorer: type) -> type | None:
    """Where scorers of a class grade (asking a protocol for every record would take longer than scoring it)."""
    if callable(getattr(scorer, "task", None)) and callable(getattr(scorer, "finish", None)):
        return ProcessScorer
    return WaitingScorer if hasattr(scorer, "concurrency") else None


def _find(record: Mapping[str, Any], options: BatchOptions) -> Found | RewardResult:
    try:
        return found_in_record(
            record, weights=options.weights, require_thinking=options.require_thinking, scorers=options.scorers
        )
    except Exception as error:  # noqa: BLE001 - one bad record must not lose a batch; the outcome says what happened
        return failure(Outcome.ERROR, f"{type(error).__name__}: {error}")


def _grade(found: Found) -> RewardResult:
    try:
        return found.graded(found.scorer.grade(found.extraction.value, found.sample))
    except Exception as error:  # noqa: BLE001 - one bad record must not lose a batch; the outcome says what happened
        return found.failed(error)


def _finish(found: Found, answer: Any) -> RewardResult:
    assert isinstance(found.scorer, ProcessScorer)
    if isinstance(answer, Exception):
        return found.failed(answer)
    try:
        return found.graded(found.scorer.finish(answer, found.sample))
    except Exception as error:  # noqa: BLE001 - one bad record must not lose a batch; the outcome says what happened
        return found.failed(error)
