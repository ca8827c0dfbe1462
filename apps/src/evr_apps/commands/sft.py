"""``evr sft``: cold-start supervised fine-tuning."""

from __future__ import annotations

from evr_apps.commands.options import Check, ConfigFile, Overrides

EXAMPLE = "Example: evr sft --config sft.yaml optim.lr=1e-5 trainer.max_steps=200"


def sft(
    overrides: Overrides = None,
    config: ConfigFile = None,
    check: Check = False,
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
