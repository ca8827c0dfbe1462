"""Which frames of a video are taken: how many, and where.

The rules are those of qwen-vl-utils (``smart_nframes``, its time range, its index rounding), so that a clip sampled
here equals the clip that its users had, frame for frame.
"""

from __future__ import annotations

import math

from evr_core.video import VideoBudget, VideoInfo


def frame_range(info: VideoInfo, *, start_s: float | None, end_s: float | None) -> tuple[int, int]:
    """Return the first and the last frame, both included, of a time range.

    Times outside the video are moved to its ends; the start is rounded up and the end down to whole frames.

    Raises:
        ValueError: The video has no frames or no frame rate, or the range holds fewer than two frames.
    """
    if info.fps <= 0 or info.num_frames < 1:
        raise ValueError(f"video: {info.num_frames} frames at {info.fps} fps; both must be positive")
    last = info.num_frames - 1
    duration_s = info.num_frames / info.fps
    start = 0 if start_s is None else math.ceil(min(max(start_s, 0.0), duration_s) * info.fps)
    end = last if end_s is None else min(math.floor(min(max(end_s, 0.0), duration_s) * info.fps), last)
    if start >= end and not (start_s is None and end_s is None):
        raise ValueError(
            f"video range {start_s} s to {end_s} s: frames {start} to {end} of a video of {duration_s:.2f} s "
            f"({info.num_frames} frames at {info.fps:g} fps); widen the range so that it holds at least two frames"
        )
    return start, end


def count_frames(available: int, fps: float, budget: VideoBudget, *, multiple: int) -> int:
    """Return how many of ``available`` frames are taken: a multiple of ``multiple``.

    Raises:
        ValueError: The result is below ``multiple`` or more than there are.
    """
    if budget.num_frames is not None:
        count = round(budget.num_frames / multiple) * multiple
        asked = f"num_frames={budget.num_frames}"
    else:
        least = math.ceil(budget.min_frames / multiple) * multiple
        most = math.floor(budget.max_frames / multiple) * multiple
        wanted = min(max(available / fps * budget.fps, least), most, available)
        count = math.floor(wanted / multiple) * multiple
        asked = f"fps={budget.fps}, min_frames={budget.min_frames}, max_frames={budget.max_frames}"
    if not multiple <= count <= available:
        raise ValueError(
            f"video: {asked} gives {count} frames; allowed are {multiple} to {available}, the frames there are. "
            "Ask for fewer frames, widen the range, or pass a single frame as an image"
        )
    return count


def spread_indices(start: int, end: int, count: int) -> tuple[int, ...]:
    """Return ``count`` indices spread evenly over [start, end], both ends included, ascending.

    Half-way cases are decided by float32 arithmetic exactly as in ``torch.linspace(start, end, count).round()``: the
    step is a float32, each point is one fused multiply-add counted from the nearer end. Float64 products of float32
    factors are exact, so rounding their sum once gives the fused result.
    """
    import numpy as np

    if count == 1:
        return (start,)
    step = np.float64(np.float32(end - start) / np.float32(count - 1))
    position = np.arange(count)
    from_start = start + step * position
    from_end = end - step * (count - 1 - position)
    points = np.where(position < count // 2, from_start, from_end).astype(np.float32)
    return tuple(np.round(points).astype(np.int64).tolist())
