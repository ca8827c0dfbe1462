"""How a malformed record is reported."""

from __future__ import annotations

from dataclasses import dataclass

_SHOWN_CHARS = 80


@dataclass(frozen=True)
class BadRecord:
    """A record that was left out.

    Attributes:
        origin: "file:line" (for Parquet "file:row").
        field: The field at fault; empty when the record as a whole is.
        value: The value found, shortened; empty when the field is missing.
        reason: What is allowed and what to do.
    """

    origin: str
    field: str
    value: str
    reason: str

    def __str__(self) -> str:
        field = f" field {self.field!r}:" if self.field else ""
        value = f" got {self.value};" if self.value else ""
        return f"{self.origin}:{field}{value} {self.reason}"


class RecordError(ValueError):
    """A malformed record; ``record`` says where, which field, what was found and what to do."""

    def __init__(self, record: BadRecord) -> None:
        super().__init__(str(record))
        self.record = record


class FieldError(ValueError):
    """A wrong field, before its origin is known."""

    def __init__(self, field: str, reason: str, value: object = ...) -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason
        self.value = "" if value is ... else shorten(value)


def shorten(value: object) -> str:
    """Return the value as code, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."
