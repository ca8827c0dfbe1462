"""Yes/no, true/false, and binary classes given as options."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from evr_core.schema import Sample
from evr_rewards._plain import key, plain
from evr_rewards.extraction import AMBIGUOUS, Ambiguous, Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._options import parse_options
from evr_rewards.scorers.choice import read_choice

_TRUE: Final = (
    "yes|yeah|yep|true|correct|affirmative|是的?|对的?|正确|真|有|はい|네|예|sí|sim|oui|ja|да|верно|نعم|हाँ|हां"
)
_FALSE: Final = (
    "no|nope|false|incorrect|negative|不是|否|不对|错误?|不正确|假|没有|不|いいえ|아니요|아니오|não|non|nein"
    "|нет|неверно|لا|नहीं"
)
_SHORT: Final = {"y": True, "n": False, "t": True, "f": False, "1": True, "0": False, "right": True, "wrong": False}
_LEAD: Final = re.compile(rf"[\W_]*(?:(?P<false>{_FALSE})|(?P<true>{_TRUE}))(?![a-zà-ÿ])", re.I)
_WORDS: Final = re.compile(
    r"(?P<negated>\b(?:not|isn't|isn’t|never)\s+(?:a\s+|at all\s+)?)?\b(?:(?P<true>yes|true|correct)"
    r"|(?P<false>no|false|incorrect))\b(?!\s+one\b)",
    re.I,
)
_BOTH: Final = re.compile(r"\s*(?:/|\bor\b|\band\b|或|或者|和|,)\s*", re.I)


@lru_cache(maxsize=8192)
def read_boolean(text: str, form: Form) -> bool | Ambiguous | None:
    """Yes (True) or no (False) as a passage says it."""
    text = plain(text).strip()
    short = _SHORT.get(text.strip(" .,;:()[]\"'!").lower())
    if short is not None and form is not Form.PROSE:
        return short
    lead = _LEAD.match(text)
    if lead and _leads(text[lead.end() :], form):
        between = _BOTH.match(text, lead.end())
        second = _LEAD.match(text, between.end()) if between and between[0].strip() != "," else None
        if second and bool(second["true"]) != bool(lead["true"]):
            return AMBIGUOUS
        return bool(lead["true"])
    said = {bool(match["true"]) != bool(match["negated"]) for match in _WORDS.finditer(_scope(text, form))}
    if len(said) > 1:
        return None if form is Form.PROSE else AMBIGUOUS
    return next(iter(said), None)


def _leads(rest: str, form: Form) -> bool:
    """ "No, ..." and "Yes." answer; "No person is seen" answers only where an answer is due."""
    return form is not Form.PROSE or re.match(r"\s*(?:$|[^\w\s]|\n)", rest) is not None or not rest[:1].isascii()


def _scope(text: str, form: Form) -> str:
    if form is not Form.PROSE:
        return text
    # In prose only "true"/"false"/"correct"/"incorrect" state something by themselves ("There is no dog" does not).
    return re.sub(r"\b(?:no|yes)\b", " ", text, flags=re.I)


class Boolean:
    """Scorer of yes/no questions and of questions with two classes."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """True, False, or the class as text."""
        return extract(response, lambda text, form: self._read(text, form, sample), truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """1 for the same truth value or class."""
        truth = self._read(sample.answer, Form.VALUE, sample)
        if truth is None or isinstance(truth, Ambiguous):
            raise TruthError(f"answer {sample.answer[:80]!r} is neither yes/no/true/false nor one of the options")
        return Grade(float(value == truth), {"truth": truth})

    def _read(self, text: str, form: Form, sample: Sample) -> bool | str | Ambiguous | None:
        if sample.options:
            options = parse_options(sample.options)
            label = read_choice(text, form, options)
            if isinstance(label, str):
                named = options.text_of(label) or label
                value = read_boolean(named, Form.VALUE)
                return value if isinstance(value, bool) else named
            if isinstance(label, Ambiguous):
                return label
        value = read_boolean(text, form)
        if value is None and not sample.options and isinstance(read_boolean(sample.answer, Form.VALUE), type(None)):
            return key(text) or None if form is not Form.PROSE or len(text) < 60 else None
        return value
