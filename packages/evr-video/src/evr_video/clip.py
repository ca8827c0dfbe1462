"""Decoded media, ready for a model.

Legend: T frames, H and W height and width after resizing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from evr_core import ImagePlan, VideoPlan
from evr_video._digest import digest_frames, digest_json

#: What to give a processor beside a clip, so that it neither samples nor resizes again.
PROCESSOR_KWARGS = {"do_resize": False, "do_sample_frames": False}


@dataclass(frozen=True, repr=False)
class VideoClip:
    """The sampled and resized frames of one video.

    Attributes:
        frames: RGB, uint8. [T, 3, H, W]
        frame_indices: Positions of the frames in the stream, int64. [T]
        timestamps_s: When the frames show, by the container's time stamps, in seconds from the first frame of the
            stream, float64; for constant frame rates these are the plan's nominal times. [T]
        source_fps: Frames per second of the stream.
        duration_s: Length of the stream in seconds.
        plan: The decision that these frames obey.
        source_digest: SHA-256 of the file's content.
        backend: The reader that decoded them.
        frame_digest: SHA-256 of the frames when it is known already.
    """

    frames: Tensor
    frame_indices: Tensor
    timestamps_s: Tensor
    source_fps: float
    duration_s: float
    plan: VideoPlan
    source_digest: str
    backend: str
    frame_digest: str = ""

    def __post_init__(self) -> None:
        expected = (self.plan.num_frames, 3, self.plan.height, self.plan.width)
        if self.frames.dtype != torch.uint8 or tuple(self.frames.shape) != expected:
            raise ValueError(f"frames are {_shape(self.frames)}, the plan says uint8 {list(expected)}")
        for name in ("frame_indices", "timestamps_s"):
            if tuple(getattr(self, name).shape) != expected[:1]:
                raise ValueError(
                    f"{name} is {_shape(getattr(self, name))}, expected one value per frame: {expected[0]}"
                )

    def __repr__(self) -> str:
        return (
            f"VideoClip(frames={_shape(self.frames)}, frame_indices={_ends(self.frame_indices)}, "
            f"timestamps_s={_ends(self.timestamps_s)}, source_fps={self.source_fps:g}, duration_s={self.duration_s:g}, "
            f"grid_thw={self.plan.grid_thw}, visual_tokens={self.plan.visual_tokens}, backend={self.backend!r})"
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the frames."""
        return self.frame_digest or digest_frames(self.frames)

    @property
    def uuid(self) -> str:
        """What vLLM may cache this clip under: the frames together with their place in the video."""
        return digest_json([self.digest, self.plan.frame_indices, self.source_fps])

    @property
    def metadata(self) -> dict[str, Any]:
        """The fields of transformers' ``VideoMetadata``."""
        return {
            "total_num_frames": self.plan.range_num_frames,
            "fps": self.source_fps,
            "width": self.plan.width,
            "height": self.plan.height,
            "duration": self.duration_s,
            "video_backend": self.backend,
            "frames_indices": list(self.plan.frame_indices),
        }

    def for_transformers(self) -> tuple[Tensor, dict[str, Any]]:
        """``(frames, metadata)`` for a processor's ``videos`` and ``video_metadata``, with ``PROCESSOR_KWARGS``.

        The frames are the uint8 tensor itself. [T, 3, H, W]
        """
        return self.frames, self.metadata

    def for_vllm(self) -> tuple[npt.NDArray[np.uint8], dict[str, Any]]:
        """``(frames, metadata)``: one item of ``multi_modal_data["video"]``.

        Give ``PROCESSOR_KWARGS`` as ``mm_processor_kwargs`` and ``uuid`` under ``multi_modal_uuids``. The frames are a
        copy, as vLLM wants the channels last. [T, H, W, 3]
        """
        metadata = {key: value for key, value in self.metadata.items() if key not in ("width", "height")}
        frames = self.frames.permute(0, 2, 3, 1).contiguous().numpy()
        return frames, {**metadata, "do_sample_frames": False}


@dataclass(frozen=True, repr=False)
class ImageClip:
    """A resized picture.

    Attributes:
        pixels: RGB, uint8. [3, H, W]
        plan: The decision that these pixels obey.
        source_digest: SHA-256 of the file's content.
        frame_digest: SHA-256 of the pixels when it is known already.
    """

    pixels: Tensor
    plan: ImagePlan
    source_digest: str
    frame_digest: str = ""

    def __post_init__(self) -> None:
        expected = (3, self.plan.height, self.plan.width)
        if self.pixels.dtype != torch.uint8 or tuple(self.pixels.shape) != expected:
            raise ValueError(f"pixels are {_shape(self.pixels)}, the plan says uint8 {list(expected)}")

    def __repr__(self) -> str:
        tokens = self.plan.visual_tokens
        return f"ImageClip(pixels={_shape(self.pixels)}, grid_thw={self.plan.grid_thw}, visual_tokens={tokens})"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the pixels."""
        return self.frame_digest or digest_frames(self.pixels)

    @property
    def uuid(self) -> str:
        """What vLLM may cache this picture under."""
        return self.digest

    def for_transformers(self) -> Tensor:
        """The uint8 tensor for a processor's ``images``, with ``do_resize=False``. [3, H, W]"""
        return self.pixels

    def for_vllm(self) -> Image.Image:
        """One item of ``multi_modal_data["image"]``, with ``mm_processor_kwargs={"do_resize": False}``."""
        return Image.fromarray(self.pixels.permute(1, 2, 0).contiguous().numpy())


def _shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _ends(tensor: Tensor) -> str:
    values = [f"{value:g}" for value in tensor.tolist()]
    return "[" + ", ".join(values if len(values) <= 4 else [*values[:2], "...", values[-1]]) + "]"
