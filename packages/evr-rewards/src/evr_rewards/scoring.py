"""`score`: one response against one sample, in two halves (find, grade) so that a batch can grade elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from evr_core.schema import Sample
from evr_rewards.extraction import Extraction, Source
from evr_rewards.registry import Scorer, get_scorer
from evr_rewards.result import Grade, JudgeError, Outcome, RewardResult, RewardWeights, TruthError, failure, outcome_of

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
    found = find(
        response, sample, weights=weights, truncated=truncated, require_thinking=require_thinking, scorer=scorer
    )
    if isinstance(found, RewardResult):
        return found
    try:
        return found.graded(found.scorer.grade(found.extraction.value, sample))
    except (TruthError, JudgeError, TimeoutError, RuntimeError) as error:
        return found.failed(error)


@dataclass(frozen=True)
class Found:
    """A response whose answer was found and waits for its grade."""

    sample: Sample
    scorer: Scorer
    extraction: Extraction
    format: float
    weights: RewardWeights

    def graded(self, grade: Grade) -> RewardResult:
        """The reward for a grade."""
        value = self.extraction.value
        return RewardResult(
            overall=self.weights.accuracy * grade.accuracy + self.weights.format * self.format,
            accuracy=grade.accuracy,
            format=self.format,
            outcome=outcome_of(grade.accuracy),
            extracted=value if isinstance(value, str) else self.extraction.text,
            detail={**_provenance(self.extraction), **grade.detail},
        )

    def failed(self, error: Exception) -> RewardResult:
        """The result when grading failed: the outcome is timeout or error, the message names the sample."""
        outcome = Outcome.TIMEOUT if isinstance(error, TimeoutError) else Outcome.ERROR
        name = f"{self.sample.problem_id}: " if self.sample.problem_id else ""
        return failure(outcome, f"{name}{error}", **_provenance(self.extraction))


def find(
    response: str,
    sample: Sample,
    *,
    weights: RewardWeights,
    truncated: bool,
    require_thinking: bool,
    scorer: Scorer | None,
) -> Found | RewardResult:
    """The first half of `score`: the answer with its format reward, or the finished result "unparsed"."""
    scorer = scorer or get_scorer(sample.problem_type)
    extraction = scorer.extract(response, sample, truncated=truncated)
    form = format_reward(response, extraction, require_thinking=require_thinking)
    if extraction.value is None:
        return RewardResult(weights.format * form, 0.0, form, Outcome.UNPARSED, None, _provenance(extraction))
    return Found(sample, scorer, extraction, form, weights)


def format_reward(response: str, extraction: Extraction, *, require_thinking: bool = False) -> float:
    """1 answer tag with content of the right kind, 0.5 tag with other content, 0 no tag (or no thinking block)."""
    if not extraction.tagged or (require_thinking and "</think" not in response.lower()):
        return 0.0
    return 1.0 if extraction.value is not None and extraction.source is Source.TAG else 0.5


def _provenance(extraction: Extraction) -> dict[str, Any]:
    return {"source": extraction.source.value if extraction.source else None, "confidence": extraction.confidence}
