"""Reward functions: the built-in one, and those that users write in a file of their own."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol, cast

from evr_rewards.batch import BatchOptions, score_records
from evr_rewards.registry import canonical_type
from evr_rewards.result import Outcome, RewardWeights, failure

Record = Mapping[str, Any]
DEFAULT_NAME: Final = "main"
DEFAULT_TIMEOUT_S: Final = 60.0


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
        spec: None for the built-in routing, else ``path/to/file.py:function`` (default name ``main``). The function takes
            one record or a list of them, sync or async; kwargs are passed on.
        **kwargs: For the built-in: ``accuracy_weight``, ``format_weight``, ``require_thinking``, ``timeout_s``,
            ``batch_timeout_s``, ``workers``, ``scorers``, ``judge`` (a dict with ``base_url``, ``model`` and other
            fields of `ChatClient`; ``types`` and ``cache_dir`` besides). For a file: its own, and ``timeout_s`` (taken here unless the
            function has a parameter of that name).

    Raises:
        ValueError: the file or function does not exist, or a built-in option is unknown.
    """
    if spec is None:
        return built_in(**kwargs)
    function, module = _load(str(spec))
    timeout_s = DEFAULT_TIMEOUT_S
    if "timeout_s" in kwargs and "timeout_s" not in inspect.signature(function).parameters:
        timeout_s = float(kwargs.pop("timeout_s"))
    return UserReward(partial(function, **kwargs), _takes_batch(function, module), timeout_s)


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


@dataclass(frozen=True)
class UserReward:
    """A user's function behind the batch interface.

    Attributes:
        function: The function with its kwargs bound.
        takes_batch: It wants all records at once.
        timeout_s: Limit per record; for a batch function, for the whole batch.
    """

    function: Callable[..., Any]
    takes_batch: bool
    timeout_s: float = DEFAULT_TIMEOUT_S

    def __call__(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        """Results in the order of ``records``; what goes wrong becomes the outcome error or timeout."""
        given = [dict(record) for record in records]
        if not given:
            return []
        if self.takes_batch:
            answer = self._guarded(given)
            if isinstance(answer, list) and len(answer) == len(given):
                return [_checked(item) for item in answer]
            if not (isinstance(answer, dict) and answer.get("outcome")):
                got = f"{len(answer)} results" if isinstance(answer, list) else type(answer).__name__
                answer = _failed(f"the reward function gave {got} for {len(given)} records; it must give one dict each")
            return [dict(answer) for _ in given]
        return [_checked(item) for item in asyncio_or_loop(self, given)]

    def _guarded(self, argument: Any) -> Any:
        """Call in a thread that is left behind when it takes too long; exceptions become a failed result."""
        box: list[Any] = []
        thread = threading.Thread(target=lambda: box.append(_call(self.function, argument)), daemon=True, name="reward")
        thread.start()
        thread.join(self.timeout_s)
        return box[0] if box else _failed(f"no result after {self.timeout_s} s", Outcome.TIMEOUT)


def asyncio_or_loop(reward: UserReward, records: list[dict[str, Any]]) -> list[Any]:
    """Results of a per-record function: async ones run together, others one after the other."""
    target = reward.function.func if isinstance(reward.function, partial) else reward.function
    if not inspect.iscoroutinefunction(target):
        return [reward._guarded(record) for record in records]

    async def one(record: dict[str, Any]) -> Any:
        try:
            return await asyncio.wait_for(reward.function(record), reward.timeout_s)
        except TimeoutError:
            return _failed(f"no result after {reward.timeout_s} s", Outcome.TIMEOUT)
        except Exception as error:  # noqa: BLE001 - a user's code: whatever it raises becomes a visible outcome
            return _failed(f"{type(error).__name__}: {error}")

    async def together() -> list[Any]:
        return list(await asyncio.gather(*(one(record) for record in records)))

    return _run(together())


def _call(function: Callable[..., Any], argument: Any) -> Any:
    try:
        answer = function(argument)
        return asyncio.run(_await(answer)) if inspect.isawaitable(answer) else answer
    except Exception as error:  # noqa: BLE001 - a user's code: whatever it raises becomes a visible outcome
        return _failed(f"{type(error).__name__}: {error}")


async def _await(answer: Awaitable[Any]) -> Any:
    return await answer


def _run(coroutine: Any) -> list[Any]:
    """Run a coroutine from anywhere, also from inside a running loop (then in a thread of its own)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return cast(list[Any], asyncio.run(coroutine))
    box: list[Any] = []
    thread = threading.Thread(target=lambda: box.append(asyncio.run(coroutine)), name="reward-loop")
    thread.start()
    thread.join()
    return cast(list[Any], box[0])


def _failed(message: str, outcome: Outcome = Outcome.ERROR) -> dict[str, Any]:
    return failure(outcome, message).to_dict()


def _checked(result: Any) -> dict[str, Any]:
    if isinstance(result, (int, float)) and not isinstance(result, bool):
        result = {"overall": float(result)}
    if not isinstance(result, Mapping) or not isinstance(result.get("overall"), (int, float)):
        return _failed(f"the reward function gave {str(result)[:120]!r}; expected a dict with a number under 'overall'")
    overall = float(result["overall"])
    if overall != overall or overall in (float("inf"), float("-inf")):
        return _failed(f"the reward function gave overall={overall}; it must be finite")
    return {"outcome": str(_guess(result)), **result, "overall": overall}


def _guess(result: Mapping[str, Any]) -> Outcome:
    """Outcome for functions that state none, from accuracy (or overall)."""
    value = result.get("accuracy", result["overall"])
    if not isinstance(value, (int, float)):
        return Outcome.PARTIAL
    return Outcome.CORRECT if value >= 1 else Outcome.WRONG if value <= 0 else Outcome.PARTIAL


def _load(spec: str) -> tuple[Callable[..., Any], ModuleType]:
    path_text, separator, name = spec.rpartition(":")
    if not separator or name.endswith(".py") or "/" in name or "\\" in name:
        path_text, name = spec, DEFAULT_NAME
    path = Path(path_text).expanduser().resolve()
    if not path.is_file():
        raise ValueError(f"reward function {spec!r}: no file {path}; expected path/to/file.py:function")
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    module_name = f"evr_user_reward_{path.stem}_{digest}"
    found = importlib.util.spec_from_file_location(module_name, path)
    if found is None or found.loader is None:
        raise ValueError(f"reward function {spec!r}: {path} is not a Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[module_name] = module  # dataclasses and pickling look the module up by name
    found.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        offered = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
        raise ValueError(
            f"reward function {spec!r}: no function {name!r} in {path}; it has {', '.join(offered) or 'none'}"
        )
    return cast(Callable[..., Any], function), module


_BATCH_NAMES: Final = ("reward_inputs", "inputs", "records", "batch", "samples", "items", "rows")


def _takes_batch(function: Callable[..., Any], module: ModuleType) -> bool:
    """Whether a function wants a list: by its annotation, the file's REWARD_TYPE, or its first parameter's name."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    if not parameters:
        raise ValueError(
            f"reward function {function.__name__!r} takes no argument; it must take a record or a list of them"
        )
    annotation = parameters[0].annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    kind = (
        str(text).rpartition(".")[2].partition("[")[0].strip().lower()
        if annotation is not inspect.Parameter.empty
        else ""
    )
    if kind in ("list", "sequence", "iterable", "tuple"):
        return True
    if kind in ("dict", "mapping", "rewardinput"):
        return False
    declared = str(getattr(module, "REWARD_TYPE", "")).lower()
    if declared:
        return declared == "batch"
    return parameters[0].name in _BATCH_NAMES
