"""Are the pixel bounds of images and videos in order, with inheritance resolved?"""

from __future__ import annotations

from collections.abc import Iterator

from .data import DataConfig
from .errors import Problem


def pixel_problems(data: DataConfig) -> Iterator[Problem]:
    """Least pixels above most pixels, or above what all frames together may have."""
    train, val = data.video_budget(), data.val_video_budget()
    bounds = (("image", *data.image_pixels), ("video", train.min_pixels, train.max_pixels))
    for kind, least, most in (*bounds, ("val_video", val.min_pixels, val.max_pixels)):
        if kind == "val_video" and (least, most) == (train.min_pixels, train.max_pixels):
            continue
        if least > most:
            reason = (
                f"the least pixels of {_WORDS[kind]}, {least}, are more than the most, {most} ({_origin(data, kind)}); "
                f"lower the one or raise the other"
            )
            yield Problem(f"data.{_giver(data, kind, 'min')}", reason, least)
    total = data.video_total_pixels
    if total is not None and total < train.min_pixels:
        reason = f"all frames together may have {total} pixels, but one has at least {train.min_pixels}; raise it"
        yield Problem("data.video_total_pixels", reason, total)


_WORDS = {"image": "an image", "video": "a video frame", "val_video": "a video frame in validation"}
_PARENTS = {"image": "", "video": "", "val_video": "video"}


def _giver(data: DataConfig, kind: str, side: str) -> str:
    """The key that ``kind`` takes its bound from: its own, or the nearest one it inherits."""
    key = f"{kind}_{side}_pixels" if kind else f"{side}_pixels"
    return key if not kind or getattr(data, key) is not None else _giver(data, _PARENTS[kind], side)


def _origin(data: DataConfig, kind: str) -> str:
    return f"data.{_giver(data, kind, 'min')} and data.{_giver(data, kind, 'max')}"
