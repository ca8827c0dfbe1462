"""Multiple choice: letter match bounded by the sample's options; option text accepted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from evr_core.schema import Sample
from evr_rewards._plain import key, plain, squash
from evr_rewards.extraction import AMBIGUOUS, Ambiguous, Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._options import Options, options_from_problem, parse_options

_EDGE = " \t\r\n.,;:!?()[]{}<>\"'“”‘’。，；：！？、「」『』【】《》*_`-"
_LEAD = re.compile(
    r"[\s(\[{\"'“‘「『【<*]*(?:(?:option|choice|answer|选项|選択肢)\s*)?[\s(\[{\"'“【]*([A-Za-z]{1,2})(?![A-Za-z0-9_'’])"
)
_LEAD_END = re.compile(
    r"\s*[)\]}\"'”】>]*\s*(?:[.:,;!?。，；：、)]|[-—–]+\s|\n|$|(?:is|because|since|as|not|rather|instead|which)\b|[^\x00-\x7f])"
)
_MENTION = re.compile(r"(?<![A-Za-z0-9_'’\-.])([A-Za-z]{1,2})(?![A-Za-z0-9_'’]|[-.]\w)")
_EXPLICIT = re.compile(r"(?:\b(?:option|choice|answer|letter)s?\s*[:\-]?\s*|选项\s*|選択肢\s*|[(\[{\"'“「【])$", re.I)
_NEGATED = re.compile(
    r"(?:\bnot|n't|n’t|\bneither|\bnor|\bnever|\brather than|\binstead of|\bexcept|\bexclud\w+|\brul\w+ out|\bunlike|\bwithout"
    r"|\beliminat\w+|\breject\w*|不是|而非|不选|而不是|排除|ではなく)\s*(?:be\b|is\b|the\b|it\b|option\b|choice\b|answer\b|[:,(\[\"'“]|\s)*$",
    re.I,
)
_REFUTED = re.compile(
    r"\s*[)\]\"'”]*\s*(?:(?:is|are|was|would be|seems?|looks?)\s*(?:not\b|n't|wrong|incorrect|false|ruled out|impossible|unlikely|excluded)|isn't|isn’t|不对|不正确|错)",
    re.I,
)
_OPINION = re.compile(
    r"(?:\bI(?:\s+would|'d|’d|'ll|’ll|\s+will|\s+am|'m|’m)?\s+(?:think|believe|guess|say|choose|pick|select|going with|go with|going for|go for|opt for|vote for)"
    r"|\b(?:it|this|that)(?:\s+is|'s|’s|\s+must\s+be|\s+should\s+be|\s+would\s+be)|\b(?:so|therefore|thus|hence|conclusion|choose|select|pick|selecting|choosing)"
    r"|我(?:认为|觉得|选)|应该是|所以|因此)(?:\s+(?:that|it\s+is|it's|it’s|it\s+must\s+be|the|is|must\s+be|be|correct|right)\b|[\s:,：，是选])*",
    re.I,
)
_END = re.compile(
    r"\s*[)\]\"'”}]*\s*(?:[.,;:!?。，；：！]|$|\n|because|since|as\b|for\b|not\b|rather\b|instead\b)", re.I
)


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
    if form is not Form.PROSE and (quick := text.strip(_EDGE).upper()) in options.labels:
        return quick
    text = plain(text).strip()
    if form is Form.PROSE:
        return _prose(text, options)
    whole = _whole(text, options) or _leading(text, options)
    return whole or _mentioned(text, options)


def _whole(text: str, options: Options) -> str | None:
    bare = text.strip(_EDGE).upper()
    if bare in options.labels:
        return bare
    return options.by_key.get(key(text))


def _leading(text: str, options: Options) -> str | Ambiguous | None:
    """A label at the start with something behind it: "B. Blue", "(C) because ...", "C, not A"."""
    match = _LEAD.match(text)
    if not match or match[1].upper() not in options.labels:
        return None
    label, rest = match[1].upper(), text[match.end() :]
    if _REFUTED.match(rest) or not (_LEAD_END.match(rest) or options.by_key.get(key(rest)) == label):
        return None
    if _listed(rest, options, label) or options.by_key.get(key(rest.lstrip(_EDGE)), label) != label:
        return AMBIGUOUS
    return label


def _listed(rest: str, options: Options, label: str) -> bool:
    """Whether the text goes on to another label as an equal: "A or B", "A, B", "A. Red B. Blue"."""
    for match in _MENTION.finditer(rest[:400]):
        if match[1] not in options.labels or match[1] == label or _is_word(rest, match):
            continue
        between = rest[: match.start()].strip(_EDGE).casefold()
        if between in (
            "",
            "or",
            "and",
            "and/or",
            "/",
            "&",
            "|",
            "和",
            "或",
            "或者",
            "и",
            "или",
            "y",
            "o",
            "ou",
            "et",
            "und",
            "oder",
        ):
            return True
        if re.match(r"[.):]\s", rest[match.end() : match.end() + 2]) and not _NEGATED.search(rest[: match.start()]):
            return True
        if (
            re.search(r"(?:\bor|\band|或|和)\s*(?:option|choice|选项)?\s*\(?$", rest[: match.start()], re.I)
            and len(between) < 40
        ):
            return True
    return False


def _is_word(text: str, match: re.Match[str]) -> bool:
    """Whether a letter is a word of the language: the article "a", the pronoun "I"."""
    if match[1] not in ("A", "a", "I", "i"):
        return False
    if _EXPLICIT.search(text[: match.start()]):
        return False
    return re.match(r"\s+[a-z]", text[match.end() :]) is not None and not re.match(
        r"\s+(?:is|or|and|because|since|as|not|rather|instead|but|seems|was|would|looks|matches|fits)\b",
        text[match.end() :],
    )


def _mentioned(text: str, options: Options) -> str | Ambiguous | None:
    """The only option that a short passage names, by label or by text, leaving out negated ones."""
    found: set[str] = set()
    for match in _MENTION.finditer(text[:2000]):
        upper = match[1].isupper() or _EXPLICIT.search(text[: match.start()]) is not None
        label = match[1].upper()
        if not upper or label not in options.labels or _is_word(text, match):
            continue
        if not (_NEGATED.search(text[: match.start()]) or _REFUTED.match(text[match.end() :])):
            found.add(label)
    if not found:
        found = _texts_in(key(text), options)
    return AMBIGUOUS if len(found) > 1 else next(iter(found), None)


def _texts_in(folded: str, options: Options) -> set[str]:
    """Labels of the option texts that stand in ``folded`` as whole words; the longest text claims its words first."""
    found: set[str] = set()
    for text in sorted(options.by_key, key=len, reverse=True):
        parts = _split_words(folded, text)
        if len(parts) > 1:
            if not all(re.search(r"(?:\bnot|\bno|n t|\bnever|不是)(?: a| an| the)?\s*$", part) for part in parts[:-1]):
                found.add(options.by_key[text])
            folded = " \n ".join(parts)
    return found


def _split_words(folded: str, text: str) -> list[str]:
    if not text.isascii():
        return folded.split(text)
    return re.split(rf"(?<!\w){re.escape(text)}(?!\w)", folded)


def _prose(text: str, options: Options) -> str | Ambiguous | None:
    """Free text: an opinion ("I think it is B"), or a text that is or starts with a label."""
    if not text:
        return None
    opinions: list[str | Ambiguous] = []
    for match in _OPINION.finditer(text[-4000:]):
        choice = _opinion(text[-4000:][match.end() :], options)
        if choice is not None:
            opinions.append(choice)
    explicit = _explicit(text[-4000:], options)
    named = {str(choice) for choice in opinions if not isinstance(choice, Ambiguous)}
    if opinions:
        return AMBIGUOUS if len(named) != 1 or any(isinstance(o, Ambiguous) for o in opinions) else named.pop()
    if (whole := _whole(text, options)) is not None:
        return whole
    if _uppercase_start(text) and (leading := _leading(text, options)) is not None:
        return leading
    return explicit


def _uppercase_start(text: str) -> bool:
    """A lead such as "B." or "(a)"; "a dog" and "A dog" are none (`_leading` asks for punctuation behind)."""
    return (
        re.match(
            r"[\s\"'“*]*(?:[(\[【]\s*[A-Za-z]{1,2}\s*[)\]】]|[A-Z]{1,2}\b|(?:option|choice)\b)",
            text,
            re.I if text[:1] in "oOcC" and text[1:3].isalpha() else 0,
        )
        is not None
    )


def _opinion(rest: str, options: Options) -> str | Ambiguous | None:
    match = _LEAD.match(rest)
    if match and match[1].upper() in options.labels and not match[1].islower() and _END.match(rest[match.end() :]):
        label = match[1].upper()
        return AMBIGUOUS if _listed(rest[match.end() :].split("\n", 1)[0], options, label) else label
    if (
        match
        and match[1].upper() in options.labels
        and _EXPLICIT.search(rest[: match.start(1)])
        and _END.match(rest[match.end() :])
    ):
        return match[1].upper()
    sentence = re.split(r"[.!?。！？\n]", rest, maxsplit=1)[0]
    return options.by_key.get(key(sentence))


def _explicit(text: str, options: Options) -> str | Ambiguous | None:
    """ "... so option B fits": the only option that the last sentence with one calls an option, when it affirms it."""
    pattern = re.compile(
        r"\b(?:option|choice)\s*[(\[\"'“]?\s*([A-Za-z]{1,2})(?!\w)[)\]\"'”]?\s*(?:is|fits|matches|best|seems)\b(?!\s*(?:not|n't|wrong|incorrect|false))",
        re.I,
    )
    labels = {match[1].upper() for match in pattern.finditer(text)} & set(options.labels)
    return AMBIGUOUS if len(labels) > 1 else next(iter(labels), None)


@lru_cache(maxsize=8192)
def _truth(answer: str, options: tuple[str, ...], problem: str) -> str:
    known = parse_options(options or options_from_problem(problem))
    label = read_choice(answer, Form.VALUE, known)
    if isinstance(label, str):
        return label
    raise TruthError(f"answer {answer[:80]!r} names no single option; allowed labels: {', '.join(known.labels)}")


class Choice:
    """Scorer of multiple choice."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The chosen label."""
        return extract_choice(response, sample.options or options_from_problem(sample.problem), truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """1 for the right label."""
        truth = _truth(sample.answer, sample.options, "" if sample.options else sample.problem)
        return Grade(float(value == truth), {"truth": truth})


__all__ = ["Choice", "extract_choice", "read_choice", "squash"]
