"""What all commands print with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """A console that drops colours and bars where there is no terminal."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def complain(message: str) -> None:
    """One message on standard error about something the user can mend."""
    from rich.text import Text

    head, _, rest = message.partition("\n")
    text = Text.assemble(("error: ", "bold red"), head, ("\n" + rest) if rest else "")
    console(stderr=True).print(text, soft_wrap=True)


@contextmanager
def counting(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error; the yielded function takes (done, total, note)."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", style="dim"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True)) as progress:
        task = progress.add_task(label, total=None, note="")

        def update(done: int, total: int, note: str = "") -> None:
            progress.update(task, completed=done, total=total, note=note)

        yield update
