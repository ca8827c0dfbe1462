"""Read a number as people and models write it: separators, fractions, percents, exponents, words, units."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from evr_rewards._plain import plain
from evr_rewards.extraction import AMBIGUOUS, Ambiguous, Form
from evr_rewards.scorers._number_words import CHINESE, ENGLISH, chinese_number, english_number


@dataclass(frozen=True)
class Number:
    """A number and whether it was written as a percentage (``value`` is then the number before the sign)."""

    value: float
    percent: bool = False


_MANTISSA = (
    r"\d{1,3}(?:\.\d{3})+,\d+"
    r"|(?:\d{1,3}(?:,\d{2,3})*,\d{3}|\d{1,3}(?:['’ \u00a0\u202f]\d{3})+|\d+)(?:[.]\d+|,\d{1,2}(?![\d,])"
    r"|,\d{4,}(?![\d,]))?"
    r"|\.\d+"
)
_SIGN = r"(?:(?<![\w.)\]])[-+]\s*|(?:minus|negative)\s+)?"
_TOKEN: Final = re.compile(
    rf"""(?<![\w.])(?P<sign>{_SIGN})[$€£¥]?\s*(?:
      (?P<mixed>\d+)\s+(?P<mn>\d+)\s*[/⁄]\s*(?P<md>\d+)(?![\d./])
    | (?P<n>{_MANTISSA})\s*[/⁄]\s*(?P<d>{_MANTISSA})(?![\d/])
    | (?P<m>{_MANTISSA})(?:[eE](?P<e>[-+]?\d{{1,4}})(?!\w)
        |\s*(?:[x×*·]|\\times|\\cdot)\s*10\s*(?:\^|\*\*)\s*\{{?\s*(?P<p>[-+]?\d{{1,4}})\s*\}}?)?
    )(?P<power>\s*(?:\^|\*\*)\s*\{{?\s*(?P<exp>[-+]?\d{{1,3}})\s*\}}?)?
    (?P<unit>\s*(?:%|percent\b|per\s*cent\b|％|万|亿|千|thousand\b|million\b|billion\b|trillion\b|k\b|dozen\b|hundred\b))?""",
    re.X | re.I,
)
_FRAC: Final = re.compile(r"\\[dtc]?frac\s*\{\s*([^{}]+?)\s*\}\s*\{\s*([^{}]+?)\s*\}|\\[dtc]?frac\s*(\d)\s*(\d)")
_BLANKS: Final = re.compile(r"(\s)\s{3,}")  # the patterns below try every start in a run of blanks
_SUPER: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPER_RUN: Final = re.compile(r"(?<=[\d)])([⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+)")
_SCALE: Final = {
    "万": 1e4, "亿": 1e8, "千": 1e3, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "k": 1e3,
    "dozen": 12.0, "hundred": 100.0,
}  # fmt: skip
_ORDINAL_WORDS: Final = re.compile(
    r"\b(?:one|two) (?:of|by one|another|the)\b|\bno one\b|\bany ?one\b|\bsome ?one\b|\b(?:the|this|that|which"
    r"|each|every|first|last|second|another|other|only) one\b|\bone's\b",
    re.I,
)
_APPROX: Final = re.compile(
    r"[\s~≈≃:=\"'“(\[]*(?:(?:about|around|approximately|roughly|nearly|almost|exactly|only|just|a total of"
    r"|total of|equal to|约|大约|大概|共|一共)(?![a-z])\s*)*[\s~≈$]*",
    re.I,
)
_RESULT: Final = re.compile(r"[=≈]\s*([^=≈]+)$")
_MAX_LENGTH: Final = 4000


@lru_cache(maxsize=8192)
def read_number(text: str, form: Form) -> Number | Ambiguous | None:
    """The number that a passage gives; AMBIGUOUS when it gives several.

    In a statement ("the answer is 12, as the 3 men ...") the number at the start counts.
    """
    text = _prepare(text[-_MAX_LENGTH:] if form is Form.PROSE else text[:_MAX_LENGTH])
    found = _numbers(text)
    if not found:
        return None
    if form is Form.STATEMENT:
        lead = _APPROX.match(text)
        if found[0][0] <= (lead.end() if lead else 0):
            return AMBIGUOUS if _alternative(text, found) else found[0][1]
    values = {number for _, number, _ in found}
    if len(values) == 1:
        return values.pop()
    result = _RESULT.search(text.splitlines()[-1])
    if result and len(tail := {number for _, number, _ in _numbers(result[1])}) == 1:
        return tail.pop()
    return None if form is Form.PROSE else AMBIGUOUS


def _alternative(text: str, found: list[tuple[int, Number, int]]) -> bool:
    """Whether the first number goes on to an equal second: "12 or 13", "3-5"."""
    if len(found) < 2 or found[0][1] == found[1][1]:
        return False
    return re.fullmatch(r"\s*\w*\s*(?:or|to|and|/|-|–|~|,|或)\s*", text[found[0][2] : found[1][0]]) is not None


def _prepare(text: str) -> str:
    text = _SUPER_RUN.sub(lambda match: "^" + match[1].translate(_SUPER), text)
    text = _FRAC.sub(lambda match: f" {match[1] or match[3]}/{match[2] or match[4]} ", text)
    text = _BLANKS.sub(r"\1", plain(text)).replace("\u2044", "/").replace("–", "-")
    if not text.isascii():
        text = "".join(
            str(int(char)) if char.isdigit() and not char.isascii() and char.isdecimal() else char for char in text
        )
        text = re.sub(r"一共|一起|一些|第一|一下|一直|万一|一般|一样|统一|唯一|之一", " ", text)
    return text


def _numbers(text: str) -> list[tuple[int, Number, int]]:
    """(start, number, end) of all numbers, in order; words only where there are no digits."""
    found = []
    for match in _TOKEN.finditer(text):
        number = _value(match)
        if number is not None:
            found.append((match.start(), number, match.end()))
    if found:
        return found
    text = _ORDINAL_WORDS.sub(lambda match: " " * len(match[0]), text)
    for match in ENGLISH.finditer(text):
        if match[0].strip() and (value := english_number(match[0])) is not None:
            percent = re.match(r"\s*(?:%|per\s?cent\b)", text[match.end() :]) is not None
            found.append((match.start(), Number(value, percent), match.end()))
    if not found and not text.isascii():
        for match in CHINESE.finditer(text):
            if (value := chinese_number(match[0])) is not None:
                found.append((match.start(), Number(value), match.end()))
    return found


def _value(match: re.Match[str]) -> Number | None:
    sign = -1.0 if match["sign"].strip()[:1] in ("-", "m", "n", "M", "N") else 1.0
    try:
        if match["mixed"]:
            value = int(match["mixed"]) + int(match["mn"]) / int(match["md"])
        elif match["n"]:
            value = _float(match["n"]) / _float(match["d"])
        else:
            value = _float(match["m"]) * 10.0 ** int(match["e"] or match["p"] or 0)
        if match["exp"]:
            value = value ** int(match["exp"])
    except (ZeroDivisionError, OverflowError):
        return None
    unit = (match["unit"] or "").strip().lower()
    percent = unit in ("%", "％") or unit.startswith("per")
    value = sign * value * _SCALE.get(unit, 1.0)
    return Number(value, percent) if math.isfinite(value) else None


def _float(text: str) -> float:
    text = re.sub(r"['’ \u00a0\u202f]", "", text)
    if text.count(",") == 1 and "." in text and text.index(".") < text.index(","):
        text = text.replace(".", "").replace(",", ".")  # 1.234,56
    if "," in text and not re.fullmatch(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?", text):
        head, _, tail = text.rpartition(",")
        text = head.replace(",", "") + "." + tail  # a decimal comma: 3,14
    return float(text.replace(",", ""))
