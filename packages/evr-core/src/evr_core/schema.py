"""One schema for training and evaluation records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class DataType(StrEnum):
    """The heaviest medium of a sample."""

    TEXT = "text"
    IMAGE = "image"
    VIDEO = "video"


class ProblemType(StrEnum):
    """What kind of answer a question asks for; values are the canonical names."""

    MULTIPLE_CHOICE = "multiple choice"
    NUMERICAL = "numerical"
    REGRESSION = "regression"
    BOOLEAN = "boolean"
    TEMPORAL_GROUNDING = "temporal grounding"
    SPATIAL_GROUNDING = "spatial grounding"
    SPATIAL_TEMPORAL_GROUNDING = "spatial-temporal grounding"
    TRACKING = "tracking"
    OPEN_ENDED = "open-ended"
    OCR = "ocr"
    MATH = "math"
    CODE = "code"
    SVG_CODE = "svg-code"
    HTML_CODE = "html-code"
    PREFERENCE = "preference"


@dataclass(frozen=True)
class Sample:
    """A validated record.

    Attributes:
        problem_id: Stable id; made from the record's content when the file gives none.
        problem: The question; may hold ``<video>`` and ``<image>`` marks.
        answer: Ground truth, without ``<answer>`` tags. Empty only where the caller allowed records without truth.
        problem_type: Decides the prompt template and the scorer.
        data_type: Given or derived from the media.
        images: Paths of images, resolved against the media folder.
        videos: Paths of videos, resolved against the media folder.
        options: Texts of a multiple-choice question as given (they may start with "A. "), else empty.
        video_start_s: Start of the range to look at, in seconds.
        video_end_s: End of that range.
        data_source: Where the record comes from.
        extra: Every other field of the record; reaches templates and reward functions.
        origin: "file:line" for messages.
    """

    problem_id: str
    problem: str
    answer: str
    problem_type: ProblemType
    data_type: DataType
    images: tuple[Path, ...] = ()
    videos: tuple[Path, ...] = ()
    options: tuple[str, ...] = ()
    video_start_s: float | None = None
    video_end_s: float | None = None
    data_source: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""


@dataclass(frozen=True)
class RecordFields:
    """Names of the record's configurable fields."""

    prompt: str = "problem"
    answer: str = "answer"
    images: str = "images"
    videos: str = "videos"
