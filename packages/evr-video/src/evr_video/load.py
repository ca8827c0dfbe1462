"""Reading single videos and pictures."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from evr_core import ModelGeometry, VideoBudget, VideoInfo, plan_image, plan_video
from evr_video._decode import TIMEOUT_S, check_backend, check_file, decode_image, decode_video, probe_image, probe_video
from evr_video._digest import digest_file
from evr_video.cache import FrameCache
from evr_video.clip import ImageClip, VideoClip


def probe(path: str | Path, *, timeout_s: float = TIMEOUT_S) -> VideoInfo:
    """Read a video's frame count, rate, size as displayed and duration, from its packets and its first frame.

    Raises:
        DecodeError: The file is missing, empty, truncated, or no video.
    """
    return probe_video(Path(path).absolute(), timeout_s)


def load_video(
    source: str | Path,
    budget: VideoBudget,
    geometry: ModelGeometry,
    *,
    backend: str = "auto",
    cache: FrameCache | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
    timeout_s: float = TIMEOUT_S,
) -> VideoClip:
    """Sample, decode and resize a video as qwen-vl-utils would for the same arguments.

    Args:
        source: The file.
        budget: What the prompt may spend on it.
        geometry: Patch sizes of the model.
        backend: "auto", "pyav", "torchcodec" or "decord".
        cache: Where to look first and to keep the frames; its own backend and time-out count then.
        start_s: Start of the range to look at, in seconds.
        end_s: End of that range.
        timeout_s: Seconds that decoding may take.

    Raises:
        DecodeError: The file cannot be read.
        ValueError: The budget does not fit the video, or the backend is unknown.
    """
    check_backend(backend)
    if cache is not None:
        if backend not in ("auto", cache.backend):
            raise ValueError(f"backend={backend!r}: this cache decodes with {cache.backend!r}")
        clip = cache.ensure_video(source, budget, geometry, start_s=start_s, end_s=end_s).open()
        assert isinstance(clip, VideoClip)
        return clip
    path = Path(source).absolute()
    info = probe_video(path, timeout_s)
    plan = plan_video(info, budget, geometry, start_s=start_s, end_s=end_s)
    video = decode_video(path, plan, backend, timeout_s, min(8, os.cpu_count() or 1))
    return VideoClip(
        frames=video.frames,
        frame_indices=torch.tensor(plan.frame_indices),
        timestamps_s=video.timestamps_s,
        source_fps=info.fps,
        duration_s=info.duration_s,
        plan=plan,
        source_digest=digest_file(path),
        backend=video.backend,
    )


def load_image(
    source: str | Path,
    geometry: ModelGeometry,
    *,
    min_pixels: int | None = None,
    max_pixels: int | None = None,
    timeout_s: float = TIMEOUT_S,
) -> ImageClip:
    """Read and resize a picture as qwen-vl-utils would; errors as ``load_video``."""
    path = Path(source).absolute()
    check_file(path)
    plan = plan_image(*probe_image(path, timeout_s), geometry, min_pixels=min_pixels, max_pixels=max_pixels)
    return ImageClip(decode_image(path, plan, timeout_s), plan, digest_file(path))
