"""Multiple choice: letter match bounded by the sample's options; option text accepted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from evr_core.schema import Sample
from evr_rewards._plain import plain
from evr_rewards.extraction import Ambiguous, Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._mentions import EDGE, leading, mentioned, whole
from evr_rewards.scorers._opinions import stated_choice
from evr_rewards.scorers._options import Options, options_from_problem, parse_options

_MAX_LENGTH: Final = 8000


def extract_choice(text: str, options: Sequence[str] = (), *, truncated: bool = False) -> Extraction:
    """The label that ``text`` chooses among ``options``.

    Args:
        text: A model's response.
        options: Option texts, with labels ("B. Blue") or without (then A, B, ... by position).
        truncated: The response hit its length limit.

    Returns:
        An extraction whose value is an upper-case label, or None when no option or more than one is named.
    """
    known = parse_options(tuple(options))
    return extract(text, lambda part, form: read_choice(part, form, known), truncated=truncated)


def read_choice(text: str, form: Form, options: Options) -> str | Ambiguous | None:
    """The label that a passage names."""
    if form is not Form.PROSE and (quick := text.strip(EDGE).upper()) in options.labels:
        return quick
    text = plain(text[-_MAX_LENGTH:] if form is Form.PROSE else text[:_MAX_LENGTH]).strip()
    if form is Form.PROSE:
        return stated_choice(text, options)
    return whole(text, options) or leading(text, options) or mentioned(text, options)


@lru_cache(maxsize=8192)
def _truth(answer: str, options: tuple[str, ...]) -> str:
    known = parse_options(options)
    label = read_choice(answer, Form.VALUE, known)
    if isinstance(label, str):
        return label
    raise TruthError(f"answer {answer[:80]!r} names no single option; allowed labels: {', '.join(known.labels)}")


class Choice:
    """Scorer of multiple choice. Without options in the record those listed in the question count."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The chosen label."""
        return extract_choice(response, sample.options or options_from_problem(sample.problem), truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """1 for the right label."""
        truth = _truth(sample.answer, sample.options or options_from_problem(sample.problem))
        return Grade(float(value == truth), {"truth": truth})
