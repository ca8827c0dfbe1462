"""Where a response says its answer: the one search order that every scorer uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from evr_rewards._passages import Passage, Source, locate
from evr_rewards._statements import statements

__all__ = ["AMBIGUOUS", "Ambiguous", "Extraction", "Form", "Source", "extract"]


class Ambiguous:
    """Marker type: a passage names several answers, so the search stops without one."""


AMBIGUOUS: Final = Ambiguous()


class Form(StrEnum):
    """How much of a passage a reader sees."""

    VALUE = "value"  # all of an answer tag or box: it should hold the answer and little else
    STATEMENT = "statement"  # the words after "the answer is": the answer comes first
    PROSE = "prose"  # free text without any mark of an answer


@dataclass(frozen=True)
class Extraction:
    """An answer found in a response.

    Attributes:
        value: The parsed answer, None when there is none.
        source: Where it stood; for a missing value, the place that decided so (None: nothing looked like an answer).
        confidence: 1 answer tag, 0.95 box, 0.85 final-answer statement, 0.6 whole text, 0.5 last line, 0 nothing.
        text: The passage it was read from.
        tagged: The response has an answer tag outside its thinking.
    """

    value: Any = None
    source: Source | None = None
    confidence: float = 0.0
    text: str = ""
    tagged: bool = False


Reader = Callable[[str, Form], Any]

_CONFIDENCE: Final = {
    Source.TAG: 1.0,
    Source.BOXED: 0.95,
    Source.STATEMENT: 0.85,
    Source.TEXT: 0.6,
    Source.LAST_LINE: 0.5,
}
_FORM: Final = {
    Source.TAG: Form.VALUE,
    Source.BOXED: Form.VALUE,
    Source.STATEMENT: Form.STATEMENT,
    Source.TEXT: Form.PROSE,
    Source.LAST_LINE: Form.PROSE,
}
_COMPLETE: Final = (Source.TAG, Source.BOXED)


def extract(response: str, read: Reader, *, truncated: bool = False, inner_statements: bool = True) -> Extraction:
    """Read the answer of ``response`` from the first place that holds one.

    Args:
        response: Text of the model.
        read: ``read(text, form)`` returns the value, None (nothing of the right kind here) or ``AMBIGUOUS``.
        truncated: The response hit its length limit: only a complete answer tag or box counts.
        inner_statements: Inside a tag or box, look at "the answer is ..." first (not for free text).
    """
    location = locate(response)
    for passage in location.passages():
        if truncated and passage.source not in _COMPLETE:
            break
        for text, form in _views(passage, inner_statements):
            value = read(text, form)
            if isinstance(value, Ambiguous):
                return Extraction(None, passage.source, 0.0, text, location.tagged)
            if value is not None:
                return Extraction(value, passage.source, _CONFIDENCE[passage.source], text, location.tagged)
        if passage.source in _COMPLETE:
            return Extraction(None, passage.source, 0.0, passage.text, location.tagged)
    return Extraction(tagged=location.tagged)


def _views(passage: Passage, inner_statements: bool) -> Iterator[tuple[str, Form]]:
    if inner_statements and passage.source in _COMPLETE and len(passage.text) > 12:
        for tail in statements(passage.text):
            yield tail, Form.STATEMENT
    yield passage.text, _FORM[passage.source]
