"""SVG and HTML code: parsed and compared by structure, attributes and text."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

from rapidfuzz.distance import Indel, LCSseq

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._markup import Node, flatten, parse_markup
from evr_rewards.scorers._words import words

_FENCE: Final = re.compile(r"```[ \t]*(?:\w+)?[ \t]*\n(.*?)```", re.S)
_SVG: Final = re.compile(r"<svg\b.*?</svg\s*>|<svg\b[^<>]*/>", re.S | re.I)
_HTML: Final = re.compile(r"<!doctype html.*?</html\s*>|<html\b.*?</html\s*>", re.S | re.I)
_ANY_TAG: Final = re.compile(r"<[a-zA-Z][\w:-]*(?:\s[^<>]*)?/?>")
_MAX_LENGTH: Final = 200_000
_SHARES: Final = {"structure": 0.5, "attributes": 0.3, "text": 0.2}


def similarity(found: Node, truth: Node) -> dict[str, float]:
    """Structure, attributes and text, each in [0, 1]; 1 for equal trees. What neither document has is left out.

    Structure: normalised edit similarity of the (depth, element) sequences. Attributes: F1 of (element, attribute,
    value), half of the credit for the right attribute with another value. Text: F1 of the longest common word sequence.
    """
    ours, theirs = flatten(found), flatten(truth)
    parts = {"structure": Indel.normalized_similarity([(d, n.name) for d, n in ours], [(d, n.name) for d, n in theirs])}
    exact = _attributes(ours, True), _attributes(theirs, True)
    if any(exact):
        parts["attributes"] = 0.5 * _f1(*exact) + 0.5 * _f1(_attributes(ours, False), _attributes(theirs, False))
    texts = _all_words(ours), _all_words(theirs)
    if any(texts):
        parts["text"] = 2 * LCSseq.similarity(*texts) / (len(texts[0]) + len(texts[1]))
    return parts


def _attributes(nodes: list[tuple[int, Node]], values: bool) -> Counter[Any]:
    return Counter(
        (node.name, name, value if values else "") for _, node in nodes for name, value in node.attributes.items()
    )


def _all_words(nodes: list[tuple[int, Node]]) -> list[str]:
    return [word for _, node in nodes for word in words(node.text)]


def _f1(found: Counter[Any], truth: Counter[Any]) -> float:
    return 2 * (found & truth).total() / (found.total() + truth.total())


class _Markup:
    """What both scorers share, by composition in the two classes below."""

    def __init__(self, kind: str, document: re.Pattern[str], xml: bool) -> None:
        self.kind, self.document, self.xml = kind, document, xml

    def read(self, text: str, form: Form) -> str | None:
        """The document in a passage: the last whole one, else a fenced block or a tag's content with elements."""
        text = text[:_MAX_LENGTH]
        if form is Form.STATEMENT:
            return None
        closed = ("</svg" if self.xml else "</html") in text.lower() or (
            self.xml and len(text) < 20_000
        )  # without an end the search would start over at every "<html"
        if closed and (documents := self.document.findall(text)):
            return str(documents[-1])
        blocks = [block for block in _FENCE.findall(text) if _ANY_TAG.search(block)]
        candidate = blocks[-1] if blocks else text.strip("` \n") if form is Form.VALUE or text.startswith("<") else ""
        return (
            candidate.strip()
            if _ANY_TAG.search(candidate) and not (self.xml and "<svg" not in candidate.lower())
            else None
        )

    def grade(self, value: str, sample: Sample) -> Grade:
        """Weighted mean of the similarities; 0 for a document that does not parse."""
        source = self.read(sample.answer, Form.VALUE)
        truth = parse_markup(source, xml=self.xml) if source else None
        if truth is None:
            raise TruthError(f"answer {sample.answer[:80]!r} is no {self.kind} document")
        found = parse_markup(value, xml=self.xml)
        if found is None:
            return Grade(0.0, {"parses": False})
        parts = similarity(found, truth)
        shares = {name: share for name, share in _SHARES.items() if name in parts}
        return Grade(sum(share * parts[name] for name, share in shares.items()) / sum(shares.values()), parts)


class Svg:
    """Scorer of SVG code."""

    _markup = _Markup("SVG", _SVG, xml=True)

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The SVG document."""
        return extract(response, self._markup.read, truncated=truncated, inner_statements=False)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Similarity to the true document."""
        return self._markup.grade(value, sample)


class Html:
    """Scorer of HTML code."""

    _markup = _Markup("HTML", _HTML, xml=False)

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The HTML document or fragment."""
        return extract(response, self._markup.read, truncated=truncated, inner_statements=False)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Similarity to the true document."""
        return self._markup.grade(value, sample)
