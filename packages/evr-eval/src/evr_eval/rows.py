"""One evaluated question: what was asked, what came back, what it was worth."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a row ended. Every row ends in exactly one of these, and every one counts in the denominator."""

    CORRECT = "correct"
    PARTIAL = "partial"
    WRONG = "wrong"
    UNPARSED = "unparsed"
    TRUNCATED = "truncated"
    MEDIA_ERROR = "media_error"
    ENGINE_ERROR = "engine_error"
    JUDGE_ERROR = "judge_error"


ERROR_OUTCOMES = frozenset({Outcome.MEDIA_ERROR, Outcome.ENGINE_ERROR, Outcome.JUDGE_ERROR})


@dataclass(frozen=True)
class MediaUse:
    """What of one image or video entered the prompt.

    Attributes:
        path: Relative to the media folder where it lies inside it.
        kind: "video" or "image".
        visual_tokens: Placeholder tokens in the prompt.
        height: Pixels after resizing.
        width: Pixels after resizing.
        frame_indices: Positions in the stream of the frames taken; empty for an image. [T]
        timestamps_s: Their nominal times. [T]
        digest: Hex digest of the pixels.
    """

    path: str
    kind: str
    visual_tokens: int
    height: int
    width: int
    frame_indices: tuple[int, ...] = ()
    timestamps_s: tuple[float, ...] = ()
    digest: str = ""


@dataclass(frozen=True)
class Timing:
    """Seconds spent on a row; the only fields that differ between two runs of the same evaluation."""

    load_s: float = 0.0
    generate_s: float = 0.0
    score_s: float = 0.0


@dataclass(frozen=True)
class ResultRow:
    """One line of ``results.jsonl``.

    Attributes:
        sample_id: Stable and unique within the benchmark.
        config_hash: Hash of everything that can move the response (model, budgets, sampling); see ``config_hash``.
        record_digest: Digest of the rendered question, truth, options and media names.
        benchmark: ``name@version``.
        problem_type: Canonical name.
        cluster: The media shared with other rows; the unit that the intervals resample.
        groups: Value of each of the benchmark's group keys.
        outcome: See ``Outcome``.
        score: Accuracy in [0, 1]; 0 for truncated rows and for errors.
        lenient_score: As ``score``, but a truncated response keeps what its text was worth.
        format: Format score in [0, 1].
        detail: Why there is no score, for errors.
        scoring: Where the answer was found and the parts of its score.
        response: Text of the response, without special tokens.
        extracted: The answer found in it, or None.
        answer: The ground truth.
        finish_reason: "stop", "length", or "" when nothing was generated.
        prompt_hash: Digest of the prompt's token ids, "" when the prompt was never built.
        prompt_tokens: With all placeholders.
        visual_tokens: Placeholder tokens in the prompt.
        output_tokens: Tokens generated.
        media: What entered the prompt, in prompt order.
        timing: Seconds spent.
    """

    sample_id: str
    config_hash: str
    record_digest: str
    benchmark: str
    problem_type: str
    cluster: str
    groups: Mapping[str, str]
    outcome: Outcome
    score: float
    lenient_score: float
    format: float = 0.0
    detail: str = ""
    scoring: Mapping[str, Any] = field(default_factory=dict)
    response: str = ""
    extracted: str | None = None
    answer: str = ""
    finish_reason: str = ""
    prompt_hash: str = ""
    prompt_tokens: int = 0
    visual_tokens: int = 0
    output_tokens: int = 0
    media: tuple[MediaUse, ...] = ()
    timing: Timing = field(default_factory=Timing)

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes a stored row answer a question of this run: sample, configuration and record."""
        return self.sample_id, self.config_hash, self.record_digest

    def to_json(self) -> str:
        """One line of JSON without a newline; keys sorted, so equal rows are equal bytes."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, sort_keys=True, allow_nan=False)

    @staticmethod
    def from_json(line: str) -> ResultRow:
        """The row of one line.

        Raises:
            ValueError: The line is no JSON object or lacks a field.
        """
        raw = json.loads(line)
        if not isinstance(raw, dict):
            raise ValueError(f"a result row must be a JSON object, found {type(raw).__name__}")
        return _row(raw)


def _row(raw: dict[str, Any]) -> ResultRow:
    try:
        media = tuple(
            MediaUse(
                **{**use, "frame_indices": tuple(use["frame_indices"]), "timestamps_s": tuple(use["timestamps_s"])}
            )
            for use in raw.pop("media")
        )
        return ResultRow(
            **{**raw, "outcome": Outcome(raw["outcome"]), "media": media, "timing": Timing(**raw["timing"])}
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a result row of this version: {error}") from error
