"""Text recognition: 1 - word error rate, or exact match."""

from __future__ import annotations

from typing import Any

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._text import extract_text
from evr_rewards.scorers._words import spaced


class Ocr:
    """1 - word error rate, clipped at 0. Case and punctuation count; white space does not."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The read text."""
        return extract_text(response, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Word error rate by jiwer; in scripts without spaces every character is a word."""
        import jiwer

        reference = _reference(sample)
        hypothesis = spaced(value)
        error_rate = 0.0 if hypothesis == reference else float(jiwer.wer(reference, hypothesis))
        return Grade(max(0.0, 1.0 - error_rate), {"word_error_rate": error_rate})


class OcrExact(Ocr):
    """1 for the same text up to white space, else 0."""

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Exact match."""
        return Grade(float(spaced(value) == _reference(sample)))


def _reference(sample: Sample) -> str:
    reference = spaced(sample.answer)
    if not reference:
        raise TruthError("the answer is empty: there is no text to read")
    return reference
