"""One self-contained HTML page about a training run: curves, scores with intervals, clips with answers."""

from __future__ import annotations

from evr_apps.report.build import ReportSources, build_report, sources_of

__all__ = ["ReportSources", "build_report", "sources_of"]
