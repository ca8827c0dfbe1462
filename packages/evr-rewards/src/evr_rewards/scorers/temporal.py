"""Temporal grounding: intersection over union in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._times import Interval, merge, read_intervals


def temporal_iou(first: Sequence[Interval], second: Sequence[Interval]) -> float:
    """Intersection over union of two sets of intervals, in seconds. Symmetric, in [0, 1]; equal sets give 1."""
    first, second = merge(list(first)), merge(list(second))
    if first == second:
        return 1.0
    shared = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second)
    union = _length(first) + _length(second) - shared
    return min(1.0, max(0.0, shared / union)) if union > 0 else 0.0


def _length(intervals: Sequence[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def extract_intervals(text: str, *, truncated: bool = False) -> Extraction:
    """The interval (or several, as JSON) that ``text`` gives; the value is a tuple of (start_s, end_s)."""
    return extract(text, read_intervals, truncated=truncated)


def true_intervals(sample: Sample) -> tuple[Interval, ...]:
    """The sample's ground truth as intervals.

    Raises:
        TruthError: it holds none.
    """
    truth = read_intervals(sample.answer, Form.VALUE)
    if isinstance(truth, tuple):
        return truth
    raise TruthError(f'answer {sample.answer[:80]!r} holds no time interval; expected {{"time": [start, end]}}')


class TemporalGrounding:
    """Scorer of temporal grounding."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The interval."""
        return extract_intervals(response, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Temporal IoU."""
        truth = true_intervals(sample)
        return Grade(temporal_iou(value, truth), {"value": [list(item) for item in value]})
