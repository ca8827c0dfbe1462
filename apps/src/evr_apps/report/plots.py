"""Line and interval plots as inline SVG that follows the page's colours, in light and in dark.

matplotlib draws with placeholder colours; each is then replaced by a CSS variable of the page. Text stays text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

_PALETTE = {
    "ink": "#010101",
    "muted": "#020202",
    "grid": "#030303",
    "one": "#040404",
    "two": "#050505",
    "three": "#060606",
}
_SERIES = ("one", "three", "two")
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.size": 9,
    "axes.edgecolor": _PALETTE["grid"],
    "axes.labelcolor": _PALETTE["muted"],
    "text.color": _PALETTE["ink"],
    "xtick.color": _PALETTE["muted"],
    "ytick.color": _PALETTE["muted"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _PALETTE["grid"],
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval; None where there are too few clusters for one."""

    value: float
    low: float | None
    high: float | None


def line_plot(
    name: str,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    percent: bool = False,
    log: bool = False,
    smooth: int = 1,
    limit: tuple[float, str] | None = None,
) -> str:
    """Curves over training steps.

    Args:
        name: Prefix of the SVG's ids, unique on the page.
        curves: Label to (steps, values); the first three are drawn in the page's series colours.
        percent: Values are shares; the axis runs from 0 to 1 and reads in percent.
        log: Logarithmic axis.
        smooth: Window of a moving average drawn over the raw values; 1 for none.
        limit: A horizontal line and its label.
    """
    with rc_context(_RC | {"svg.hashsalt": name}):
        figure = Figure(figsize=(4.7, 2.45))
        axes = figure.add_subplot()
        for colour, (label, (steps, values)) in zip(_SERIES, curves.items(), strict=False):
            _draw_curve(axes, list(steps), list(values), _PALETTE[colour], label, smooth)
        if limit is not None:
            axes.axhline(limit[0], color=_PALETTE["muted"], linewidth=0.9, linestyle=(0, (3, 3)))
            axes.annotate(
                limit[1], (1, limit[0]), (0, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                ha="right", color=_PALETTE["muted"], fontsize=9,
            )  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.set_xlabel("step")
        if percent:
            axes.set_ylim(0, 1.02)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        if log:
            axes.set_yscale("log")
        if len(curves) > 1:
            figure.legend(loc="upper left", ncols=3, bbox_to_anchor=(0.03, 1.0), handlelength=1.2, columnspacing=1.4)
        figure.subplots_adjust(left=0.13, right=0.97, top=0.88 if len(curves) > 1 else 0.95, bottom=0.19)
        return _to_svg(figure, name)


def interval_plot(name: str, rows: Sequence[tuple[str, Interval | None, Interval | None]]) -> str:
    """Before and after per row as points with their 95 % intervals; rows read from top to bottom."""
    with rc_context(_RC | {"svg.hashsalt": name, "axes.grid.axis": "x"}):
        figure = Figure(figsize=(4.7, 0.62 + 0.34 * len(rows)))
        axes = figure.add_subplot()
        for index, (_, before, after) in enumerate(rows):
            _draw_interval(axes, index - 0.15, before, "two")
            _draw_interval(axes, index + 0.15, after, "one")
        axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(0, 1.0)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        height = figure.get_figheight()
        figure.subplots_adjust(left=0.3, right=0.955, top=1 - 0.06 / height, bottom=0.36 / height)
        return _to_svg(figure, name)


def _draw_curve(axes: Axes, steps: list[float], values: list[float], colour: str, label: str, smooth: int) -> None:
    few = len(steps) <= 12
    if smooth > 1 and len(values) > smooth:
        axes.plot(steps, values, color=colour, linewidth=0.9, alpha=0.3)
        values = [
            sum(part) / len(part) for part in (values[max(0, i + 1 - smooth) : i + 1] for i in range(len(values)))
        ]
    axes.plot(steps, values, color=colour, linewidth=1.7, label=label, marker="o" if few else None, markersize=3)


def _draw_interval(axes: Axes, y: float, interval: Interval | None, colour: str) -> None:
    if interval is None:
        return
    if interval.low is not None and interval.high is not None:
        axes.plot(
            [interval.low, interval.high], [y, y], color=_PALETTE[colour], linewidth=1.6, alpha=0.55,
            solid_capstyle="round",
        )  # fmt: skip
    axes.plot([interval.value], [y], color=_PALETTE[colour], marker="o", markersize=4.2, clip_on=False)


def _to_svg(figure: Figure, name: str) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r'\1 aria-hidden="true"', text, count=1)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = text.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'xlink:href="#{name}-')
    text = re.sub(r"'DejaVu Sans'[^;\"]*|sans-serif", "inherit", text)
    for variable, colour in _PALETTE.items():
        text = text.replace(colour, f"var(--{variable})")
    return text
