"""From the files of a run to one HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evr_apps.report.clips import Clip, Group, held_out_clips, training_groups
from evr_apps.report.curves import Plot, phase_times, rl_plots, score_plot, sft_plot
from evr_apps.report.scores import ScoreLine, compare, outcome_table, read_evaluation, score_table
from evr_apps.report.tiles import headline_tiles

HELD_OUT_FILE = "held-out.jsonl"


@dataclass(frozen=True)
class ReportSources:
    """What a report is made from; a section without its source is left out.

    Attributes:
        rl_dir: Folder of a reinforcement-learning run (metrics.jsonl, generations.jsonl).
        sft_dir: Folder of a supervised run (metrics.jsonl).
        before_dir: Evaluation before training (summary.json, results.jsonl).
        after_dir: Evaluation after training.
        samples_file: Held-out records with the handles of their media, one JSON object a line.
        facts: Short facts for the head of the page, label to value.
        command: The command that made the run.
        note: What a reader has to know about the run.
        mismatch_limit: Largest allowed log-prob difference between rollout engine and policy.
    """

    rl_dir: Path | None = None
    sft_dir: Path | None = None
    before_dir: Path | None = None
    after_dir: Path | None = None
    samples_file: Path | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    note: str = ""
    mismatch_limit: float = 1e-4


def sources_of(folder: Path) -> ReportSources:
    """The sources in a demo's folder, or in a plain run's folder.

    Raises:
        ValueError: Neither lies there.
    """
    if (folder / "rl" / "metrics.jsonl").is_file():
        summary = folder / "summary.json"
        known = json.loads(summary.read_text(encoding="utf-8")) if summary.is_file() else {}
        return ReportSources(
            rl_dir=folder / "rl",
            sft_dir=_if_file(folder / "sft", "metrics.jsonl"),
            before_dir=_if_file(folder / "eval-before", "summary.json"),
            after_dir=_if_file(folder / "eval-after", "summary.json"),
            samples_file=_if_file(folder / "cache" / HELD_OUT_FILE),
            facts={key: str(known[key]) for key in ("seed", "rollout", "steps") if key in known},
            command=str(known.get("command", "")),
            note=str(known.get("note", "")),
        )
    if (folder / "metrics.jsonl").is_file():
        return ReportSources(rl_dir=folder)
    raise ValueError(
        f"{folder} holds neither a demo (rl/metrics.jsonl) nor a training run (metrics.jsonl); "
        "give the folder that `evr demo` or `evr train` wrote to"
    )


def build_report(sources: ReportSources, out: Path) -> Path:
    """Write the page; it needs no network and no other file.

    Returns:
        The path written.

    Raises:
        ValueError: A source is damaged or incomplete; names the file.
    """
    environment = Environment(
        loader=PackageLoader("evr_apps.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "points": _points, "seconds": _seconds}
    html = environment.get_template("report.html.j2").render(_context(sources))
    out.parent.mkdir(parents=True, exist_ok=True)
    staged = out.with_suffix(".html.tmp")
    staged.write_text(html, encoding="utf-8")
    staged.replace(out)
    return out


def _context(sources: ReportSources) -> dict[str, Any]:
    before = read_evaluation(sources.before_dir) if sources.before_dir else None
    after = read_evaluation(sources.after_dir) if sources.after_dir else None
    lines = score_table(before, after, compare(sources.before_dir, sources.after_dir))
    plots: list[Plot] = rl_plots(sources.rl_dir, mismatch_limit=sources.mismatch_limit) if sources.rl_dir else []
    plots += sft_plot(sources.sft_dir) if sources.sft_dir else []
    clips: list[Clip] = held_out_clips(sources.samples_file, before, after) if sources.samples_file else []
    generations = _if_file(sources.rl_dir, "generations.jsonl") if sources.rl_dir else None
    groups: list[Group] = training_groups(generations / "generations.jsonl") if generations else []
    return {
        "title": _title(lines),
        "tiles": headline_tiles(lines, sources.rl_dir),
        "facts": dict(sources.facts),
        "command": sources.command,
        "note": sources.note,
        "lines": lines,
        "score_svg": score_plot(lines) if lines else None,
        "outcomes": outcome_table(before, after),
        "plots": plots,
        "phases": phase_times(sources.rl_dir) if sources.rl_dir else [],
        "clips": clips,
        "groups": groups,
    }


def _title(lines: list[ScoreLine]) -> str:
    """What the run did to held-out accuracy, in a sentence."""
    before, after = (lines[-1].before, lines[-1].after) if lines else (None, None)
    if before is None or after is None:
        return "A training run"
    start, end = _percent(before.value), _percent(after.value)
    if start == end:
        return f"Held-out accuracy stayed at {end}"
    verb = "rose" if after.value > before.value else "fell"
    return f"Held-out accuracy {verb} from {start} to {end}"


def _if_file(folder: Path, name: str = "") -> Path | None:
    """The path when it, or the named file in it, is there."""
    return folder if (folder / name if name else folder).is_file() else None


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "\N{MINUS SIGN}")


def _seconds(value: float) -> str:
    if value < 0.01:
        return "< 0.01 s"
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"
