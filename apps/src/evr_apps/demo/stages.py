"""Stages that a kill cannot make twice or half: what is finished is kept, what has other inputs is made anew."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class StageResult:
    """A finished stage.

    Attributes:
        key: Digest of the stage's inputs and, through them, of every stage before it.
        outputs: What the stage reported, as JSON.
        wall_s: Seconds it took, attempts included that ended in an error or an interrupt.
        resumed: Whether it was found finished.
    """

    key: str
    outputs: Mapping[str, Any]
    wall_s: float
    resumed: bool


class Stages:
    """Runs named stages in one folder and remembers, beside their outputs, which of them are finished.

    A stage that was interrupted is called again and finds the files that it had written; a stage whose inputs changed
    finds its folder empty.
    """

    def __init__(self, out_dir: Path) -> None:
        self._out_dir = out_dir
        self._marks = out_dir / ".stages"

    def run(
        self,
        name: str,
        inputs: Mapping[str, Any],
        work: Callable[[], Mapping[str, Any]],
        *,
        after: tuple[StageResult, ...] = (),
    ) -> StageResult:
        """The result of a stage: as recorded when it is finished, else of calling ``work``.

        Args:
            name: The stage; files under ``out_dir/name`` belong to it.
            inputs: JSON-able values that decide the outcome.
            work: Does it and returns JSON-able outputs.
            after: Results of the stages that this one builds on.
        """
        key = _digest({"name": name, "inputs": dict(inputs), "after": [result.key for result in after]})
        mark = self._read(name)
        if mark.get("key") != key:
            shutil.rmtree(self._out_dir / name, ignore_errors=True)
            mark = {"key": key, "wall_s": 0.0}
            self._write(name, mark)
        if "outputs" in mark:
            return StageResult(key, mark["outputs"], mark["wall_s"], resumed=True)
        since = time.perf_counter()
        try:
            outputs = dict(work())
        except BaseException:
            self._write(name, mark | {"wall_s": mark["wall_s"] + time.perf_counter() - since})
            raise
        mark |= {"outputs": outputs, "wall_s": mark["wall_s"] + time.perf_counter() - since}
        self._write(name, mark)
        return StageResult(key, outputs, mark["wall_s"], resumed=False)

    def _read(self, name: str) -> dict[str, Any]:
        path = self._marks / f"{name}.json"
        try:
            mark = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        assert isinstance(mark, dict)
        return mark

    def _write(self, name: str, mark: Mapping[str, Any]) -> None:
        self._marks.mkdir(parents=True, exist_ok=True)
        staged = self._marks / f"{name}.json.tmp"
        with staged.open("w", encoding="utf-8") as file:
            json.dump(mark, file)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(self._marks / f"{name}.json")


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
