"""Scorers by problem type: built-in ones, registered ones, and entry points of other packages. Loaded on first use."""

from __future__ import annotations

import difflib
import importlib
import re
from functools import cache, lru_cache
from importlib.metadata import entry_points
from typing import Any, Final, Protocol, runtime_checkable

from evr_core.problem_types import parse_problem_type
from evr_core.schema import ProblemType, Sample
from evr_rewards.extraction import Extraction
from evr_rewards.result import Grade

ENTRY_POINT_GROUP: Final = "evr_rewards.scorers"


@runtime_checkable
class Scorer(Protocol):
    """Scores one kind of answer. Implementations are stateless."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """Find the answer in a response; a value of None means unparsed."""
        ...

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Grade a found value.

        Raises:
            TruthError: the sample's ground truth is unusable.
        """
        ...


_BUILT_IN: Final[dict[str, str]] = {
    ProblemType.MULTIPLE_CHOICE: "choice:Choice",
    ProblemType.NUMERICAL: "numerical:Numerical",
    ProblemType.REGRESSION: "regression:Regression",
    ProblemType.BOOLEAN: "boolean:Boolean",
    ProblemType.TEMPORAL_GROUNDING: "temporal:TemporalGrounding",
    ProblemType.SPATIAL_GROUNDING: "spatial:SpatialGrounding",
    ProblemType.SPATIAL_TEMPORAL_GROUNDING: "spatial_temporal:SpatialTemporalGrounding",
    ProblemType.TRACKING: "tracking:Tracking",
    ProblemType.OPEN_ENDED: "open_ended:OpenEnded",
    ProblemType.OCR: "ocr:Ocr",
    ProblemType.MATH: "math:Math",
    ProblemType.CODE: "code:Code",
    ProblemType.SVG_CODE: "markup:Svg",
    ProblemType.HTML_CODE: "markup:Html",
    ProblemType.PREFERENCE: "preference:Preference",
    "ocr exact": "ocr:OcrExact",
}
# Beyond the names that evr_core knows.
_ALIASES: Final[dict[str, str]] = {
    "mc": "multiple choice",
    "choice": "multiple choice",
    "counting": "numerical",
    "bool": "boolean",
    "grounding": "spatial grounding",
    "temporal localization": "temporal grounding",
    "caption": "open-ended",
    "captioning": "open-ended",
    "description": "open-ended",
    "svg": "svg-code",
    "html": "html-code",
}
_REGISTERED: dict[str, Scorer] = {}


def _key(name: str) -> str:
    return re.sub(r"[\s_\-]+", " ", str(name)).strip().casefold()


@lru_cache(maxsize=512)
def canonical_type(name: str) -> str:
    """The canonical name of a problem type: case, "_" and "-" do not matter, aliases are followed.

    A name that neither evr_core nor this package knows comes back folded: another package may have registered it.
    """
    folded = _key(name)
    try:
        return str(parse_problem_type(_ALIASES.get(folded, folded)))
    except ValueError:
        return folded


def known_types() -> list[str]:
    """Canonical names of all scorers that can be had."""
    return sorted({*map(str, _BUILT_IN), *_REGISTERED, *_entry_points()})


def register_scorer(problem_type: str, scorer: Scorer) -> None:
    """Make ``scorer`` responsible for a new problem type in this process.

    Raises:
        ValueError: the type has a scorer already.
    """
    name = canonical_type(problem_type)
    if name in known_types():
        raise ValueError(f"problem type {name!r} has a scorer already; use another name or pass scorer= to score()")
    _REGISTERED[name] = scorer
    get_scorer.cache_clear()


@lru_cache(maxsize=256)
def get_scorer(problem_type: str) -> Scorer:
    """The scorer of a problem type.

    Raises:
        ValueError: unknown type; the message lists the known ones and the nearest.
    """
    name = canonical_type(problem_type)
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        scorer: Scorer = getattr(importlib.import_module(f"evr_rewards.scorers.{module}"), attribute)()
        return scorer
    if name in _entry_points():
        loaded = _entry_points()[name].load()
        return loaded() if isinstance(loaded, type) else loaded  # type: ignore[no-any-return]
    nearest = difflib.get_close_matches(name, [*known_types(), *_ALIASES], n=1, cutoff=0.4)
    hint = f"; did you mean {canonical_type(nearest[0])!r}?" if nearest else ""
    raise ValueError(f"unknown problem type {problem_type!r}{hint} Known types: {', '.join(known_types())}")


@cache
def _entry_points() -> dict[str, Any]:
    found = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        name = canonical_type(point.name)
        if name in _BUILT_IN:
            raise ValueError(
                f"entry point {point.value!r} of group {ENTRY_POINT_GROUP} shadows the built-in type {name!r}"
            )
        found[name] = point
    return found
