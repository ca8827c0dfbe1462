"""Token math, sample schema, prompts and batch balancing for video-language models; no torch."""

from __future__ import annotations

from evr_core._record_errors import BadRecord, RecordError
from evr_core.balance import pack_by_tokens, partition_balanced
from evr_core.families import geometry_for
from evr_core.geometry import ModelGeometry
from evr_core.image import ImagePlan, plan_image
from evr_core.memory import MemoryEstimate, StepShape, estimate_memory, kv_bytes_per_token
from evr_core.model_shape import ModelShape, model_shape
from evr_core.mrope import mrope_positions, seconds_per_grid
from evr_core.placeholders import expand_placeholders
from evr_core.plan import max_frame_pixels, plan_video
from evr_core.problem_types import parse_problem_type
from evr_core.prompts import prompt_parts, render_prompt
from evr_core.records import SampleSet, missing_media, read_samples
from evr_core.schema import DataType, ProblemType, RecordFields, Sample
from evr_core.tokens import (
    image_tokens,
    pixels_for_tokens,
    smart_resize,
    temporal_patches,
    tokens_per_frame,
    video_tokens,
)
from evr_core.video import VideoBudget, VideoInfo, VideoPlan

__all__ = [
    "BadRecord",
    "DataType",
    "ImagePlan",
    "MemoryEstimate",
    "ModelGeometry",
    "ModelShape",
    "ProblemType",
    "RecordError",
    "RecordFields",
    "Sample",
    "SampleSet",
    "StepShape",
    "VideoBudget",
    "VideoInfo",
    "VideoPlan",
    "estimate_memory",
    "expand_placeholders",
    "geometry_for",
    "image_tokens",
    "kv_bytes_per_token",
    "max_frame_pixels",
    "missing_media",
    "model_shape",
    "mrope_positions",
    "pack_by_tokens",
    "parse_problem_type",
    "partition_balanced",
    "pixels_for_tokens",
    "plan_image",
    "plan_video",
    "prompt_parts",
    "read_samples",
    "render_prompt",
    "seconds_per_grid",
    "smart_resize",
    "temporal_patches",
    "tokens_per_frame",
    "video_tokens",
]
