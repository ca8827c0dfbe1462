"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Dotted overrides; config=FILE works here too."),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML file with the run's settings.")]
Check = Annotated[
    bool, typer.Option("--check", help="Check settings, paths and records, then stop before any model loads.")
]
