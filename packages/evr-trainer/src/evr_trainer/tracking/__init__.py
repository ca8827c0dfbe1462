"""Metrics, status and generations of a run."""

from __future__ import annotations

from evr_trainer.tracking.generations import GenerationLog
from evr_trainer.tracking.status import PhaseClock
from evr_trainer.tracking.trackers import Tracker, log_all, make_trackers, open_trackers, rewind_jsonl

__all__ = ["GenerationLog", "PhaseClock", "Tracker", "log_all", "make_trackers", "open_trackers", "rewind_jsonl"]
