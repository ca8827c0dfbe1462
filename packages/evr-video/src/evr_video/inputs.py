"""From handles to the tensors that a Qwen-VL model of transformers takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from evr_video.clip import ImageClip, VideoClip
from evr_video.handle import MediaHandle


def visual_inputs(handles: Sequence[MediaHandle], processor: Any) -> dict[str, Tensor]:
    """Run the processor's image and video parts over cached frames, without sampling or resizing.

    Args:
        handles: Media in prompt order; of several prompts, one prompt after the other.
        processor: A processor of transformers with ``image_processor`` and ``video_processor``.

    Returns:
        ``pixel_values`` and ``image_grid_thw`` when there are images, ``pixel_values_videos`` and ``video_grid_thw``
        when there are videos; each kind concatenated in the order given. Pixels [patches, features], grids [M, 3].

    Raises:
        EntryError: An entry is gone or damaged.
        ValueError: The processor makes another grid than the plan says.
    """
    clips = [handle.open() for handle in handles]
    images = [clip for clip in clips if isinstance(clip, ImageClip)]
    videos = [clip for clip in clips if isinstance(clip, VideoClip)]
    inputs: dict[str, Tensor] = {}
    if images:
        pixels = [clip.for_transformers() for clip in images]
        inputs |= _tensors(processor.image_processor(images=pixels, do_resize=False, return_tensors="pt"))
        _expect("image", inputs["image_grid_thw"], images)
    if videos:
        frames, metadata = zip(*(clip.for_transformers() for clip in videos), strict=True)
        options: dict[str, Any] = {"do_resize": False, "do_sample_frames": False, "return_tensors": "pt"}
        if getattr(processor.video_processor, "cap_pixels_per_frame", False) is None:
            options["cap_pixels_per_frame"] = False  # it only concerns resizing; unset, it warns
        made = processor.video_processor(videos=list(frames), video_metadata=list(metadata), **options)
        inputs |= _tensors(made)
        _expect("video", inputs["video_grid_thw"], videos)
    return inputs


def _tensors(features: Any) -> dict[str, Tensor]:
    return {name: value for name, value in features.items() if isinstance(value, Tensor)}


def _expect(kind: str, grids: Tensor, clips: Sequence[VideoClip | ImageClip]) -> None:
    found, expected = [tuple(grid) for grid in grids.tolist()], [clip.plan.grid_thw for clip in clips]
    if found != expected:
        raise ValueError(
            f"the processor makes {kind} grids {found}, the plans say {expected}; "
            "plan with the geometry of this model (geometry_for)"
        )
