"""Token math: pixels to visual tokens and back, and the resizing rule that both depend on."""

from __future__ import annotations

import math

from evr_core.geometry import ModelGeometry

MAX_ASPECT_RATIO = 200


def smart_resize(height: int, width: int, *, factor: int, min_pixels: float, max_pixels: float) -> tuple[int, int]:
    """Return the (height, width) nearest to the given size whose sides are multiples of ``factor``.

    The area ends up within [min_pixels, max_pixels] wherever the grid allows it, and the aspect ratio is kept as far
    as the grid allows. The same values as qwen-vl-utils, except that a side never falls below one ``factor`` (there it
    can become 0). The image processors of transformers differ only for sides of at most half a ``factor``.

    Args:
        height: Pixels, at least 1.
        width: Pixels, at least 1.
        factor: Pixels along one side of a visual token.
        min_pixels: Least area in pixels.
        max_pixels: Most area in pixels.

    Raises:
        ValueError: A size is not positive, the bounds contradict each other, or one side is more than 200 times the
            other.
    """
    if height < 1 or width < 1:
        raise ValueError(f"smart_resize: height {height} and width {width} must be at least 1 pixel")
    if min_pixels > max_pixels:
        raise ValueError(
            f"smart_resize: min_pixels {min_pixels} is more than max_pixels {max_pixels}; "
            "raise max_pixels or lower min_pixels"
        )
    if max(height, width) / min(height, width) > MAX_ASPECT_RATIO:
        raise ValueError(
            f"smart_resize: {height}x{width} (height x width) is more than {MAX_ASPECT_RATIO} times longer than wide; "
            "crop or pad it first"
        )
    new_height = max(factor, round(height / factor) * factor)
    new_width = max(factor, round(width / factor) * factor)
    if new_height * new_width > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        new_height = max(factor, math.floor(height / shrink / factor) * factor)
        new_width = max(factor, math.floor(width / shrink / factor) * factor)
    elif new_height * new_width < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        new_height = math.ceil(height * grow / factor) * factor
        new_width = math.ceil(width * grow / factor) * factor
    return new_height, new_width


def tokens_per_frame(height: int, width: int, geometry: ModelGeometry) -> int:
    """Visual tokens of one temporal patch: ``(height / factor) * (width / factor)``.

    Raises:
        ValueError: A side is not a positive multiple of the geometry's factor.
    """
    factor = geometry.factor
    for name, value in (("height", height), ("width", width)):
        if value < factor or value % factor:
            raise ValueError(
                f"{name} {value} is not a positive multiple of {factor} "
                f"(patch {geometry.patch_size} x merge {geometry.spatial_merge_size}); resize with smart_resize first"
            )
    return (height // factor) * (width // factor)


def image_tokens(height: int, width: int, geometry: ModelGeometry) -> int:
    """Visual tokens of an image that is already resized. Errors as ``tokens_per_frame``."""
    return tokens_per_frame(height, width, geometry)


def video_tokens(num_frames: int, height: int, width: int, geometry: ModelGeometry) -> int:
    """Visual tokens of a clip that is already resized; an incomplete temporal patch counts as a whole one.

    Raises:
        ValueError: No frames, or a side that is not a positive multiple of the geometry's factor.
    """
    return temporal_patches(num_frames, geometry) * tokens_per_frame(height, width, geometry)


def temporal_patches(num_frames: int, geometry: ModelGeometry) -> int:
    """Temporal patches of ``num_frames`` frames, the last one filled up with its last frame."""
    if num_frames < 1:
        raise ValueError(f"num_frames {num_frames} must be at least 1")
    return -(-num_frames // geometry.temporal_patch_size)


def pixels_for_tokens(tokens: int, geometry: ModelGeometry) -> int:
    """Pixels of all frames together that a budget of visual tokens pays for.

    ``tokens * factor² * temporal_patch_size``: both the spatial and the temporal compression count.
    """
    return tokens * geometry.factor**2 * geometry.temporal_patch_size
