"""Checkpoint folders: written aside, renamed when complete, checked before use.

    root/global_step_20/
        actor/model/*.safetensors      weights, one file a rank (DCP)
        actor/optimizer/*.safetensors  optimizer moments, one file a rank (DCP)
        actor/optimizer.json           what of the optimizer is not a tensor
        state.json                     step, data position, best score, and a manifest of every other file

A folder counts only when its ``state.json`` is there and every file of the manifest has the size and digest it names.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Checkpoint", "CheckpointError", "CheckpointStore"]

_log = logging.getLogger(__name__)
_NAME = re.compile(r"global_step_(\d+)")
_STAGING = ".staging-"
_STATE_FILE = "state.json"


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, and why."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint folder."""

    path: Path
    step: int
    state: Mapping[str, Any]

    @property
    def actor_dir(self) -> Path:
        """Folder of the policy's weights and optimizer."""
        return self.path / "actor"


class CheckpointStore:
    """The checkpoints of one run under ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def begin(self, step: int) -> Path:
        """An empty staging folder for the checkpoint of ``step``; leftovers of killed writers are removed."""
        self.root.mkdir(parents=True, exist_ok=True)
        for leftover in self.root.glob(f"{_STAGING}*"):
            shutil.rmtree(leftover)
        staging = self.root / f"{_STAGING}global_step_{step}"
        (staging / "actor").mkdir(parents=True)
        return staging

    def commit(self, staging: Path, state: Mapping[str, Any]) -> Checkpoint:
        """Make the staged folder the checkpoint of its step: everything on disk first, then one rename."""
        files = sorted(p for p in staging.rglob("*") if p.is_file())
        manifest = {}
        for file in files:
            _fsync(file)
            manifest[file.relative_to(staging).as_posix()] = {"bytes": file.stat().st_size, "blake2b": _digest(file)}
        full_state = {**state, "files": manifest}
        state_file = staging / _STATE_FILE
        state_file.write_text(json.dumps(full_state, indent=1))
        _fsync(state_file)
        for folder in {staging, *(file.parent for file in files)}:
            _fsync(folder)
        final = self.root / staging.name.removeprefix(_STAGING)
        if final.exists():  # a damaged checkpoint of the same step, already passed over by `latest`
            shutil.rmtree(final)
        staging.rename(final)
        _fsync(self.root)
        return self.open(final)

    def open(self, path: Path) -> Checkpoint:
        """The checkpoint at ``path``.

        Raises:
            CheckpointError: When it is incomplete or a file is not what was saved; names the file.
        """
        match = _NAME.fullmatch(path.name)
        if match is None or not path.is_dir():
            raise CheckpointError(f"{path} is not a checkpoint folder (global_step_N)")
        try:
            state = json.loads((path / _STATE_FILE).read_text())
            manifest = state["files"]
        except FileNotFoundError:
            raise CheckpointError(f"{path} has no {_STATE_FILE}: it was not written to its end") from None
        except (json.JSONDecodeError, KeyError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{path / _STATE_FILE} is damaged: {error!r}") from error
        for name, expected in manifest.items():
            file = path / name
            if not file.is_file():
                raise CheckpointError(f"{file} is missing")
            if file.stat().st_size != expected["bytes"]:
                raise CheckpointError(f"{file} has {file.stat().st_size} bytes; {expected['bytes']} were saved")
            if _digest(file) != expected["blake2b"]:
                raise CheckpointError(f"{file} does not hold what was saved (its digest differs)")
        return Checkpoint(path, int(match.group(1)), state)

    def latest(self) -> Checkpoint | None:
        """The newest usable checkpoint, or None. Unusable newer ones are passed over with a warning."""
        for _, path in sorted(self._folders().items(), reverse=True):
            try:
                return self.open(path)
            except CheckpointError as error:
                _log.warning("checkpoint passed over: %s", error)
        return None

    def choose(self, load_from: Path | None, *, find_last: bool) -> Checkpoint | None:
        """The checkpoint that a run goes on from: the one asked for, else, with ``find_last``, the newest usable one.

        Raises:
            CheckpointError: The one asked for cannot be used.
        """
        if load_from is not None:
            return self.open(load_from)
        return self.latest() if find_last else None

    def prune(self, limit: int, best_step: int | None, *, current_step: int) -> list[Path]:
        """Remove all but the newest ``limit`` checkpoints and the best one; -1 keeps all. Returns what went.

        Folders of steps behind ``current_step``, the one just saved, are left alone: they are damaged or another run's,
        and must not count as newer than what can be used.
        """
        if limit == -1:
            return []
        folders = {step: path for step, path in self._folders().items() if step <= current_step}
        keep = set(sorted(folders)[-limit:]) | {best_step, current_step}
        gone = [path for step, path in folders.items() if step not in keep]
        for path in gone:
            shutil.rmtree(path)
        return gone

    def _folders(self) -> dict[int, Path]:
        if not self.root.is_dir():
            return {}
        matches = ((_NAME.fullmatch(path.name), path) for path in self.root.iterdir() if path.is_dir())
        return {int(match.group(1)): path for match, path in matches if match}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
