"""Tracking: mean box IoU over the union of predicted and true seconds."""

from __future__ import annotations

from typing import Any

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._boxes import Box, track_in, track_iou
from evr_rewards.scorers._lenient_json import cut_off, strict_or_lenient


def read_track(text: str, form: Form) -> dict[float, Box] | None:
    """Boxes by second from the last JSON value that holds any."""
    if cut_off(text):
        return None
    for value in reversed(strict_or_lenient(text)):
        track = track_in(value)
        if track is not None:
            return track
    return None


class Tracking:
    """Scorer of tracking."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """Boxes by second."""
        return extract(response, read_track, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Mean box IoU over the union of seconds."""
        truth = read_track(sample.answer, Form.VALUE)
        if truth is None:
            raise TruthError(
                f"answer {sample.answer[:80]!r} holds no boxes by second; "
                'expected {"boxes": {"0": [x1, y1, x2, y2]}}'
            )
        return Grade(track_iou(value, truth), {"seconds": len(value)})
