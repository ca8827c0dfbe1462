"""Reading pictures, in the decoder process."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from evr_video._readers import ReadError, Rgb

_BROKEN = (UnidentifiedImageError, Image.DecompressionBombError, Image.DecompressionBombWarning, OSError, SyntaxError)


def open_image(path: str) -> Any:
    """Open a picture's header; its pixels are read later."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return Image.open(path)
    except _BROKEN as error:
        raise ReadError(f"not a readable image: {error}") from error


def read_rgb(image: Any, height: int, width: int) -> Rgb:
    """Pixels [height, width, 3] as qwen-vl-utils makes them.

    Transparent pictures are laid on white where their mode is RGBA; the resize is Pillow's default for the mode
    (bicubic, 8-bit arithmetic), and the orientation tag of cameras is not applied, since qwen-vl-utils does neither.
    """
    try:
        image.load()
        if image.mode == "RGBA":
            rgb = Image.new("RGB", image.size, (255, 255, 255))
            rgb.paste(image, mask=image.split()[3])
        else:
            rgb = image.convert("RGB")
    except (*_BROKEN, ValueError) as error:
        raise ReadError(f"damaged image: {error}") from error
    return np.asarray(rgb.resize((width, height)), dtype=np.uint8)
