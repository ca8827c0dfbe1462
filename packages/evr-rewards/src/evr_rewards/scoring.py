"""`score`: one response against one sample."""

from __future__ import annotations

from typing import Final

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction, Source
from evr_rewards.registry import Scorer, get_scorer
from evr_rewards.result import JudgeError, Outcome, RewardResult, RewardWeights, TruthError, failure, outcome_of

DEFAULT_WEIGHTS: Final = RewardWeights()


def score(
    response: str,
    sample: Sample,
    *,
    weights: RewardWeights = DEFAULT_WEIGHTS,
    truncated: bool = False,
    require_thinking: bool = False,
    scorer: Scorer | None = None,
) -> RewardResult:
    """Score ``response`` against ``sample.answer`` with the scorer of ``sample.problem_type``.

    Args:
        response: Text that the model generated.
        sample: The record with its ground truth.
        weights: Shares of accuracy and format in ``overall``.
        truncated: Generation stopped at the length limit: without a complete answer tag or box the answer is unparsed.
        require_thinking: The format reward also asks for a closed thinking block.
        scorer: Used in place of the one registered for the problem type.

    Returns:
        The reward. A sample whose truth cannot be used, a time-out and a judge's failure come back as the outcomes
        ``error`` and ``timeout``.

    Raises:
        ValueError: unknown problem type.
    """
    scorer = scorer or get_scorer(sample.problem_type)
    extraction = scorer.extract(response, sample, truncated=truncated)
    form = format_reward(response, extraction, require_thinking=require_thinking)
    detail = {"source": extraction.source.value if extraction.source else None, "confidence": extraction.confidence}
    if extraction.value is None:
        return RewardResult(weights.format * form, 0.0, form, Outcome.UNPARSED, None, detail)
    try:
        grade = scorer.grade(extraction.value, sample)
    except (TruthError, JudgeError) as error:
        return failure(Outcome.ERROR, f"{sample.problem_id}: {error}", **detail)
    except TimeoutError as error:
        return failure(Outcome.TIMEOUT, f"{sample.problem_id}: {error}", **detail)
    overall = weights.accuracy * grade.accuracy + weights.format * form
    extracted = extraction.value if isinstance(extraction.value, str) else extraction.text
    return RewardResult(
        overall, grade.accuracy, form, outcome_of(grade.accuracy), extracted, {**detail, **grade.detail}
    )


def format_reward(response: str, extraction: Extraction, *, require_thinking: bool = False) -> float:
    """1 answer tag with content of the right kind, 0.5 tag with other content, 0 no tag (or no closed thinking block)."""
    if not extraction.tagged or (require_thinking and "</think" not in response.lower()):
        return 0.0
    return 1.0 if extraction.value is not None and extraction.source is Source.TAG else 0.5
