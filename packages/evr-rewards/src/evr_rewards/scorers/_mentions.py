"""Which option labels a text mentions, and which of them it means."""

from __future__ import annotations

import re
from typing import Final

from evr_rewards._plain import key
from evr_rewards.extraction import AMBIGUOUS, Ambiguous
from evr_rewards.scorers._options import Options

EDGE: Final = " \t\r\n.,;:!?()[]{}<>\"'“”‘’。，；：！？、「」『』【】《》*_`-"
_ANY: Final = r"([A-Za-z]{1,2})(?![A-Za-z0-9_]|['’][a-z])"
LEAD: Final = re.compile(
    r"[\s(\[{\"'“‘「『【<*]*(?:(?:option|choice|answer|选项|選択肢)\s*)?[\s(\[{\"'“【]*" + _ANY,
    re.I,
)
_LEAD_END: Final = re.compile(
    r"\s*[)\]}\"'”】>]*\s*(?:[.:,;!?。，；：、)]|[-—–]+\s|\n|$|[^\x00-\x7f]"
    r"|(?:is|because|since|as|not|rather|instead|which)\b)"
)
_MENTION: Final = re.compile(r"(?<![A-Za-z0-9_'’\-.])" + _ANY + r"(?![-.]\w)")
EXPLICIT: Final = re.compile(
    r"(?:\b(?:option|choice|answer|letter)s?\s*[:\-]?\s*|选项\s*|選択肢\s*|[(\[{\"'“「【])$", re.I
)
_NEGATED: Final = re.compile(
    r"(?:\bnot|n't|n’t|\bneither|\bnor|\bnever|\brather than|\binstead of|\bexcept|\bunlike|\bwithout|\bexclud\w+"
    r"|\brul\w+ out|\beliminat\w+|\breject\w*|不是|而非|不选|而不是|排除|ではなく)"
    r"\s*(?:be\b|is\b|the\b|it\b|option\b|choice\b|answer\b|[:,(\[\"'“]|\s)*$",
    re.I,
)
_REFUTED: Final = re.compile(
    r"\s*[)\]\"'”]*\s*(?:(?:is|are|was|would be|seems?|looks?)\s*"
    r"(?:not\b|n't|wrong|incorrect|false|ruled out|impossible|unlikely|excluded)|isn't|isn’t|不对|不正确|错)",
    re.I,
)
_JOINED: Final = re.compile(r"(?:\bor|\band|或|和)\s*(?:option|choice|选项)?\s*\(?$", re.I)
_JOINTS: Final = frozenset(
    ("", *["or", "and", "and/or", "/", "&", "|", "和", "或", "或者", "и", "или", "y", "o", "ou", "et", "und", "oder"])
)
_AFTER_LABEL: Final = re.compile(
    r"\s+(?:is|or|and|because|since|as|not|rather|instead|but|seems|was|would|looks|matches|fits)\b"
)
_TEXT_NEGATED: Final = re.compile(r"(?:\bnot|\bno|n t|\bnever|不是)(?: a| an| the)?\s*$")
_MAX_LENGTH: Final = 2000


def whole(text: str, options: Options) -> str | None:
    """The label that a text is, or whose option text it is."""
    bare = text.strip(EDGE).upper()
    return bare if bare in options.labels else options.by_key.get(key(text))


def leading(text: str, options: Options) -> str | Ambiguous | None:
    """A label at the start with something behind it: "B. Blue", "(C) because ...", "C, not A"."""
    match = LEAD.match(text)
    if not match or match[1].upper() not in options.labels:
        return None
    label, rest = match[1].upper(), text[match.end() :]
    if _REFUTED.match(rest) or not (_LEAD_END.match(rest) or options.by_key.get(key(rest)) == label):
        return None
    if listed(rest, options, label) or options.by_key.get(key(rest.lstrip(EDGE)), label) != label:
        return AMBIGUOUS
    return label


def listed(rest: str, options: Options, label: str) -> bool:
    """Whether ``rest``, behind a label, goes on to another as its equal: "A or B", "A, B", "A. Red B. Blue"."""
    rest = rest[:400]
    for match in _MENTION.finditer(rest):
        if match[1] not in options.labels or match[1] == label or _is_word(rest, match):
            continue
        before = rest[: match.start()]
        between = before.strip(EDGE).casefold()
        if between in _JOINTS or (len(between) < 40 and _JOINED.search(before)):
            return True
        if re.match(r"[.):]\s", rest[match.end() : match.end() + 2]) and not _NEGATED.search(before):
            return True
    return False


def mentioned(text: str, options: Options) -> str | Ambiguous | None:
    """The only option that a short passage names, by label or by text, leaving out negated ones."""
    found: set[str] = set()
    for match in _MENTION.finditer(text[:_MAX_LENGTH]):
        label, before = match[1].upper(), text[: match.start()]
        if label not in options.labels or not (match[1].isupper() or EXPLICIT.search(before)) or _is_word(text, match):
            continue
        if not (_NEGATED.search(before) or _REFUTED.match(text, match.end())):
            found.add(label)
    found = found or _texts_in(key(text[:_MAX_LENGTH]), options)
    return AMBIGUOUS if len(found) > 1 else next(iter(found), None)


def _is_word(text: str, match: re.Match[str]) -> bool:
    """Whether a letter is a word of the language: the article "a", the pronoun "I"."""
    if match[1] not in ("A", "a", "I", "i") or EXPLICIT.search(text[: match.start()]):
        return False
    rest = text[match.end() : match.end() + 20]
    return re.match(r"\s+[a-z]", rest) is not None and not _AFTER_LABEL.match(rest)


def _texts_in(folded: str, options: Options) -> set[str]:
    """Labels of the option texts that stand in ``folded`` as whole words; the longest text claims its words first."""
    found: set[str] = set()
    for text in sorted(options.by_key, key=len, reverse=True):
        parts = _split_words(folded, text)
        if len(parts) > 1:
            if not all(_TEXT_NEGATED.search(part) for part in parts[:-1]):
                found.add(options.by_key[text])
            folded = " \n ".join(parts)
    return found


def _split_words(folded: str, text: str) -> list[str]:
    return re.split(rf"(?<!\w){re.escape(text)}(?!\w)", folded) if text.isascii() else folded.split(text)
