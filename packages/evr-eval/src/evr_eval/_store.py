"""Append-only results on disk: one JSON line per finished row, readable after a kill at any moment."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

from evr_eval.rows import ResultRow


class ResultStore:
    """The one writer of a ``results.jsonl``.

    Opening reads what is there and cuts off a last line that a kill left unfinished (``torn_lines``). Rows of other
    configurations stay in the file untouched. A later row replaces an earlier one of the same key.

    Raises:
        ValueError: Another process writes the same file, or a line before the last is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = path.open("a+b")
        self._lock()
        self.torn_lines = _drop_torn_line(self._file)
        self.rows: dict[tuple[str, str, str], ResultRow] = {row.key: row for row in read_rows(path)}

    def append(self, row: ResultRow) -> None:
        """Writes the row so that it survives the death of this process."""
        self._file.write(row.to_json().encode() + b"\n")
        self._file.flush()
        self.rows[row.key] = row

    def close(self) -> None:
        """Forces the rows onto the disk and gives the file free."""
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ValueError(
                f"{self.path}: another evaluation is writing here; wait for it or choose another output_dir"
            ) from None


def read_rows(path: Path) -> Iterator[ResultRow]:
    """The rows of a results file in the order written; an unfinished last line is left out.

    Raises:
        ValueError: A complete line is no row; names file and line.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield ResultRow.from_json(line.decode())
            except ValueError as error:
                raise ValueError(f"{path}:{number}: damaged row ({error}); delete that line to run it again") from error


def _drop_torn_line(file: IO[bytes]) -> int:
    """Truncates after the last newline; 1 when something was cut off."""
    size = file.seek(0, os.SEEK_END)
    end = size
    while end > 0:
        start = max(0, end - 65536)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end == size:
        return 0
    file.truncate(end)
    file.seek(0, os.SEEK_END)
    return 1
