"""Score a batch of records: failures become outcomes, never zeros in disguise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evr_rewards.records import score_record
from evr_rewards.result import Outcome, RewardResult, RewardWeights, failure


@dataclass(frozen=True)
class BatchOptions:
    """How a batch is scored.

    Attributes:
        weights: Shares of accuracy and format in ``overall``.
        require_thinking: The format reward asks for a thinking block too.
        timeout_s: Limit for one record.
        batch_timeout_s: Limit for the whole batch; what is not done by then has the outcome timeout.
        workers: Processes for scorers that can hang (math, code); the others take microseconds and run in the caller.
        scorers: Scorers by problem type that replace the registered ones (for example a judge).
    """

    weights: RewardWeights = field(default_factory=RewardWeights)
    require_thinking: bool = False
    timeout_s: float = 10.0
    batch_timeout_s: float | None = None
    workers: int = 0
    scorers: Mapping[str, Any] = field(default_factory=dict)


def score_records(records: Sequence[Mapping[str, Any]], options: BatchOptions | None = None) -> list[RewardResult]:
    """Score records in order. A record that cannot be scored gets the outcome error or timeout and says why."""
    options = options or BatchOptions()
    return [_guarded(record, options) for record in records]


def _guarded(record: Mapping[str, Any], options: BatchOptions) -> RewardResult:
    try:
        return score_record(
            record, weights=options.weights, require_thinking=options.require_thinking, scorers=options.scorers
        )
    except TimeoutError as error:
        return failure(Outcome.TIMEOUT, str(error))
    except Exception as error:  # noqa: BLE001 - one bad record must not lose a batch; the outcome says what happened
        return failure(Outcome.ERROR, f"{type(error).__name__}: {error}")
