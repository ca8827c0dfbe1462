"""Raw records from files: JSON arrays, JSON lines and Parquet, each with the place it came from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evr_core._record_errors import BadRecord, RecordError, shorten

SUFFIXES = (".json", ".jsonl", ".ndjson", ".parquet")
_BLANK = re.compile(r"\s*")


@dataclass(frozen=True)
class RawRecord:
    """A record as the file gives it; ``error`` says why it could not be read."""

    origin: str
    fields: dict[str, Any]
    error: BadRecord | None = None


def read_raw(path: Path, *, split: str | None = None) -> Iterator[RawRecord]:
    """Yield the records of one file.

    Args:
        path: A file with one of the known suffixes.
        split: For a JSON object of lists: the list to take.

    Raises:
        RecordError: The file cannot be read from some place on.
        ValueError: The suffix is unknown, a split is missing or named where the file has none.
    """
    if path.suffix == ".parquet":
        _refuse_split(path, split)
        return _read_parquet(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: unknown kind of record file {path.suffix!r}; allowed: {', '.join(SUFFIXES)}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 at byte {error.start}; convert the file to UTF-8") from error
    if text.lstrip()[:1] == "[":
        _refuse_split(path, split)
        return _read_array(path, text, 0)
    splits = _as_splits(text) if path.suffix == ".json" else None
    if splits is None:
        _refuse_split(path, split)
        return _read_lines(path, text)
    return _read_split(path, splits, split)


def _refuse_split(path: Path, split: str | None) -> None:
    if split is not None:
        raise ValueError(
            f"{path}@{split}: this file has no splits; leave '@{split}' out, or name a folder with a file per split"
        )


def _as_splits(text: str) -> dict[str, list[Any]] | None:
    """Return the whole text as an object of lists, or None when it is anything else (such as JSON lines)."""
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        return None
    is_splits = isinstance(whole, dict) and whole and all(_is_records(value) for value in whole.values())
    return whole if is_splits else None


def _is_records(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _read_split(path: Path, splits: dict[str, list[Any]], split: str | None) -> Iterator[RawRecord]:
    if split not in splits:
        raise ValueError(f"{path}: holds the splits {sorted(splits)}; name one as {path.name}@{min(splits)}")
    for number, fields in enumerate(splits[split], start=1):
        yield RawRecord(f"{path}@{split}:{number}", fields)


def _read_lines(path: Path, text: str) -> Iterator[RawRecord]:
    # Only "\n" ends a line: JSON strings may hold the other separators that str.splitlines knows.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        origin = f"{path}:{number}"
        try:
            yield _checked(origin, json.loads(line))
        except json.JSONDecodeError as error:
            reason = f"not valid JSON at column {error.colno} ({error.msg}); write one JSON object per line"
            yield RawRecord(origin, {}, BadRecord(origin, "", shorten(line.strip()), reason))


def _read_array(path: Path, text: str, position: int) -> Iterator[RawRecord]:
    """Walk through a JSON array item by item, so that each item's line is known."""
    decoder = json.JSONDecoder()
    position = _skip_blank(text, text.index("[", position) + 1)
    line, counted = 1, 0
    while text[position : position + 1] != "]":
        line, counted = line + text.count("\n", counted, position), position
        try:
            item, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise _broken(path, error.lineno, f"not valid JSON at column {error.colno} ({error.msg})") from error
        yield _checked(f"{path}:{line}", item)
        position = _skip_blank(text, position)
        if text[position : position + 1] == ",":
            position = _skip_blank(text, position + 1)
        elif text[position : position + 1] != "]":
            raise _broken(path, text.count("\n", 0, position) + 1, "the array needs ',' or ']' here")
    position = _skip_blank(text, position + 1)
    if position < len(text):
        raise _broken(path, text.count("\n", 0, position) + 1, "there is text after the array's end")


def _skip_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _broken(path: Path, line: int, reason: str) -> RecordError:
    remedy = "; nothing after this place can be read, so repair the file"
    return RecordError(BadRecord(f"{path}:{line}", "", "", reason + remedy))


def _checked(origin: str, item: object) -> RawRecord:
    if isinstance(item, dict):
        return RawRecord(origin, item)
    reason = "a record must be a JSON object with named fields"
    return RawRecord(origin, {}, BadRecord(origin, "", shorten(item), reason))


def _read_parquet(path: Path) -> Iterator[RawRecord]:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{path}: reading Parquet needs the package pyarrow; install evr-core[parquet], or convert to JSON lines"
        ) from error
    row = 0
    for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
        for fields in batch.to_pylist():
            row += 1
            yield RawRecord(f"{path}:{row}", fields)
