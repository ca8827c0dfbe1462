"""Reward functions from a user's file: loading, calling, and turning what goes wrong into outcomes."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import math
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from evr_rewards._pool import Task, WorkerPool, shared_pool
from evr_rewards.result import Outcome, failure

DEFAULT_NAME: Final = "main"
DEFAULT_TIMEOUT_S: Final = 60.0
_HANDLER: Final = "evr_rewards.user_functions:call_in_worker"
_BATCH_NAMES: Final = ("reward_inputs", "inputs", "records", "batch", "samples", "items", "rows")


@dataclass(frozen=True)
class UserReward:
    """A user's function behind the batch interface.

    Attributes:
        spec: Where it was loaded from.
        function: One record or a list of them in, dict(s) out; sync or async.
        kwargs: Passed on with every call.
        takes_batch: It wants all records at once.
        timeout_s: Limit per record; for a batch function, for the whole batch.
        workers: 0 calls it in this process: async ones run together, others one after the other in a thread, which is
            left behind when it does not end. From 1 on it runs in that many processes, which are killed when they do
            not end; records and kwargs must then be JSON values.
    """

    spec: str
    function: Callable[..., Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    takes_batch: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    workers: int = 0

    def __call__(self, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Results in the order of ``records``; what goes wrong becomes the outcome error or timeout."""
        given = [dict(record) for record in records]
        if not given:
            return []
        if not self.takes_batch:
            return [_checked(answer) for answer in self._answers(given)]
        answer = self._answers([given])[0]
        if isinstance(answer, list) and len(answer) == len(given):
            return [_checked(item) for item in answer]
        if not isinstance(answer, Exception):
            got = f"{len(answer)} results" if isinstance(answer, list) else type(answer).__name__
            answer = ValueError(
                f"the reward function gave {got} for {len(given)} records; it must give one dict for each"
            )
        return [_checked(answer) for _ in given]

    def _answers(self, arguments: list[Any]) -> list[Any]:
        """What the function gives for each argument; exceptions in their place."""
        if self.workers:
            payloads = [
                {"spec": self.spec, "kwargs": dict(self.kwargs), "argument": argument} for argument in arguments
            ]
            tasks = [Task(_HANDLER, payload) for payload in payloads]
            return self._pool.map(tasks, timeout_s=self.timeout_s, lanes=self.workers)
        if inspect.iscoroutinefunction(self.function):
            return _run(self._together(arguments))
        return [self._in_thread(argument) for argument in arguments]

    @property
    def _pool(self) -> WorkerPool:
        return shared_pool("evr_rewards.user_functions")

    async def _together(self, arguments: list[Any]) -> list[Any]:
        async def one(argument: Any) -> Any:
            try:
                return await asyncio.wait_for(self.function(argument, **self.kwargs), self.timeout_s)
            except TimeoutError:
                return TimeoutError(f"no result after {self.timeout_s:g} s")

        return list(await asyncio.gather(*map(one, arguments), return_exceptions=True))

    def _in_thread(self, argument: Any) -> Any:
        box: list[Any] = []

        def call() -> None:
            try:
                box.append(_settle(self.function(argument, **self.kwargs)))
            except Exception as error:  # noqa: BLE001 - a user's code: whatever it raises becomes a visible outcome
                box.append(error)

        thread = threading.Thread(target=call, daemon=True, name="reward-function")
        thread.start()
        thread.join(self.timeout_s)
        return box[0] if box else TimeoutError(f"no result after {self.timeout_s:g} s")


def call_in_worker(payload: Mapping[str, Any]) -> Any:
    """Call a user's function in a worker process (see `_pool`)."""
    function, _ = find_function(payload["spec"])
    return _settle(function(payload["argument"], **payload["kwargs"]))


def _settle(answer: Any) -> Any:
    """The answer itself, awaited when it is a coroutine."""
    return asyncio.run(answer) if inspect.iscoroutine(answer) else answer


def _run(coroutine: Coroutine[Any, Any, list[Any]]) -> list[Any]:
    """Run a coroutine from anywhere, also from inside a running loop (then in a thread of its own)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    box: list[list[Any]] = []
    thread = threading.Thread(target=lambda: box.append(asyncio.run(coroutine)), name="reward-loop")
    thread.start()
    thread.join()
    return box[0]


def _checked(result: Any) -> dict[str, Any]:
    """A function's result as the record that reward functions give."""
    if isinstance(result, TimeoutError):
        return failure(Outcome.TIMEOUT, str(result)).to_dict()
    if isinstance(result, BaseException):
        return failure(Outcome.ERROR, f"{type(result).__name__}: {result}").to_dict()
    if isinstance(result, (int, float)) and not isinstance(result, bool):
        result = {"overall": float(result)}
    overall = result.get("overall") if isinstance(result, Mapping) else None
    if not isinstance(overall, (int, float)) or not math.isfinite(overall):
        message = (
            f"the reward function gave {str(result)[:120]!r}; it must give a dict with a finite number under 'overall'"
        )
        return failure(Outcome.ERROR, message).to_dict()
    return {"outcome": str(_guess(result)), **result, "overall": float(overall)}


def _guess(result: Mapping[str, Any]) -> Outcome:
    """Outcome for functions that state none, from accuracy, else from overall."""
    value = result.get("accuracy", result["overall"])
    if not isinstance(value, (int, float)):
        return Outcome.PARTIAL
    return Outcome.CORRECT if value >= 1 else Outcome.WRONG if value <= 0 else Outcome.PARTIAL


@cache
def find_function(spec: str) -> tuple[Callable[..., Any], ModuleType]:
    """The function and module that ``path/to/file.py:function`` names (default function: ``main``).

    Raises:
        ValueError: there is no such file or function.
    """
    path_text, separator, name = spec.rpartition(":")
    if not separator or name.endswith(".py") or "/" in name or "\\" in name:
        path_text, name = spec, DEFAULT_NAME
    path = Path(path_text).expanduser().resolve()
    if not path.is_file() or path.suffix != ".py":
        raise ValueError(f"reward function {spec!r}: {path} is no Python file; expected path/to/file.py:function")
    module = _import(path)
    function = getattr(module, name, None)
    if not callable(function):
        offered = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
        raise ValueError(
            f"reward function {spec!r}: no function {name!r} in {path}; it has {', '.join(offered) or 'none'}"
        )
    return cast(Callable[..., Any], function), module


@cache
def _import(path: Path) -> ModuleType:
    name = f"evr_user_reward_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def takes_batch(function: Callable[..., Any], module: ModuleType) -> bool:
    """Whether a function wants a list: by its annotation, the file's REWARD_TYPE, or its first parameter's name.

    Raises:
        ValueError: it takes no argument.
    """
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    if not parameters:
        raise ValueError(
            f"reward function {function.__name__!r} takes no argument; it must take a record or a list of them"
        )
    kind = _annotation(parameters[0])
    if kind in ("list", "sequence", "iterable", "tuple"):
        return True
    if kind in ("dict", "mapping"):
        return False
    declared = str(getattr(module, "REWARD_TYPE", "")).lower()
    return declared == "batch" if declared else parameters[0].name in _BATCH_NAMES


def _annotation(parameter: inspect.Parameter) -> str:
    """Name of the annotated type without module and parameters: "list" for ``list[dict]`` and ``typing.List``."""
    if parameter.annotation is inspect.Parameter.empty:
        return ""
    text = parameter.annotation if isinstance(parameter.annotation, str) else str(parameter.annotation)
    return text.removeprefix("<class '").removesuffix("'>").partition("[")[0].rpartition(".")[2].strip().lower()
