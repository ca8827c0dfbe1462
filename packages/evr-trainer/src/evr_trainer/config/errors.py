"""What is wrong with a configuration, all of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST_VALUE = 80


class _NoValue:
    """Marks a problem that has no single value, such as a file that cannot be read."""

    def __repr__(self) -> str:
        return "NO_VALUE"


NO_VALUE = _NoValue()


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: Dotted path of the key, or the name of the file.
        reason: What is wrong, with numbers, and what to do about it.
        value: The value given.
        allowed: The values allowed, in plain words; empty when the reason says it all.
        nearest: The known key nearest to an unknown one.
    """

    path: str
    reason: str
    value: object = NO_VALUE
    allowed: str = ""
    nearest: str = ""

    def __str__(self) -> str:
        head = self.path if self.value is NO_VALUE else f"{self.path}={_short(self.value)}"
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        nearest = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{head}: {self.reason}{allowed}{nearest}"


class ConfigError(ValueError):
    """A configuration that cannot be used. ``problems`` lists everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = "1 problem in the configuration:" if count == 1 else f"{count} problems in the configuration:"
        super().__init__("\n".join([head, *(f"  - {problem}" for problem in self.problems)]))


def _short(value: object) -> str:
    if value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        text = value if isinstance(value, str) and value else repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
