"""Numerical answers: equal at 4 decimals, or within 0.015 (relative below 1)."""

from __future__ import annotations

from typing import Any, Final

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._numbers import Number, read_number

TOLERANCE: Final = 0.015
_ROUNDING_FROM: Final = 1e-3  # below this, 4 decimals say too little


def extract_number(text: str, *, truncated: bool = False) -> Extraction:
    """The number that ``text`` gives as its answer; the value is a `Number`."""
    return extract(text, read_number, truncated=truncated)


def true_number(sample: Sample) -> Number:
    """The sample's ground truth as a number.

    Raises:
        TruthError: it is none.
    """
    number = read_number(sample.answer, Form.VALUE)
    if isinstance(number, Number):
        return number
    raise TruthError(f"answer {sample.answer[:80]!r} is not a number")


def readings(number: Number, other: Number) -> tuple[float, ...]:
    """The values that ``number`` may stand for when compared with ``other``.

    A percentage is a fraction (50% is 0.5). Where the other side has no percent sign and is too large for a fraction,
    it may also be the plain number (50% against 50).
    """
    if not number.percent:
        return (number.value,)
    if other.percent:
        return (number.value,)
    return (number.value / 100, number.value) if abs(other.value) > 1 else (number.value / 100,)


def numbers_equal(value: float, truth: float) -> bool:
    """Equal at 4 decimals, or absolute difference below 0.015; for a truth below 1, relative difference below 0.015."""
    if value == truth:
        return True
    if (truth == 0 or abs(truth) >= _ROUNDING_FROM) and round(value, 4) == round(truth, 4):
        return True
    return abs(value - truth) < TOLERANCE * min(1.0, abs(truth))


class Numerical:
    """Scorer of numerical answers."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The number."""
        return extract_number(response, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """1 for an equal number, else 0."""
        truth = true_number(sample)
        equal = any(
            numbers_equal(found, expected) for found in readings(value, truth) for expected in readings(truth, value)
        )
        return Grade(float(equal), {"value": value.value, "truth": truth.value})
