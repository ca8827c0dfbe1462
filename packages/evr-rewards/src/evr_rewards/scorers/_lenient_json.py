"""Read the JSON that models write: comments, single quotes, bare keys, tuples, trailing commas, text around it.

A value that is never closed is not read: it was cut off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_MAX_DEPTH: Final = 12
_MAX_LENGTH: Final = 50_000
_MAX_STARTS: Final = 64
_SPACE: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)*", re.S)
_NUMBER: Final = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?(?![\w:.])")
_BARE: Final = re.compile(r"[^\s,:\[\]{}()\"'][^,\[\]{}()\"'\n]*?(?=\s*(?:[,\]})\n]|:(?!\d)|$))")
_CLOSING: Final = {"{": "}", "[": "]", "(": ")"}
_WORDS: Final = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}


class _Broken(ValueError):
    """The text at this place is no value."""


def json_values(text: str) -> Iterator[Any]:
    """Every outermost object, list or tuple in ``text``, in order."""
    text = text[:_MAX_LENGTH]
    position, starts = 0, 0
    while (match := re.compile(r"[{\[(]").search(text, position)) and starts < _MAX_STARTS:
        starts += 1
        try:
            value, position = _Reader(text).value(match.start(), 0)
        except _Broken:
            position = match.end()
            continue
        yield value


def strict_or_lenient(text: str) -> list[Any]:
    """All structured values of a text; plain JSON takes the fast way."""
    stripped = text.strip()
    if stripped[:1] in "{[":
        try:
            value = json.loads(stripped)
        except (ValueError, RecursionError):
            return list(json_values(text))
        return [value] if _flat_enough(value, _MAX_DEPTH) else []
    return list(json_values(text))


def _flat_enough(value: Any, depth: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_flat_enough(item, depth - 1) for item in items)


def cut_off(text: str) -> bool:
    """Whether a bracket is opened and never closed."""
    return any(text.count(opening) > text.count(closing) for opening, closing in (("{", "}"), ("[", "]")))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def skip(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        return match.end() if match else position

    def value(self, position: int, depth: int) -> tuple[Any, int]:
        position = self.skip(position)
        char = self.text[position : position + 1]
        if not char or (depth >= _MAX_DEPTH and char in "{[("):  # a key counts as the deepest level: it holds nothing
            raise _Broken
        if char == "{":
            return self.mapping(position + 1, depth)
        if char in "[(":
            return self.sequence(position + 1, _CLOSING[char], depth)
        if char in "\"'":
            return self.string(position)
        if number := _NUMBER.match(self.text, position):
            literal = number[0]
            return (float(literal) if set(".eE") & set(literal) else int(literal)), number.end()
        if bare := _BARE.match(self.text, position):
            return _WORDS.get(bare[0], bare[0]), bare.end()
        raise _Broken

    def string(self, position: int) -> tuple[str, int]:
        quote, start = self.text[position], position + 1
        end = start
        while end < len(self.text) and self.text[end] != quote:
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise _Broken
        return self.text[start:end].replace(f"\\{quote}", quote), end + 1

    def sequence(self, position: int, closing: str, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            position = self.skip(position)
            if self.text[position : position + 1] == closing:
                return items, position + 1
            item, position = self.value(position, depth + 1)
            items.append(item)
            position = self.separator(position, closing)

    def mapping(self, position: int, depth: int) -> tuple[dict[str, Any], int]:
        items: dict[str, Any] = {}
        while True:
            position = self.skip(position)
            if self.text[position : position + 1] == "}":
                return items, position + 1
            name, position = self.value(position, _MAX_DEPTH)
            position = self.skip(position)
            if self.text[position : position + 1] != ":":
                raise _Broken
            items[str(name)], position = self.value(position + 1, depth + 1)
            position = self.separator(position, "}")

    def separator(self, position: int, closing: str) -> int:
        position = self.skip(position)
        char = self.text[position : position + 1]
        if char in (",", ";") and char:
            return position + 1
        if char == closing:
            return position
        raise _Broken
