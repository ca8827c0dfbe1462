"""Do the visual tokens of a prompt leave room for its text?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from evr_core.geometry import ModelGeometry
from evr_core.plan import max_frame_pixels
from evr_core.tokens import temporal_patches
from evr_core.video import VideoBudget

from .data import DataConfig
from .errors import Problem

Medium = Literal["video", "image"]
VIDEO_ONLY: tuple[Medium, ...] = ("video",)

LEAST_TEXT_TOKENS = 16
"""A chat prompt with a question takes at least this many tokens beside its media."""
TIMESTAMP_TOKENS = 8
"""Least tokens of ``<t seconds>`` with the marks around it, once per temporal patch."""


def check_token_budget(
    data: DataConfig, geometry: ModelGeometry, *, media: Collection[Medium] = VIDEO_ONLY
) -> list[Problem]:
    """Refuse budgets whose largest video (or image) leaves no room for text in ``max_prompt_length``.

    Args:
        data: Budgets and lengths.
        geometry: Patch sizes of the model.
        media: The media that the records hold; others are not looked at.
    """
    problems: list[Problem] = []
    if "video" in media:
        train, val = data.video_budget(), data.val_video_budget()
        problems += _video(data, train, geometry, "video")
        if data.val_files and val != train:
            problems += _video(data, val, geometry, "val_video")
    if "image" in media:
        problems += _image(data, geometry)
    return problems


def max_video_tokens(budget: VideoBudget, geometry: ModelGeometry) -> int:
    """Visual tokens of the largest video that a budget allows, over every number of frames.

    A small video that is enlarged to ``min_pixels`` may take a few more, where the grid rounds up past the maximum.
    """
    return max(_tokens(frames, budget, geometry) for frames in _frame_counts(budget, geometry))


def _frame_counts(budget: VideoBudget, geometry: ModelGeometry) -> range:
    step = geometry.temporal_patch_size
    return range(min(step, budget.max_frames), budget.max_frames + 1, step)


def _tokens(frames: int, budget: VideoBudget, geometry: ModelGeometry) -> int:
    per_patch = int(max_frame_pixels(frames, budget, geometry) // geometry.factor**2)
    return temporal_patches(frames, geometry) * max(1, per_patch)


def _overhead(frames: int, geometry: ModelGeometry) -> int:
    return temporal_patches(frames, geometry) * TIMESTAMP_TOKENS if geometry.timestamped_frames else 0


def _video(data: DataConfig, budget: VideoBudget, geometry: ModelGeometry, prefix: str) -> Iterator[Problem]:
    def needed(frames: int) -> int:
        return _tokens(frames, budget, geometry) + _overhead(frames, geometry) + LEAST_TEXT_TOKENS

    counts = _frame_counts(budget, geometry)
    worst = max(counts, key=needed)
    if needed(worst) <= data.max_prompt_length:
        return
    visual, stamps = _tokens(worst, budget, geometry), _overhead(worst, geometry)
    fitting = [frames for frames in counts if needed(frames) <= data.max_prompt_length]
    reason = (
        f"a video of {worst} frames takes up to {visual} visual tokens"
        + (f" and {stamps} tokens of timestamps" if stamps else "")
        + f" of data.max_prompt_length {data.max_prompt_length}, which leaves no room for text. Three ways out: "
        + f"fewer pixels ({_pixels_way(data, prefix, worst, stamps, geometry)}), "
        + f"fewer frames ({_frames_way(prefix, counts, fitting)}), "
        + f"or a longer prompt (data.max_prompt_length >= {needed(worst)})"
    )
    yield Problem(f"data.{prefix}_max_pixels", reason, budget.max_pixels)


def _pixels_way(data: DataConfig, prefix: str, frames: int, stamps: int, geometry: ModelGeometry) -> str:
    room = data.max_prompt_length - LEAST_TEXT_TOKENS - stamps
    per_patch = room // temporal_patches(frames, geometry)
    if per_patch < 1:
        return f"not enough by itself: {frames} frames need at least one token per temporal patch"
    pixels = per_patch * geometry.factor**2
    low = data.video_budget().min_pixels if prefix == "video" else data.val_video_budget().min_pixels
    also = f" with data.{prefix}_min_pixels no larger" if low > pixels else ""
    return f"data.{prefix}_max_pixels <= {pixels}{also}"


def _frames_way(prefix: str, counts: range, fitting: list[int]) -> str:
    """The most frames up to which every count fits."""
    most = 0
    for frames in counts:
        if frames not in fitting:
            break
        most = frames
    return f"data.{prefix}_max_frames <= {most}" if most else "not enough by itself: the shortest video is too large"


def _image(data: DataConfig, geometry: ModelGeometry) -> Iterator[Problem]:
    most = data.image_pixels[1]
    tokens = most // geometry.factor**2
    room = data.max_prompt_length - LEAST_TEXT_TOKENS
    if tokens <= room:
        return
    reason = (
        f"an image takes up to {tokens} visual tokens of data.max_prompt_length {data.max_prompt_length}, which leaves "
        f"no room for text. Ways out: fewer pixels (data.image_max_pixels <= {max(0, room) * geometry.factor**2}), or "
        f"a longer prompt (data.max_prompt_length >= {tokens + LEAST_TEXT_TOKENS})"
    )
    yield Problem("data.image_max_pixels", reason, most)
