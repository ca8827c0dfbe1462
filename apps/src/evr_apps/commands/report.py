"""``evr report``: one HTML page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: evr report demo-output/transformers-seed0"


def report(
    run: Annotated[Path, typer.Argument(help="Folder that `evr demo` or `evr train` wrote to.")],
    out: Annotated[Path | None, typer.Option(help="File to write; default report.html in the run's folder.")] = None,
    sft: Annotated[Path | None, typer.Option(exists=True, file_okay=False, help="Folder of a supervised run.")] = None,
    before: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Evaluation before training.")
    ] = None,
    after: Annotated[Path | None, typer.Option(exists=True, file_okay=False, help="Evaluation after training.")] = None,
) -> None:
    """Write a self-contained HTML page: curves, scores before and after with intervals, clips with answers."""
    import dataclasses

    from evr_apps.commands.console import console
    from evr_apps.report import build_report, sources_of

    found = sources_of(run)
    sources = dataclasses.replace(
        found,
        sft_dir=sft or found.sft_dir,
        before_dir=before or found.before_dir,
        after_dir=after or found.after_dir,
    )
    console().print(f"Report: {build_report(sources, out or run / 'report.html')}", soft_wrap=True)
