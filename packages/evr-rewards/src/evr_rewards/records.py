"""Reward records (SPEC section 4): dicts in, dicts out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from evr_core.schema import DataType, ProblemType, Sample
from evr_rewards._passages import outside_thinking
from evr_rewards.registry import Scorer, canonical_type, get_scorer
from evr_rewards.result import Outcome, RewardResult, RewardWeights
from evr_rewards.scoring import DEFAULT_WEIGHTS, Found, find, score

_OWN: Final = frozenset(
    {"response", "response_length", "ground_truth", "answer", "solution", "problem_type", "data_type",
     "options", "prompt",
     "problem", "question", "problem_id", "data_source", "truncated", "scorer"}
)  # fmt: skip
_KINDS: Final = {str(kind): kind for kind in ProblemType}


def sample_from_record(record: Mapping[str, Any]) -> Sample:
    """The sample behind a reward record.

    Raises:
        ValueError: ``ground_truth`` (or ``answer``) or ``problem_type`` is missing.
    """
    truth = record.get("ground_truth", record.get("answer", record.get("solution")))
    if truth is None:
        raise ValueError(f"reward record has no ground_truth; it has {', '.join(sorted(map(str, record)))}")
    if not record.get("problem_type"):
        raise ValueError("reward record has no problem_type; it decides the scorer, for example 'multiple choice'")
    name = canonical_type(str(record["problem_type"]))
    extra = {key: value for key, value in record.items() if key not in _OWN}
    return Sample(
        problem_id=str(record.get("problem_id", "")),
        problem=str(record.get("problem") or record.get("question") or record.get("prompt") or ""),
        answer=truth_text(truth),
        problem_type=_KINDS.get(name, name),  # type: ignore[arg-type]  # types of other packages have no member
        data_type=_data_type(record.get("data_type")),
        options=tuple(str(option) for option in record.get("options") or ()),
        data_source=str(record.get("data_source", "")),
        extra=extra,
    )


def truth_text(truth: Any) -> str:
    """A ground truth as text: JSON for structures, without thinking and answer tags."""
    if not isinstance(truth, str):
        return json.dumps(truth, ensure_ascii=False)
    if "<" not in truth:
        return truth
    text = outside_thinking(truth)
    start, end = text.rfind("<answer>"), text.rfind("</answer>")
    return text[start + 8 : end].strip() if 0 <= start < end else text.strip()


def _data_type(value: Any) -> DataType:
    try:
        return DataType(str(value or "text"))
    except ValueError:
        raise ValueError(f"data_type {value!r} is not one of {', '.join(DataType)}") from None


def score_record(
    record: Mapping[str, Any],
    *,
    weights: RewardWeights = DEFAULT_WEIGHTS,
    require_thinking: bool = False,
    scorers: Mapping[str, Any] | None = None,
) -> RewardResult:
    """Score one record with the scorer of its ``problem_type``.

    Args:
        record: ``response``, ``ground_truth`` and ``problem_type``; ``options``, ``truncated`` and others if any.
        weights: Shares of accuracy and format.
        require_thinking: The format reward asks for a thinking block too.
        scorers: Scorers by canonical problem type that replace the registered ones (for example a judge).

    Raises:
        ValueError: the record lacks a field or its type is unknown.
    """
    sample, scorer = _sample_and_scorer(record, scorers)
    return score(
        _response(record),
        sample,
        weights=weights,
        truncated=bool(record.get("truncated", False)),
        require_thinking=require_thinking,
        scorer=scorer,
    )


def found_in_record(
    record: Mapping[str, Any], *, weights: RewardWeights, require_thinking: bool, scorers: Mapping[str, Any]
) -> Found | RewardResult:
    """`score_record` up to the point where the found answer waits for its grade."""
    sample, scorer = _sample_and_scorer(record, scorers)
    return find(
        _response(record),
        sample,
        weights=weights,
        truncated=bool(record.get("truncated", False)),
        require_thinking=require_thinking,
        scorer=scorer,
    )


def _sample_and_scorer(record: Mapping[str, Any], scorers: Mapping[str, Any] | None) -> tuple[Sample, Scorer]:
    sample = sample_from_record(record)
    name = str(record.get("scorer") or sample.problem_type)
    return sample, (scorers or {}).get(name) or get_scorer(name)


def _response(record: Mapping[str, Any]) -> str:
    response = record.get("response")
    if not isinstance(response, str):
        raise ValueError(f"reward record's response is {type(response).__name__}; it must be text")
    return response


def outcome_counts(results: Iterable[Mapping[str, Any] | RewardResult]) -> dict[str, int]:
    """How many results ended in each outcome; every outcome is listed."""
    found = Counter(
        str(result.outcome if isinstance(result, RewardResult) else result.get("outcome", "unknown"))
        for result in results
    )
    return {**{str(outcome): 0 for outcome in Outcome}, **found}
