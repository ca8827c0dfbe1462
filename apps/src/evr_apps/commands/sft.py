"""``evr sft``: cold-start supervised fine-tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: evr sft --config sft.yaml optim.lr=1e-5 trainer.max_steps=200"


def sft(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Dotted overrides; config=FILE works here too."),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="YAML file with the run's settings.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check settings, paths and records, then stop before any model loads.")
    ] = False,
) -> None:
    """Fine-tune a model on records with answers: the cold start of reinforcement learning.

    A run that was interrupted continues from its last complete checkpoint when the same command is given again.
    """
    from evr_apps.commands.console import console
    from evr_trainer.config import load_sft_config

    settings = load_sft_config(config, tuple(overrides or ()))
    from evr_trainer import check_sft_run, train_sft

    if check:
        check_sft_run(settings)
        console().print("The configuration is ready to train.")
        return
    summary = train_sft(settings)
    console().print(f"{summary.steps} steps done; model: {summary.model_dir}", soft_wrap=True)
