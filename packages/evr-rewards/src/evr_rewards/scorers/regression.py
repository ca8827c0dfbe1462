"""Regression by mean relative accuracy (VSI-Bench, arXiv:2412.14171)."""

from __future__ import annotations

from typing import Any, Final

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction
from evr_rewards.result import Grade
from evr_rewards.scorers.numerical import extract_number, readings, true_number

# Relative errors allowed by the confidence thresholds .50, .55, ..., .95, in twentieths: exact where floats are not.
_ALLOWED_TWENTIETHS: Final = tuple(range(1, 11))
_ROUNDING: Final = 1e-9


def mean_relative_accuracy(value: float, truth: float) -> float:
    """Share of the thresholds .50 to .95 (step .05) with ``|value - truth| / |truth| <= 1 - threshold``.

    For a truth of 0 only 0 is right.
    """
    if truth == 0:
        return float(value == 0)
    error = abs(value - truth) / abs(truth)
    return sum(error * 20 <= allowed + _ROUNDING for allowed in _ALLOWED_TWENTIETHS) / len(_ALLOWED_TWENTIETHS)


class Regression:
    """Scorer of quantities."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The number."""
        return extract_number(response, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Mean relative accuracy."""
        truth = true_number(sample)
        accuracy = max(
            mean_relative_accuracy(found, expected)
            for found in readings(value, truth)
            for expected in readings(truth, value)
        )
        return Grade(accuracy, {"value": value.value, "truth": truth.value})
