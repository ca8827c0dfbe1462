"""Where metrics go: the console, a JSONL file, TensorBoard."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

__all__ = [
    "ConsoleTracker",
    "FileTracker",
    "TensorBoardTracker",
    "Tracker",
    "make_trackers",
    "open_trackers",
    "rewind_jsonl",
]

CONSOLE_KEYS = (
    "reward/overall",
    "reward/accuracy",
    "val/accuracy",
    "sft/loss",
    "actor/pg_loss",
    "actor/grad_norm",
    "response_length/mean",
    "mismatch/max",
    "timing_s/step",
)


class Tracker(Protocol):
    """Takes the metrics of each step."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class ConsoleTracker:
    """One line a step with the metrics one looks at first."""

    def __init__(self, total_steps: int, print_line: Callable[[str], None] | None = None) -> None:
        from rich.console import Console

        self.total_steps = total_steps
        self._print = print_line or Console(highlight=False, soft_wrap=True).print

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print the line of a step."""
        parts = [f"{key} {_short(metrics[key])}" for key in CONSOLE_KEYS if key in metrics]
        self._print(f"step {step}/{self.total_steps}  " + "  ".join(parts))

    def close(self) -> None:
        """Nothing to release."""


class FileTracker:
    """Appends one JSON object a step to ``metrics.jsonl``; rows behind ``resumed_step`` are dropped first."""

    def __init__(self, log_dir: Path, resumed_step: int) -> None:
        self.path = log_dir / "metrics.jsonl"
        rewind_jsonl(self.path, resumed_step)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append a row; a number that is not finite becomes null, as JSON has none."""
        row = {"step": step, **{key: value if math.isfinite(value) else None for key, value in metrics.items()}}
        with self.path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")

    def close(self) -> None:
        """Nothing to release."""


class TensorBoardTracker:
    """Event files in ``tensorboard/``; a resumed run hides what it writes again."""

    def __init__(self, log_dir: Path, resumed_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(log_dir / "tensorboard"), purge_step=resumed_step + 1)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write every metric."""
        for key, value in metrics.items():
            self._writer.add_scalar(key, value, step)

    def close(self) -> None:
        """Flush and close the file."""
        self._writer.close()


def make_trackers(
    names: Iterable[str],
    log_dir: Path,
    *,
    total_steps: int,
    resumed_step: int,
    print_line: Callable[[str], None] | None = None,
) -> list[Tracker]:
    """The trackers by their names in ``trainer.logger``; ``metrics.jsonl`` is always written."""
    log_dir.mkdir(parents=True, exist_ok=True)
    trackers: list[Tracker] = [FileTracker(log_dir, resumed_step)]
    for name in names:
        if name == "console":
            trackers.append(ConsoleTracker(total_steps, print_line))
        elif name == "tensorboard":
            trackers.append(TensorBoardTracker(log_dir, resumed_step))
        elif name != "file":
            raise ValueError(f"trainer.logger={name} is not available; allowed: console, file, tensorboard")
    return trackers


@contextmanager
def open_trackers(
    names: Iterable[str],
    log_dir: Path,
    *,
    total_steps: int,
    resumed_step: int,
    print_line: Callable[[str], None] | None = None,
) -> Iterator[list[Tracker]]:
    """``make_trackers`` for the time of the block; closed however it ends, so that what was logged is on disk."""
    trackers = make_trackers(names, log_dir, total_steps=total_steps, resumed_step=resumed_step, print_line=print_line)
    try:
        yield trackers
    finally:
        for tracker in trackers:
            tracker.close()


def rewind_jsonl(path: Path, step: int) -> None:
    """Keep only whole rows up to ``step``: those behind it are about to be written again."""
    if not path.exists():
        return
    kept: list[str] = []
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue  # the torn last line of a killed process
        if row["step"] <= step:
            kept.append(line)
    write_atomically(path, "".join(line + "\n" for line in kept))


def write_atomically(path: Path, text: str) -> None:
    """Replace a file by one rename, so that no reader or crash sees half of it."""
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    staging.write_text(text)
    staging.replace(path)


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e-2 or abs(value) >= 1e4 else f"{value:.3f}"


def log_all(trackers: Sequence[Tracker], step: int, metrics: Mapping[str, float]) -> None:
    """Give a step's metrics to every tracker."""
    for tracker in trackers:
        tracker.log(step, metrics)
