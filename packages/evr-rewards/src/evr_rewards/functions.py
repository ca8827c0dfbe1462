"""Reward functions: the built-in one, and those that users write in a file of their own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from evr_rewards.batch import BatchOptions, score_records
from evr_rewards.registry import canonical_type
from evr_rewards.result import RewardWeights
from evr_rewards.user_functions import DEFAULT_TIMEOUT_S, UserReward, find_function, takes_batch

Record = Mapping[str, Any]


class RewardFunction(Protocol):
    """Scores a batch of records (SPEC section 4).

    Every result holds ``overall`` (float) and ``outcome``; other numbers (``accuracy``, ``format``, ...) are metrics. A
    record that could not be scored has the outcome ``error`` or ``timeout`` and says why in ``error``.
    """

    def __call__(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        """Results in the order of ``records``."""
        ...


@dataclass(frozen=True)
class BuiltInReward:
    """Routes every record by its ``problem_type`` to the registered scorer."""

    options: BatchOptions = field(default_factory=BatchOptions)

    def __call__(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        """Results in the order of ``records``."""
        return [result.to_dict() for result in score_records(records, self.options)]


def load_reward_function(spec: str | Path | None = None, **kwargs: Any) -> RewardFunction:
    """The reward function that ``spec`` names.

    Args:
        spec: None for the built-in routing, else ``path/to/file.py:function`` (default ``main``). The function takes
            one record or a list of them, sync or async; kwargs are passed on.
        **kwargs: For the built-in: ``accuracy_weight``, ``format_weight``, ``require_thinking``, ``timeout_s``,
            ``batch_timeout_s``, ``workers``, ``scorers``, ``judge`` (a dict with ``base_url``, ``model`` and other
            fields of `ChatClient`; ``types`` and ``cache_dir`` besides). For a file: its own, and (unless
            it has parameters of these names) ``timeout_s`` and ``workers``, see `UserReward`.

    Raises:
        ValueError: the file or function does not exist, or a built-in option is unknown.
    """
    if spec is None:
        return built_in(**kwargs)
    function, module = find_function(str(spec))
    own = inspect.signature(function).parameters
    ours = {name: kwargs.pop(name) for name in ("timeout_s", "workers") if name in kwargs and name not in own}
    return UserReward(
        spec=str(spec),
        function=function,
        kwargs=kwargs,
        takes_batch=takes_batch(function, module),
        timeout_s=float(ours.get("timeout_s", DEFAULT_TIMEOUT_S)),
        workers=int(ours.get("workers", 0)),
    )


def built_in(
    *,
    accuracy_weight: float | None = None,
    format_weight: float | None = None,
    judge: Mapping[str, Any] | None = None,
    **options: Any,
) -> BuiltInReward:
    """The built-in reward function; one weight given fixes the other."""
    if accuracy_weight is None and format_weight is None:
        weights = RewardWeights()
    elif accuracy_weight is None:
        weights = RewardWeights(1 - cast(float, format_weight), cast(float, format_weight))
    else:
        weights = RewardWeights(accuracy_weight, 1 - accuracy_weight if format_weight is None else format_weight)
    given = {canonical_type(name): scorer for name, scorer in (options.pop("scorers", None) or {}).items()}
    options["scorers"] = {**(_judges(judge) if judge else {}), **given}
    known = BatchOptions.__dataclass_fields__.keys() - {"weights"}
    if unknown := options.keys() - known:
        allowed = ", ".join(sorted({*known, "accuracy_weight", "format_weight", "judge"}))
        raise ValueError(f"unknown option(s) {', '.join(sorted(unknown))} of the built-in reward; allowed: {allowed}")
    return BuiltInReward(BatchOptions(weights=weights, **options))


def _judges(settings: Mapping[str, Any]) -> dict[str, Any]:
    from evr_rewards.judge_client import AnswerCache, ChatClient
    from evr_rewards.judges import judge_scorers

    client = {name: value for name, value in settings.items() if name not in ("types", "cache_dir")}
    allowed = [name for name, item in ChatClient.__dataclass_fields__.items() if item.init and name != "cache"]
    if unknown := client.keys() - set(allowed):
        raise ValueError(
            f"unknown judge setting(s) {', '.join(sorted(unknown))}; allowed: {', '.join(allowed)}, types, cache_dir"
        )
    types = tuple(canonical_type(name) for name in settings.get("types", ("open-ended", "preference")))
    return judge_scorers(ChatClient(**client, cache=AnswerCache(settings.get("cache_dir"))), types)
