"""The plan of a clip: frames, timestamps, size, grid and tokens, decided once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache

from evr_core.geometry import ModelGeometry
from evr_core.sampling import count_frames, frame_range, spread_indices
from evr_core.tokens import smart_resize, temporal_patches, video_tokens
from evr_core.video import VideoBudget, VideoInfo, VideoPlan

_logger = logging.getLogger(__name__)

MAX_TOKENS_PER_FRAME = 768


def plan_video(
    info: VideoInfo,
    budget: VideoBudget,
    geometry: ModelGeometry,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
) -> VideoPlan:
    """Decide which frames of a video are taken and how they are resized.

    Frame for frame and pixel for pixel the choice of qwen-vl-utils for the same arguments; the timestamp texts are
    those that the Qwen3-VL processor of transformers writes for these frames.

    Args:
        info: What the container says.
        budget: What may be spent.
        geometry: Patch sizes of the model.
        start_s: Start of the range to look at, in seconds.
        end_s: End of that range.

    Raises:
        ValueError: The budget asks for more frames than there are, the range is empty, the pixel bounds contradict
            each other, or the aspect ratio is beyond 200.
    """
    multiple = geometry.temporal_patch_size
    start, end = frame_range(info, start_s=start_s, end_s=end_s)
    available = end - start + 1
    count = count_frames(available, info.fps, budget, multiple=multiple)
    indices = spread_indices(start, end, count)
    height, width = smart_resize(
        info.height,
        info.width,
        factor=geometry.factor,
        min_pixels=budget.min_pixels,
        max_pixels=max_frame_pixels(count, budget, geometry),
    )
    grid_t = temporal_patches(count, geometry)
    return VideoPlan(
        frame_indices=indices,
        timestamps_s=tuple(index / info.fps for index in indices),
        height=height,
        width=width,
        grid_thw=(grid_t, height // geometry.patch_size, width // geometry.patch_size),
        visual_tokens=video_tokens(count, height, width, geometry),
        timestamp_texts=timestamp_texts(indices, info.fps, geometry),
        sample_fps=count / available * info.fps,
        source_fps=info.fps,
        source_num_frames=info.num_frames,
    )


def max_frame_pixels(num_frames: int, budget: VideoBudget, geometry: ModelGeometry) -> float:
    """Most pixels of one frame: the least of ``max_pixels``, 768 tokens' worth, and the frame's share of the total.

    A share below ``min_pixels`` is lifted to 1.05 times ``min_pixels``, so ``total_pixels`` gives way to
    ``min_pixels``, as in qwen-vl-utils.
    """
    ceiling = MAX_TOKENS_PER_FRAME * geometry.factor**2
    if budget.max_pixels > ceiling:
        _warn_ceiling(budget.max_pixels, ceiling)
    share = budget.total_pixels / num_frames * geometry.temporal_patch_size
    return min(budget.max_pixels, max(min(ceiling, share), int(budget.min_pixels * 1.05)))


def timestamp_texts(indices: Sequence[int], source_fps: float, geometry: ModelGeometry) -> tuple[str, ...]:
    """One ``<t seconds>`` text per temporal patch: the mean time of its first and last frame, to one decimal.

    An incomplete last patch is filled up with its last frame. Empty for families without such texts. [T']
    """
    if not geometry.timestamped_frames:
        return ()
    span = geometry.temporal_patch_size
    padded = [*indices, *[indices[-1]] * (-len(indices) % span)]
    times = [index / source_fps for index in padded]
    means = [(times[i] + times[i + span - 1]) / 2 for i in range(0, len(times), span)]
    return tuple(f"<{mean:.1f} seconds>" for mean in means)


@lru_cache(maxsize=64)
def _warn_ceiling(max_pixels: int, ceiling: int) -> None:
    """Say once per value that a frame is held to 768 tokens."""
    _logger.warning("max_pixels %d of a video frame is held to %d (768 tokens a frame)", max_pixels, ceiling)
