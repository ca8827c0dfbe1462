"""Spatial-temporal grounding: half temporal IoU, half mean box IoU over the union of seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._boxes import Box, track_iou
from evr_rewards.scorers._lenient_json import cut_off
from evr_rewards.scorers._times import Interval, read_intervals
from evr_rewards.scorers.temporal import temporal_iou
from evr_rewards.scorers.tracking import read_track


@dataclass(frozen=True)
class Tube:
    """A stretch of time with boxes by second."""

    intervals: tuple[Interval, ...]
    boxes: dict[float, Box]


def read_tube(text: str, form: Form) -> Tube | None:
    """Time and boxes from JSON; the time is required, boxes are not."""
    intervals = None if cut_off(text) else read_intervals(text, form)
    return Tube(intervals, read_track(text, form) or {}) if isinstance(intervals, tuple) else None


class SpatialTemporalGrounding:
    """Scorer of spatial-temporal grounding."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """Time and boxes."""
        return extract(response, read_tube, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """0.5 tIoU + 0.5 mean box IoU; tIoU alone when the truth has no boxes."""
        truth = read_tube(sample.answer, Form.VALUE)
        if truth is None:
            raise TruthError(
                f"answer {sample.answer[:80]!r} holds no time; "
                'expected {"time": [s, e], "boxes": {"3": [x1, y1, x2, y2]}}'
            )
        time_iou = temporal_iou(value.intervals, truth.intervals)
        if not truth.boxes:
            return Grade(time_iou, {"temporal_iou": time_iou})
        box = track_iou(value.boxes, truth.boxes)
        return Grade(0.5 * time_iou + 0.5 * box, {"temporal_iou": time_iou, "box_iou": box})
