"""From pydantic's errors to problems in plain words."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ._base import Section
from ._schema import field_at, known_paths, plain_type, section_of
from .errors import Problem

_NEAR_ENOUGH = 0.6
_SLIP_OF_THE_PEN = 0.8


def problems_of(error: ValidationError, root: type[Section]) -> list[Problem]:
    """One problem per error of pydantic, with the nearest key for unknown ones."""
    return [_problem(detail, root) for detail in error.errors(include_url=False)]


def _problem(detail: ErrorDetails, root: type[Section]) -> Problem:
    path = dotted(detail["loc"])
    value = detail["input"]
    if detail["type"] == "extra_forbidden":
        return unknown_key(path, value, root)
    key = key_path(detail["loc"], root)
    field = field_at(root, key)
    if field is None:
        return Problem(path, f"expected a mapping of sections, got {kind_of(value)}", value)
    if section_of(field) is not None:
        return Problem(path, f"expected a section with keys of its own, got {kind_of(value)}", value)
    where = key if detail["type"] == "missing" else path  # what is missing has no value to show, its list has
    return Problem(where, _reason(detail), value, allowed=plain_type(field))


def _reason(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if "error" in context:
        return str(context["error"])
    if kind in ("literal_error", "greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        return "not an allowed value"
    if kind in ("too_short", "too_long", "missing"):
        return "wrong number of values"
    if kind == "finite_number":
        return "must be finite"
    return f"wrong type: {kind_of(detail['input'])}"


def unknown_key(path: str, value: object, root: type[Section]) -> Problem:
    """The problem of a key that no section has.

    An unknown section whose name is no slip of the pen and that holds one key is reported as that key.
    """
    nearest = nearest_key(path, root)
    if isinstance(value, dict) and len(value) == 1 and _ratio(path, nearest) < _SLIP_OF_THE_PEN:
        ((name, inner),) = value.items()
        return unknown_key(f"{path}.{name}", inner, root)
    return Problem(path, "unknown key", value, nearest=nearest)


def nearest_key(path: str, root: type[Section]) -> str:
    """The known dotted path most like ``path``; a key in the wrong section is found by its last name. Or empty."""
    leaf = path.rsplit(".", 1)[-1]

    def likeness(candidate: str) -> float:
        whole = _ratio(path, candidate)
        last = _ratio(leaf, candidate.rsplit(".", 1)[-1])
        return 0.9 + 0.1 * whole if last == 1.0 else max(0.9 * whole, 0.7 * last + 0.3 * whole)

    best = max(known_paths(root), key=likeness)
    return best if likeness(best) >= _NEAR_ENOUGH else ""


def _ratio(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


def dotted(location: Sequence[int | str]) -> str:
    """``("trainer", "logger", 0)`` as ``trainer.logger[0]``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def key_path(location: Sequence[int | str], root: type[Section]) -> str:
    """The longest start of an error's location that names a key or section of ``root``, dotted."""
    path = ""
    for part in location:
        longer = f"{path}.{part}" if path else str(part)
        if field_at(root, longer) is None:
            break
        path = longer
    return path


def kind_of(value: Any) -> str:
    """The type of a value in plain words."""
    if value is None:
        return "null"
    names: dict[type, str] = {
        bool: "true or false",
        int: "a whole number",
        float: "a number with a fraction",
        str: "text",
        list: "a list",
        tuple: "a list",
        dict: "a mapping",
    }
    return names.get(type(value), "a path" if isinstance(value, Path) else type(value).__name__)
