"""Reading the line-by-line files of a run that may have been killed and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Every complete line of a JSONL file as a dict; a last line that a kill left unfinished is left out.

    Raises:
        ValueError: A complete line is no JSON object; names file and line.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path}:{number}: not JSON ({error}); the file was damaged after it was written"
            ) from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}:{number}: expected a JSON object, found {type(row).__name__}")
        rows.append(row)
    return rows


def read_steps(path: Path) -> list[dict[str, Any]]:
    """The rows of a ``metrics.jsonl`` by ascending step; of a step that was run twice, the later row.

    Raises:
        ValueError: A row has no integer ``step``.
    """
    by_step: dict[int, dict[str, Any]] = {}
    for row in read_lines(path):
        step = row.get("step")
        if not isinstance(step, int):
            raise ValueError(f"{path}: a metrics row has step={step!r}; expected an integer")
        by_step[step] = {**by_step.get(step, {}), **row}
    return [by_step[step] for step in sorted(by_step)]


def series(rows: list[dict[str, Any]], key: str) -> tuple[list[int], list[float]]:
    """Steps and values of one metric, for the rows that have it."""
    pairs = [(row["step"], float(row[key])) for row in rows if isinstance(row.get(key), int | float)]
    return [step for step, _ in pairs], [value for _, value in pairs]
