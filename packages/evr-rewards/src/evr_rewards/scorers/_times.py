"""Read points and intervals of time: seconds, "3 s", "mm:ss", "h:mm:ss", "1 min 5 s", JSON, prose."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from evr_rewards._plain import plain
from evr_rewards.extraction import AMBIGUOUS, Ambiguous, Form
from evr_rewards.scorers._lenient_json import cut_off, strict_or_lenient

Interval = tuple[float, float]

_UNIT: Final = r"(?:seconds?|secs?|s|秒)(?![a-z])"
_CLOCK: Final = r"(?:\d{1,2}:)?\d{1,3}:\d{2}(?:[.,]\d{1,6})?"
_HOURS: Final = r"\d+\s*(?:hours?|hrs?|h|小时)\s*"
_MINUTES: Final = r"\d+\s*(?:minutes?|mins?|m|分钟?)(?![a-z])"
_WORDY: Final = rf"(?:{_HOURS})?{_MINUTES}(?:\s*(?:and\s*)?\d+(?:\.\d+)?\s*{_UNIT})?"
_PLAIN: Final = rf"-?\d+(?:\.\d+)?(?:\s*{_UNIT})?"
_TIME: Final = rf"(?:{_CLOCK}|{_WORDY}|{_PLAIN})"
_LABEL: Final = (
    r"(?:t\s*=\s*)?(?:the\s+)?(?:time(?:stamp)?\s+)?(?:about\s+|around\s+|approximately\s+|second\s+|frame\s+at\s+)?"
)
_RANGE: Final = re.compile(
    rf"(?<![\d.:])({_TIME})[)\]]?\s*(?:-{{1,3}}>?|–|—|~|→|to|until|till|through|and|up to|到"
    rf"|至)\s*[(\[]?{_LABEL}({_TIME})(?![\d:])",
    re.I,
)
_PAIR: Final = re.compile(rf"({_TIME})\s*[,;\s]\s*({_TIME})", re.I)
_START_END: Final = re.compile(
    rf"\bstart\w*\b(?:[\s_]*time)?[\s\"':=]*(?:is|at|are)?\s*({_TIME}).{{0,60}}?\b(?:end|finish|stop)\w*\b(?:[\s_]*time)?[\s\"':=]*(?:is|at)?\s*({_TIME})",
    re.I | re.S,
)
_MIN_SEC: Final = re.compile(
    rf"(?:(\d+)\s*(?:hours?|hrs?|h|小时)\s*)?(?:(\d+)\s*(?:minutes?|mins?|m|分钟?)(?![a-z])\s*)?(?:and\s*)?(?:(\d+(?:\.\d+)?)\s*{_UNIT})?",
    re.I,
)
_SHORT: Final = 100
_KEYS: Final = (
    "time",
    "times",
    "timestamp",
    "timestamps",
    "interval",
    "intervals",
    "segment",
    "segments",
    "span",
    "range",
    "answer",
)
_STARTS: Final = ("start", "start_time", "start_s", "begin", "from", "s")
_ENDS: Final = ("end", "end_time", "end_s", "stop", "to", "e")


def seconds(value: Any) -> float | None:
    """A point in time in seconds, from a number or a text such as "7.5 s", "01:07" or "1 min 7 s"."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _finite(value)
    if not isinstance(value, str):
        return None
    text = value.strip().strip("\"'<>[]() ")
    if re.fullmatch(_CLOCK, text):
        parts = [float(part.replace(",", ".")) for part in text.split(":")]
        return sum(part * 60**power for power, part in enumerate(reversed(parts))) if max(parts[1:]) < 60 else None
    if match := re.fullmatch(rf"(-?\d+(?:\.\d+)?)\s*{_UNIT}?", text, re.I):
        return _finite(float(match[1]))
    if re.fullmatch(r"-?\d+(?:\.\d+)?(?:e[-+]?\d{1,2})?", text, re.I):
        return _finite(float(text))
    match = _MIN_SEC.fullmatch(text)
    if match and any(match.groups()):
        hours, minutes, rest = (float(group or 0) for group in match.groups())
        return hours * 3600 + minutes * 60 + rest
    return None


def _finite(value: float) -> float | None:
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def interval(start: Any, end: Any) -> Interval | None:
    """A valid interval: finite, from 0 on, not reversed."""
    first, last = seconds(start), seconds(end)
    if first is None or last is None or first < 0 or last < first:
        return None
    return first, last


def intervals_in(value: Any) -> list[Interval] | None:
    """Intervals of a parsed JSON value, None when it holds none or a broken one."""
    if isinstance(value, dict):
        folded = {str(name).strip().casefold().replace(" ", "_"): item for name, item in value.items()}
        start = next((folded[name] for name in _STARTS if name in folded), None)
        end = next((folded[name] for name in _ENDS if name in folded), None)
        if start is not None and end is not None:
            found = interval(start, end)
            return [found] if found else None
        return next((intervals_in(folded[name]) for name in _KEYS if name in folded), None)
    if isinstance(value, str):
        read = read_intervals(value, Form.VALUE)
        return list(read) if isinstance(read, tuple) else None
    if not isinstance(value, list) or not value:
        return None
    if len(value) == 2 and not any(isinstance(item, (list, dict)) for item in value):
        found = interval(*value)
        return [found] if found else _all_intervals(value)
    return _all_intervals(value)


def _all_intervals(items: list[Any]) -> list[Interval] | None:
    if not all(isinstance(item, (list, dict, str)) for item in items):
        return None
    found: list[Interval] = []
    for item in items:
        part = intervals_in(item)
        if part is None:
            return None
        found += part
    return found


def read_intervals(text: str, form: Form) -> tuple[Interval, ...] | Ambiguous | None:
    """The interval, or the list of intervals in JSON, that a passage gives."""
    if any(char in text for char in "{[("):
        for value in reversed(strict_or_lenient(text)):
            found = intervals_in(value)
            if found:
                return merge(found)
        if cut_off(text):
            return None
    text = plain(text).strip()
    if len(text) < _SHORT:
        text = text.strip(" ()[]<>")
    if pair := _PAIR.fullmatch(text):
        found_pair = interval(*pair.groups())
        return (found_pair,) if found_pair else None
    ranges = [interval(*match.groups()) for match in _START_END.finditer(text)] or [
        interval(*match.groups()) for match in _RANGE.finditer(text)
    ]
    valid = list(dict.fromkeys(item for item in ranges if item))
    if len(valid) == 1 or (valid and form is Form.STATEMENT and len(valid) > 1 and not re.search(r"\bor\b|或", text)):
        return (valid[0],)
    return AMBIGUOUS if len(valid) > 1 and form is not Form.PROSE else None


def merge(intervals: list[Interval]) -> tuple[Interval, ...]:
    """The same time as disjoint intervals in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
