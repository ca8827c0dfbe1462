"""How the demo shows its progress: live bars on a terminal, one line per event elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


@dataclass(frozen=True)
class StageBar:
    """The bar of one stage."""

    _progress: Progress
    _task: TaskID

    def update(self, done: int, total: int, note: str = "") -> None:
        """``done`` of ``total`` are finished; ``note`` is shown beside the bar."""
        self._progress.update(self._task, completed=done, total=total, note=note)


class DemoDisplay:
    """Bars below one another, one per stage. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]\N{CHECK MARK}[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
            console=console,
            disable=not self._live,
        )

    def __enter__(self) -> DemoDisplay:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def stage(self, title: str) -> Iterator[StageBar]:
        """A bar for the stage that runs inside the block."""
        task = self._progress.add_task(f"{title:<24}", total=None, note="")
        if not self._live:
            self._console.print(f"{title} ...")
        yield StageBar(self._progress, task)
        self._progress.stop_task(task)

    def finish(self, bar: StageBar, title: str, *, wall_s: float, resumed: bool, note: str = "") -> None:
        """Marks a stage as done."""
        if resumed:
            note = f"finished earlier  {note}"
        total = self._progress.tasks[bar._task].total or 1
        bar.update(int(total), int(total), note)
        if not self._live:
            self._console.print(f"{title} done in {wall_s:.1f} s  {note}".rstrip())
