"""Open-ended answers: mean F1 of ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004), for any script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from rapidfuzz.distance import LCSseq

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._text import extract_text
from evr_rewards.scorers._words import words

_MAX_WORDS: Final = 8192


def rouge_f1(candidate: Sequence[str], reference: Sequence[str]) -> dict[str, float]:
    """F1 of ROUGE-1, ROUGE-2 and ROUGE-L of two lists of words.

    ROUGE-2 is left out when the reference is a single word: it has no pair of words to find.
    """
    scores = {"rouge1": _overlap_f1(Counter(candidate), Counter(reference))}
    if len(reference) > 1:
        scores["rouge2"] = _overlap_f1(Counter(pairwise(candidate)), Counter(pairwise(reference)))
    scores["rougeL"] = _f1(LCSseq.similarity(candidate, reference), len(candidate), len(reference))
    return scores


def _overlap_f1(candidate: Counter[Any], reference: Counter[Any]) -> float:
    return _f1((candidate & reference).total(), candidate.total(), reference.total())


def _f1(shared: int, candidate: int, reference: int) -> float:
    return 2 * shared / (candidate + reference) if shared else 0.0


class OpenEnded:
    """Scorer of free text."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The answer's text."""
        return extract_text(response, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Mean of the ROUGE F1 values."""
        reference = words(sample.answer)[:_MAX_WORDS]
        if not reference:
            raise TruthError(f"answer {sample.answer[:80]!r} holds no word")
        scores = rouge_f1(words(value)[:_MAX_WORDS], reference)
        return Grade(sum(scores.values()) / len(scores), scores)
