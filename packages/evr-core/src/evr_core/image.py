"""What is taken from an image: its size after resizing and the tokens it costs."""

from __future__ import annotations

from dataclasses import dataclass

from evr_core.geometry import ModelGeometry
from evr_core.tokens import image_tokens, smart_resize

_MIN_TOKENS = 4
_MAX_TOKENS = 16_384


@dataclass(frozen=True)
class ImagePlan:
    """The one decision about resizing an image; every stage obeys it.

    Attributes:
        height: Height after resizing, a multiple of the geometry's factor.
        width: Width after resizing, a multiple of the geometry's factor.
        grid_thw: Patches along time (always 1), height and width.
        visual_tokens: Placeholder tokens that the image takes in the prompt.
    """

    height: int
    width: int
    grid_thw: tuple[int, int, int]
    visual_tokens: int


def plan_image(
    height: int,
    width: int,
    geometry: ModelGeometry,
    *,
    min_pixels: int | None = None,
    max_pixels: int | None = None,
) -> ImagePlan:
    """Decide how an image is resized.

    Args:
        height: Pixels of the source, as displayed.
        width: Pixels of the source, as displayed.
        geometry: Patch sizes of the model.
        min_pixels: Least pixels after resizing; 4 tokens' worth when left out, as in qwen-vl-utils.
        max_pixels: Most pixels after resizing; 16,384 tokens' worth when left out.

    Raises:
        ValueError: As ``smart_resize``.
    """
    area = geometry.factor**2
    new_height, new_width = smart_resize(
        height,
        width,
        factor=geometry.factor,
        min_pixels=_MIN_TOKENS * area if min_pixels is None else min_pixels,
        max_pixels=_MAX_TOKENS * area if max_pixels is None else max_pixels,
    )
    grid = (1, new_height // geometry.patch_size, new_width // geometry.patch_size)
    return ImagePlan(new_height, new_width, grid, image_tokens(new_height, new_width, geometry))
