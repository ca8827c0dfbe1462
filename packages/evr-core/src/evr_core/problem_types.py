"""Problem types by all the names that data sets use for them."""

from __future__ import annotations

import difflib
import re

from evr_core.schema import ProblemType

# Spaces, hyphens, underscores and case never matter, so "Multiple_Choice" and "svg code" need no entry here.
_ALIASES: dict[str, ProblemType] = {
    "multi choice": ProblemType.MULTIPLE_CHOICE,
    "mcq": ProblemType.MULTIPLE_CHOICE,
    "number": ProblemType.NUMERICAL,
    "numeric": ProblemType.NUMERICAL,
    "binary": ProblemType.BOOLEAN,
    "binary classification": ProblemType.BOOLEAN,
    "yes no": ProblemType.BOOLEAN,
    "spatio-temporal grounding": ProblemType.SPATIAL_TEMPORAL_GROUNDING,
    "object tracking": ProblemType.TRACKING,
    "free-form": ProblemType.OPEN_ENDED,
    "video qa": ProblemType.OPEN_ENDED,
    "video description": ProblemType.OPEN_ENDED,
    "llava": ProblemType.PREFERENCE,
    "critic": ProblemType.PREFERENCE,
}


def _squash(name: str) -> str:
    return re.sub(r"[\s_\-/]+", "", name.lower())


_BY_NAME = {_squash(str(kind)): kind for kind in ProblemType} | {_squash(name): kind for name, kind in _ALIASES.items()}


def parse_problem_type(name: str) -> ProblemType:
    """Return the problem type that a name stands for; case, spaces, ``_`` and ``-`` do not matter.

    Raises:
        ValueError: The name is unknown; the message has the nearest known name and all canonical ones.
    """
    kind = _BY_NAME.get(_squash(name))
    if kind is not None:
        return kind
    near = difflib.get_close_matches(_squash(name), _BY_NAME, n=1, cutoff=0.6)
    hint = f"did you mean {str(_BY_NAME[near[0]])!r}? " if near else ""
    raise ValueError(f"unknown problem type {name!r}; {hint}allowed: {', '.join(map(str, ProblemType))}")
