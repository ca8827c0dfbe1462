"""The plots of a training run, from the metrics it logged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evr_apps.report.jsonl import read_steps, series
from evr_apps.report.plots import Interval, interval_plot, line_plot
from evr_apps.report.scores import ScoreLine
from evr_eval import Estimate


@dataclass(frozen=True)
class Plot:
    """A drawn figure, its title and one line on how to read it."""

    title: str
    note: str
    svg: str


@dataclass(frozen=True)
class PhaseTime:
    """Mean seconds of one phase, and its share of the longest phase's."""

    name: str
    seconds: float
    share: float


def rl_plots(run_dir: Path, *, mismatch_limit: float) -> list[Plot]:
    """Reward, accuracy and log-prob mismatch of a reinforcement-learning run; only what the run logged."""
    rows = read_steps(run_dir / "metrics.jsonl")
    plots = []
    reward = _present(rows, {"overall": "reward/overall", "format": "reward/format"})
    if reward:
        note = "Mean over the step's sampled responses; thin: each step, bold: mean of 5 steps."
        plots.append(Plot("Training reward", note, line_plot("reward", reward, percent=True, smooth=5)))
    accuracy = _present(rows, {"training": "reward/accuracy", "held out": _validation_key(rows)})
    if accuracy:
        note = "Sampled answers during training, and validation on held-out questions where it was run."
        plots.append(Plot("Accuracy", note, line_plot("accuracy", accuracy, percent=True, smooth=5)))
    mismatch = _present(rows, {"largest difference": "mismatch/max"})
    steps, values = mismatch.get("largest difference", ([], []))
    if any(value > 0 for value in values):
        positive = [(step, value) for step, value in zip(steps, values, strict=True) if value > 0]
        curve = {"largest difference": ([s for s, _ in positive], [v for _, v in positive])}
        svg = line_plot("mismatch", curve, log=True, limit=(mismatch_limit, f"allowed: {mismatch_limit:g}"))
        note = "Largest log-prob difference between the rollout engine and the policy, over all sampled tokens."
        plots.append(Plot("Rollout and policy agree", note, svg))
    return plots


def sft_plot(sft_dir: Path) -> list[Plot]:
    """Loss of the supervised warm-up."""
    curve = _present(read_steps(sft_dir / "metrics.jsonl"), {"loss": "sft/loss"})
    if not curve:
        return []
    note = "Cross-entropy per answer token of the supervised warm-up that the policy starts from."
    return [Plot("Cold-start loss", note, line_plot("sft", curve, smooth=10))]


def score_plot(lines: Sequence[ScoreLine]) -> str:
    """Before and after per problem type with their intervals."""
    rows = [(line.name, _interval(line.before), _interval(line.after)) for line in lines]
    return interval_plot("scores", rows)


def phase_times(run_dir: Path) -> list[PhaseTime]:
    """Mean time of each phase of a step, longest first; the step as a whole is left out."""
    rows = read_steps(run_dir / "metrics.jsonl")
    names = sorted({key for row in rows for key in row if key.startswith("timing_s/")} - {"timing_s/step"})
    means = {name.removeprefix("timing_s/").replace("_", " "): _mean(series(rows, name)[1]) for name in names}
    longest = max(means.values(), default=0.0)
    phases = [PhaseTime(name, mean, mean / longest if longest else 0.0) for name, mean in means.items()]
    return sorted(phases, key=lambda phase: -phase.seconds)


def _present(rows: list[dict[str, Any]], keys: dict[str, str | None]) -> dict[str, tuple[list[int], list[float]]]:
    found = {label: series(rows, key) for label, key in keys.items() if key is not None}
    return {label: curve for label, curve in found.items() if curve[0]}


def _validation_key(rows: list[dict[str, Any]]) -> str | None:
    keys = sorted({key for row in rows for key in row if key.startswith("val/") and key.endswith("accuracy")}, key=len)
    return keys[0] if keys else None


def _interval(estimate: Estimate | None) -> Interval | None:
    return None if estimate is None else Interval(estimate.value, estimate.low, estimate.high)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
