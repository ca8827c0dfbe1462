"""What scoring returns: outcome, grade, reward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

_EPS = 1e-9


class Outcome(StrEnum):
    """How the scoring of one response ended."""

    CORRECT = "correct"
    PARTIAL = "partial"
    WRONG = "wrong"
    UNPARSED = "unparsed"
    ERROR = "error"
    TIMEOUT = "timeout"


class TruthError(ValueError):
    """The sample's ground truth cannot be scored against (the record is at fault, not the response)."""


class JudgeError(RuntimeError):
    """A judge gave no usable verdict; the reward is unknown, not zero."""


@dataclass(frozen=True)
class RewardWeights:
    """Weights of accuracy and format in the overall reward.

    Raises:
        ValueError: a weight is negative or they do not sum to 1.
    """

    accuracy: float = 0.9
    format: float = 0.1

    def __post_init__(self) -> None:
        if min(self.accuracy, self.format) < 0 or not math.isclose(self.accuracy + self.format, 1.0, abs_tol=1e-6):
            raise ValueError(
                f"reward weights accuracy={self.accuracy} and format={self.format} must be >= 0 and sum to 1; "
                "for example accuracy=0.9, format=0.1"
            )


@dataclass(frozen=True)
class Grade:
    """Accuracy of one extracted answer.

    Attributes:
        accuracy: In [0, 1].
        detail: Parts of the score, for logs (for example ``{"iou": 0.4}``).
    """

    accuracy: float
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RewardResult:
    """The reward of one response.

    Attributes:
        overall: ``weights.accuracy * accuracy + weights.format * format``; 0 for error and timeout, where it says
            nothing about the response: look at ``outcome``.
        accuracy: In [0, 1].
        format: 1 answer tag with content of the right kind, 0.5 tag with other content, 0 no tag.
        outcome: How scoring ended.
        extracted: The answer as text, None when none was found.
        detail: ``source`` of the answer, parts of the score, ``error`` for failures.
    """

    overall: float
    accuracy: float
    format: float
    outcome: Outcome
    extracted: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The result as a flat record: overall, accuracy, format, outcome, extracted, and the details."""
        return {
            **self.detail,
            "overall": self.overall,
            "accuracy": self.accuracy,
            "format": self.format,
            "outcome": str(self.outcome),
            "extracted": self.extracted,
        }


def outcome_of(accuracy: float) -> Outcome:
    """Outcome of a parsed answer with this accuracy."""
    if accuracy >= 1 - _EPS:
        return Outcome.CORRECT
    return Outcome.WRONG if accuracy <= _EPS else Outcome.PARTIAL


def failure(outcome: Outcome, message: str, **detail: Any) -> RewardResult:
    """A result for a record that could not be scored (outcome error or timeout)."""
    return RewardResult(0.0, 0.0, 0.0, outcome, None, {"error": message, **detail})
