"""``evr demo``: everything once, on synthetic clips, on a laptop's CPU."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evr_apps.demo.run import DemoConfig, DemoSummary

app = typer.Typer(help="Train a tiny policy on synthetic clips from nothing to a report.")


class Engine(StrEnum):
    """Engines that write responses in training."""

    TRANSFORMERS = "transformers"
    VLLM = "vllm"


_Seed = Annotated[int, typer.Option(help="Decides clips, weights and samples; the same seed gives the same result.")]
_OutDir = Annotated[
    Path | None, typer.Option("--out-dir", "-o", help="Default: demo-output/ROLLOUT-seedSEED. Given again, it goes on.")
]


@app.callback(invoke_without_command=True, epilog="Example: evr demo --seed 1 --rollout vllm")
def demo(
    context: typer.Context,
    seed: _Seed = 0,
    rollout: Annotated[
        Engine, typer.Option(help="Engine that writes the responses in training.")
    ] = Engine.TRANSFORMERS,
    out_dir: _OutDir = None,
) -> None:
    """Train a tiny policy on synthetic clips from nothing to a report.

    Clips, an untrained model, supervised warm-up, GRPO, evaluation before and after, export, report.html. An
    interrupted demo continues when the same command is given again.
    """
    if context.invoked_subcommand is not None:
        return
    from evr_apps.commands.console import console
    from evr_apps.demo.display import DemoDisplay
    from evr_apps.demo.run import run_demo

    config = _config(seed, rollout, out_dir)
    terminal = console()
    with DemoDisplay(terminal) as display:
        summary = run_demo(config, display)
    terminal.print(_closing(summary, config.out_dir), soft_wrap=True)


@app.command(epilog="Example: evr demo data --out-dir clips --num-train 200")
def data(
    out_dir: Annotated[Path, typer.Option("--out-dir", "-o", help="Folder to write.")],
    seed: _Seed = 0,
    num_train: Annotated[int, typer.Option(min=1, help="Records for reinforcement learning.")] = 200,
    num_val: Annotated[int, typer.Option(min=1, help="Held-out records.")] = 100,
    num_sft: Annotated[int, typer.Option(min=1, help="Records for the supervised warm-up.")] = 200,
) -> None:
    """Write synthetic clips of moving shapes, with questions whose answers are known."""
    from evr_apps.commands.console import console
    from evr_apps.demo.data import generate_demo_data

    files = generate_demo_data(out_dir, seed=seed, num_train=num_train, num_val=num_val, num_sft=num_sft)
    for path in (files.train_file, files.val_file, files.sft_file):
        console().print(str(path), soft_wrap=True)


@app.command(epilog="Example: evr demo model --seed 1")
def model(seed: _Seed = 0, out_dir: _OutDir = None) -> None:
    """Build the tiny policy that the demo starts from: random weights, then a supervised warm-up."""
    from evr_apps.commands.console import console
    from evr_apps.demo.display import DemoDisplay
    from evr_apps.demo.run import prepare_policy

    terminal = console()
    with DemoDisplay(terminal) as display:
        folder, accuracy = prepare_policy(_config(seed, Engine.TRANSFORMERS, out_dir), display)
    terminal.print(f"Held-out accuracy {accuracy:.3f}\nModel: {folder}", soft_wrap=True)


def _config(seed: int, rollout: Engine, out_dir: Path | None) -> DemoConfig:
    from evr_apps.demo.run import DemoConfig

    folder = out_dir or Path("demo-output") / f"{rollout.value}-seed{seed}"
    return DemoConfig(out_dir=folder, seed=seed, rollout=rollout.value)


def _closing(summary: DemoSummary, out_dir: Path) -> str:
    gain = summary.accuracy_after - summary.accuracy_before
    return (
        f"\nMean reward        first 5 steps {summary.reward_first5:.3f}, last 5 steps {summary.reward_last5:.3f}"
        f"\nHeld-out accuracy  before {summary.accuracy_before:.3f}, after {summary.accuracy_after:.3f} ({gain:+.3f})"
        f"\nReport             {out_dir / 'report.html'}"
        f"\nNumbers            {out_dir / 'summary.json'}"
    )
