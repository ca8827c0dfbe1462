"""Rewards in a process of their own, while the workers go on."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from evr_core import Sample
from evr_trainer.carriers import RolloutBatch
from evr_trainer.cluster.group import WorkerError, payload_bytes
from evr_trainer.cluster.local import require_ray
from evr_trainer.config import RewardConfig
from evr_trainer.reward_process import RewardProcess

_log = logging.getLogger(__name__)
__all__ = ["Rewards", "Scorer", "reward_records"]


@dataclass(frozen=True)
class Rewards:
    """Scores of a batch: every metric the reward function returned, float32 [G, n], and what became of each response.

    ``metrics`` holds at least ``overall``; a metric that only some responses have is NaN elsewhere.
    ``outcomes[g][i]`` is one of evr_rewards' outcomes ("" when the reward function names none), ``errors[g][i]`` says
    why scoring failed ("" when it did not); a response whose scoring failed has no metrics.
    """

    metrics: Mapping[str, Tensor]
    outcomes: Sequence[Sequence[str]]
    errors: Sequence[Sequence[str]]

    @property
    def overall(self) -> Tensor:
        """The reward; where scoring failed, the mean of the group's others: a failure teaches nothing. [G, n]"""
        overall = self.metrics["overall"]
        mean = overall.nanmean(dim=-1, keepdim=True).nan_to_num(0.0)
        return torch.where(overall.isnan(), mean, overall)

    def summary(self) -> dict[str, float]:
        """``reward/<metric>`` means and ``reward/outcome/<name>`` shares."""
        result = {f"reward/{name}": float(values.double().nanmean()) for name, values in self.metrics.items()}
        flat = [outcome for group in self.outcomes for outcome in group if outcome]
        for name in sorted(set(flat)):
            result[f"reward/outcome/{name}"] = flat.count(name) / len(flat)
        for failure in _FAILURES:
            result.setdefault(f"reward/outcome/{failure}", 0.0)
        return result


def reward_records(
    batch: RolloutBatch, samples: Sequence[Sample], tokenizer: Any, *, skip_special_tokens: bool
) -> list[dict[str, Any]]:
    """The records that reward functions see, response i of group g at position g * n + i."""
    records = []
    for g, sample in enumerate(samples):
        for i, length in enumerate(batch["response_lengths"][g].tolist()):
            token_ids = batch["response_ids"][g, i, :length].tolist()
            records.append(
                {
                    **sample.extra,
                    "response": tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens),
                    "response_length": length,
                    "truncated": bool(batch["truncated"][g, i]),
                    "ground_truth": sample.answer,
                    "problem_type": sample.problem_type.value,
                    "data_type": sample.data_type.value,
                    "options": list(sample.options),
                    "prompt": sample.problem,
                    "problem_id": sample.problem_id,
                    "data_source": sample.data_source,
                }
            )
    return records


class Scorer:
    """Scores batches in ``config.num_cpus`` processes beside the workers."""

    def __init__(self, config: RewardConfig) -> None:
        ray = require_ray()
        actor = ray.remote(RewardProcess)
        self.config = config
        self._processes = [actor.options(num_cpus=0.01).remote(config) for _ in range(config.num_cpus)]
        self.bytes_crossed = 0
        self._warned = False

    def submit(self, records: list[dict[str, Any]]) -> list[Any]:
        """Start scoring and return at once."""
        self.bytes_crossed += payload_bytes(records)
        count = len(self._processes)
        bounds = [len(records) * i // count for i in range(count + 1)]
        return [
            process.score.remote(records[lo:hi])
            for process, (lo, hi) in zip(self._processes, pairwise(bounds), strict=True)
        ]

    def collect(self, pending: list[Any], num_groups: int, n: int) -> Rewards:
        """Wait for the scores of ``num_groups`` x ``n`` records."""
        rows = [row for part in _results(pending) for row in part]
        self.bytes_crossed += payload_bytes(rows)
        failures = [_failure(row) for row in rows]
        if rows and all(failures):
            raise ValueError(f"worker.reward: no response could be scored; the first failed with: {failures[0]}")
        if any(failures) and not self._warned:
            self._warned = True  # the metrics go on counting them
            _log.warning("a response could not be scored: %s", next(filter(None, failures)))
        measured = [{} if failure else row for row, failure in zip(rows, failures, strict=True)]
        metrics = {
            name: torch.tensor([float(row.get(name, math.nan)) for row in measured]).reshape(num_groups, n)
            for name in _metric_names(measured)
        }
        for row, failure in zip(rows, failures, strict=True):
            if not failure and not math.isfinite(float(row.get("overall", math.nan))):
                raise ValueError(f"the reward function returned {row!r}: every result needs a finite number 'overall'")

        def grouped(values: list[str]) -> list[list[str]]:
            return [values[g * n : (g + 1) * n] for g in range(num_groups)]

        return Rewards(metrics, grouped([str(row.get("outcome", "")) for row in rows]), grouped(failures))

    def take_bytes(self) -> int:
        """Bytes crossed since the last call."""
        crossed, self.bytes_crossed = self.bytes_crossed, 0
        return crossed

    def close(self) -> None:
        """End the processes."""
        ray = require_ray()
        for process in self._processes:
            ray.kill(process)


def _results(pending: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """What the processes return; a fault of the reward function's own as the ValueError that it is.

    Raises:
        ValueError: The reward function cannot be loaded.
        WorkerError: A process died.
    """
    ray = require_ray()
    try:
        return list(ray.get(list(pending)))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ValueError):
            raise error.cause from error
        raise
    except ray.exceptions.RayError as error:
        raise WorkerError(f"a reward process died: {error}. Run the same command again to continue") from error


def _failure(row: Mapping[str, Any]) -> str:
    """Why a response could not be scored; empty when it was."""
    outcome = str(row.get("outcome", ""))
    return f"{outcome}: {row.get('error') or row.get('detail') or 'no reason given'}" if outcome in _FAILURES else ""


_FAILURES = ("error", "timeout")
# What a result says about a response that is no measurement of it, also where it is a number.
_NO_METRICS = {"outcome", "extracted", "detail", "error"}


def _metric_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys whose values are numbers wherever they occur."""
    kinds: dict[str, bool] = {}
    for row in rows:
        for name, value in row.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            kinds[name] = kinds.get(name, True) and is_number
    return sorted(name for name, numeric in kinds.items() if numeric and name not in _NO_METRICS)
