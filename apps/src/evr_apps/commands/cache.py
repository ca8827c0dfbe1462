"""``evr cache``: look after the frame cache."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="List, check and shrink the frame cache.", no_args_is_help=True)
_Root = Annotated[
    Path | None, typer.Argument(exists=True, file_okay=False, help="Root of the cache; default ~/.cache/evr/frames.")
]
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}


@app.command("list", epilog="Example: evr cache list demo-output/transformers-seed0/cache/frames --limit 5")
def list_entries(
    root: _Root = None,
    limit: Annotated[int, typer.Option(min=0, help="Show only so many, the most recently used first; 0: all.")] = 20,
) -> None:
    """List the entries, the most recently used first, and the space they take."""
    from rich.table import Table

    from evr_apps.commands.console import console
    from evr_video import FrameCache

    entries = FrameCache(_root(root)).entries()
    table = Table("key", "kind", "size", "source", box=None, pad_edge=False)
    for entry in list(reversed(entries))[: limit or None]:
        table.add_row(entry.key[:12], entry.kind, _size(entry.num_bytes), entry.source)
    console().print(table)
    total = _size(sum(entry.num_bytes for entry in entries))
    console().print(f"{len(entries)} entries, {total}")


@app.command(epilog="Example: evr cache verify --repair")
def verify(
    root: _Root = None,
    repair: Annotated[bool, typer.Option("--repair", help="Remove damaged entries; they are made again.")] = False,
) -> None:
    """Read every entry in full and compare it with its digest; exit code 1 when one is damaged."""
    from evr_apps.commands.console import console
    from evr_video import FrameCache

    cache = FrameCache(_root(root))
    damaged = cache.verify()
    for key in damaged:
        console().print(f"damaged: {key}", soft_wrap=True)
        if repair:
            cache.remove(key)
    remedy = "removed" if repair else "evr cache verify --repair removes them"
    console().print(f"{len(damaged)} damaged; {remedy}" if damaged else "every entry is sound")
    if damaged and not repair:
        raise typer.Exit(1)


@app.command(epilog="Example: evr cache prune --max-size 200G")
def prune(
    max_size: Annotated[str, typer.Option("--max-size", help="Space to keep, such as 500M or 200G.")],
    root: _Root = None,
) -> None:
    """Remove the least recently used entries until the rest fits."""
    from evr_apps.commands.console import console
    from evr_video import FrameCache

    gone = FrameCache(_root(root)).prune(parse_size(max_size))
    console().print(f"{len(gone)} entries removed, {_size(sum(entry.num_bytes for entry in gone))} freed")


def parse_size(text: str) -> int:
    """Bytes of a size such as ``500M``, ``1.5G`` or ``1000``.

    Raises:
        ValueError: It is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip().upper())
    if match is None:
        raise ValueError(f"{text!r} is no size; write a number with K, M, G or T, such as 200G")
    return int(float(match[1]) * _UNITS[match[2]])


def _root(root: Path | None) -> Path:
    if root is not None:
        return root
    default = Path.home() / ".cache" / "evr" / "frames"
    if not default.is_dir():
        raise ValueError(f"there is no frame cache at {default}; give the root of yours")
    return default


def _size(num_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"
