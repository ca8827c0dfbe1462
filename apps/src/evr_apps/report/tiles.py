"""The few numbers at the head of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evr_apps.report.jsonl import read_steps, series
from evr_apps.report.scores import ScoreLine


@dataclass(frozen=True)
class Tile:
    """One number, where it started (or an empty text), and what it means."""

    label: str
    value: str
    note: str
    start: str = ""


def headline_tiles(lines: Sequence[ScoreLine], rl_dir: Path | None) -> list[Tile]:
    """Tiles for what was measured; what was not has no tile."""
    tiles = []
    before, after = (lines[-1].before, lines[-1].after) if lines else (None, None)
    if before is not None and after is not None:
        start, end = (f"{100 * estimate.value:.1f} %" for estimate in (before, after))
        tiles.append(Tile("Held-out accuracy", end, _accuracy_note(lines[-1]), start))
    if rl_dir is not None:
        tiles += _run_tiles(rl_dir)
    return tiles


def _accuracy_note(line: ScoreLine) -> str:
    note = f"{line.count} questions the policy never saw"
    if line.change is None or line.change.low is None or line.change.high is None:
        return note
    low, high = (f"{100 * value:+.1f}".replace("-", "\N{MINUS SIGN}") for value in (line.change.low, line.change.high))
    return f"{note}; change {low} to {high} points (95 % interval)"


def _run_tiles(rl_dir: Path) -> list[Tile]:
    rows = read_steps(rl_dir / "metrics.jsonl")
    tiles = []
    reward = series(rows, "reward/overall")[1]
    if reward:
        window = min(5, len(reward))
        start, end = (sum(part) / window for part in (reward[:window], reward[-window:]))
        note = f"Mean of the first and the last {window} of {len(reward)} steps"
        tiles.append(Tile("Reward", f"{end:.2f}", note, f"{start:.2f}"))
    mismatch = series(rows, "mismatch/max")[1]
    if mismatch:
        note = "Largest log-prob difference of any sampled token, all steps"
        tiles.append(Tile("Rollout and policy agree to", f"{max(mismatch):.1e}", note))
    sent = series(rows, "media/bytes_per_sample")[1]
    if sent:
        note = "Largest mean per step between processes; frames stay in the cache"
        tiles.append(Tile("Sent per sample", f"{max(sent) / 1000:.1f} kB", note))
    return tiles
