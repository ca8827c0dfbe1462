"""Numbers written as words: English ("two hundred and five", "three quarters", "a dozen") and Chinese ("两百零五")."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {
    word: value
    for value, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
}
_TENS: Final = {
    word: 10 * value
    for value, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_FRACTIONS: Final = {
    "half": 2,
    "halves": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "eighth": 8,
    "tenth": 10,
}
_ALL: Final = sorted({*_UNITS, *_TENS, *_SCALES, "hundred", "dozen"}, key=len, reverse=True)
_WORD: Final = "|".join(_ALL)
ENGLISH: Final = re.compile(
    rf"(?<![\w-])(?:(?:minus|negative)\s+)?(?:a\s+(?=hundred|thousand|million|billion|dozen|half|third|quarter)|half\s+a\s+(?=dozen))?"
    rf"(?:(?:{_WORD})(?:(?:[\s-]+(?:and\s+)?)(?:{_WORD}))*(?:\s+point(?:\s+(?:{_WORD}))+)?)?"
    rf"(?:[\s-]*(?:and\s+a\s+)?(?:half|halves|thirds?|quarters?|fourths|fifths|eighths|tenths))?(?!\w)",
    re.I,
)
CHINESE: Final = re.compile(r"负?[零〇一二两三四五六七八九十百千万亿]+(?:点[零〇一二三四五六七八九]+)?")
_DIGITS: Final = {char: index for index, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_POWERS: Final = {"十": 10, "百": 100, "千": 1000}


def english_number(text: str) -> float | None:
    """Value of a phrase that `ENGLISH` matched."""
    words = re.split(r"[\s-]+", text.lower().strip())
    sign = -1.0 if words[0] in ("minus", "negative") else 1.0
    if sign < 0:
        words = words[1:]
    denominator = _FRACTIONS.get(words[-1].rstrip("s"), _FRACTIONS.get(words[-1]))
    if denominator:
        return _with_fraction(words[:-1], denominator, sign)
    if "point" in words:
        cut = words.index("point")
        digits = [_UNITS.get(word, 10) for word in words[cut + 1 :]]
        if any(digit > 9 for digit in digits):
            return None
        return sign * float(f"{int(_integer(words[:cut]))}.{''.join(map(str, digits))}")
    return sign * _integer(words)


def _with_fraction(words: list[str], denominator: int, sign: float) -> float:
    if "and" in words:  # "two and a half"
        return sign * (_integer(words[: words.index("and")]) + 1 / denominator)
    words = [word for word in words if word != "a"]
    return sign * (_integer(words) if words else 1) / denominator


def _integer(words: list[str]) -> float:
    if words[:2] == ["half", "a"]:
        return 0.5 * _integer(words[2:])
    total = current = 0.0
    for word in words:
        if word in _SCALES:
            total += (current or 1) * _SCALES[word]
            current = 0
        elif word in ("hundred", "dozen"):
            current = (current or 1) * (100 if word == "hundred" else 12)
        else:
            current += _UNITS.get(word, _TENS.get(word, 0))
    return total + current


def chinese_number(text: str) -> float | None:
    """Value of a Chinese numeral: 二十一, 两百零五, 一万二, 三点五, 二〇二四."""
    sign = -1.0 if text.startswith("负") else 1.0
    whole, _, decimals = text.lstrip("负").partition("点")
    if not whole:
        return None
    if len(whole) > 1 and all(char in _DIGITS for char in whole):
        value = float("".join(str(_DIGITS[char]) for char in whole))
    else:
        value = _chinese_integer(whole)
    if decimals:
        value += float("0." + "".join(str(_DIGITS[char]) for char in decimals))
    return sign * value


def _chinese_integer(text: str) -> float:
    for big, scale in (("亿", 10**8), ("万", 10**4)):
        if big in text:
            head, _, tail = text.partition(big)
            return (_chinese_integer(head) if head else 1) * scale + (_chinese_integer(tail) if tail else 0)
    total, digit = 0, 0
    for char in text:
        if char in _POWERS:
            total += (digit or 1) * _POWERS[char]
            digit = 0
        else:
            digit = _DIGITS.get(char, 0)
    return float(total + digit)
