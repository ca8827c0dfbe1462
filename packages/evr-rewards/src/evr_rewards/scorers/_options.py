"""Labels and texts of multiple-choice options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from evr_rewards._plain import key

_LABELLED = re.compile(r"\s*[(\[（【]?\s*([A-Za-zＡ-Ｚ]{1,2})\s*(?:[.):\]：、）】．]|,\s)\s*(.*)", re.S)
_LISTED = re.compile(r"^\s*\(?([A-Z])[.):]\s+(\S.*)$", re.M)


@dataclass(frozen=True)
class Options:
    """The labels a question allows and their texts.

    Attributes:
        labels: Allowed labels in order, upper case.
        by_key: Comparison form of each unambiguous option text to its label.
        known: False when the sample lists no options: then every single letter is allowed and no text is known.
    """

    labels: tuple[str, ...]
    by_key: dict[str, str]
    known: bool = True

    def text_of(self, label: str) -> str | None:
        """Comparison form of the label's text, None when unknown."""
        return next((text for text, owner in self.by_key.items() if owner == label), None)


def spreadsheet_label(index: int) -> str:
    """A, B, ..., Z, AA, AB, ... for 0, 1, ..."""
    label = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        label = chr(65 + rest) + label
    return label


@lru_cache(maxsize=4096)
def parse_options(options: tuple[str, ...]) -> Options:
    """Labels as the options state them ("B. Blue"), else by position."""
    if not options:
        return Options(tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), {}, known=False)
    matches = [_LABELLED.fullmatch(option) for option in options]
    stated = [match[1].upper() if match else "" for match in matches]
    if all(stated) and len(set(stated)) == len(stated) and _plausible(stated):
        return _build(stated, [match[2] if match else "" for match in matches])
    return _build([spreadsheet_label(index) for index in range(len(options))], options)


@lru_cache(maxsize=4096)
def options_from_problem(problem: str) -> tuple[str, ...]:
    """Options listed in the question's text, one "A. text" per line, else nothing."""
    listed = _LISTED.findall(problem)
    if len(listed) < 2 or [label for label, _ in listed] != [spreadsheet_label(i) for i in range(len(listed))]:
        return ()
    return tuple(f"{label}. {text}" for label, text in listed)


def _plausible(labels: Sequence[str]) -> bool:
    allowed = {spreadsheet_label(index) for index in range(max(26, len(labels) + 2))}
    return all(label in allowed for label in labels)


def _build(labels: Sequence[str], texts: Sequence[str]) -> Options:
    keys = [key(text) for text in texts]
    by_key = {text: label for text, label in zip(keys, labels, strict=True) if text and keys.count(text) == 1}
    return Options(tuple(labels), by_key)
