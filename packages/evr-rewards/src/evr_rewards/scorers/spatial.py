"""Spatial grounding: box IoU."""

from __future__ import annotations

import re
from typing import Any, Final

from evr_core.schema import Sample
from evr_rewards.extraction import AMBIGUOUS, Ambiguous, Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._boxes import Box, boxes_in, mean_matched_iou
from evr_rewards.scorers._lenient_json import cut_off, strict_or_lenient

_MAX_BOXES: Final = 64
_RUN: Final = re.compile(r"-?\d+(?:\.\d+)?(?:(?:\s*,\s*|\s+)-?\d+(?:\.\d+)?)*")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_CORNERS: Final = re.compile(
    r"\(\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*\)\W{0,6}(?:to|and)?\W{0,6}\(\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*\)"
)


def read_boxes(text: str, form: Form) -> tuple[Box, ...] | Ambiguous | None:
    """The boxes that a passage gives: JSON, "(x1, y1), (x2, y2)", or four numbers."""
    values = strict_or_lenient(text) if any(char in text for char in "{[(") else []
    found = [boxes for value in values if (boxes := boxes_in(value)) is not None and len(boxes) <= _MAX_BOXES]
    if not found and not cut_off(text):
        groups = [match.groups() for match in _CORNERS.finditer(text)]
        groups += [tuple(_NUMBER.findall(match[0])) for match in _RUN.finditer(text)]
        found = [boxes for group in groups if len(group) == 4 and (boxes := boxes_in(list(group))) is not None]
    distinct = list(dict.fromkeys(found))
    if len(distinct) > 1:
        return distinct[0] if form is Form.STATEMENT else AMBIGUOUS if form is Form.VALUE else None
    return distinct[0] if distinct else None


def extract_boxes(text: str, *, truncated: bool = False) -> Extraction:
    """The boxes that ``text`` gives; the value is a tuple of (x1, y1, x2, y2)."""
    return extract(text, read_boxes, truncated=truncated)


class SpatialGrounding:
    """Scorer of spatial grounding."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The box, or several."""
        return extract_boxes(response, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Box IoU; for several boxes the mean over the best pairs."""
        truth = read_boxes(sample.answer, Form.VALUE)
        if truth is None or isinstance(truth, Ambiguous):
            raise TruthError(f'answer {sample.answer[:80]!r} holds no box; expected {{"boxes": [x1, y1, x2, y2]}}')
        return Grade(mean_matched_iou(value, truth), {"value": [list(box) for box in value]})
