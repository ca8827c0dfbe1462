"""``evr train``: reinforcement learning from a configuration."""

from __future__ import annotations

from evr_apps.commands.options import Check, ConfigFile, Overrides

EXAMPLE = "Example: evr train --config run.yaml trainer.max_steps=100 worker.rollout.n=8"


def train(
    overrides: Overrides = None,
    config: ConfigFile = None,
    check: Check = False,
) -> None:
    """Train a policy by reinforcement learning.

    Settings are the defaults, then the YAML file, then the overrides. A run that was interrupted continues from its
    last complete checkpoint when the same command is given again.
    """
    from evr_apps.commands.console import console
    from evr_trainer.config import load_checked_config

    settings = load_checked_config(config, tuple(overrides or ()), media=())
    from evr_trainer import check_run
    from evr_trainer import train as run_training

    if check:
        check_run(settings)
        console().print("The configuration is ready to train.")
        return
    summary = run_training(settings)
    console().print(f"{summary.steps} steps done; last checkpoint: {summary.last_checkpoint}", soft_wrap=True)
