"""Decode, sample, resize and cache video frames exactly as Qwen-VL models see them.

Names are loaded when first used: importing the package alone brings neither torch nor a decoder.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evr_video._entry import EntryError
    from evr_video.cache import CacheEntry, FrameCache
    from evr_video.clip import PROCESSOR_KWARGS, ImageClip, VideoClip
    from evr_video.errors import ContractError, DecodeError, MediaFailure, PreprocessError
    from evr_video.handle import MediaHandle
    from evr_video.load import load_image, load_video, probe

_HOMES = {
    "CacheEntry": "cache",
    "ContractError": "errors",
    "DecodeError": "errors",
    "EntryError": "_entry",
    "FrameCache": "cache",
    "ImageClip": "clip",
    "MediaFailure": "errors",
    "MediaHandle": "handle",
    "PROCESSOR_KWARGS": "clip",
    "PreprocessError": "errors",
    "VideoClip": "clip",
    "load_image": "load",
    "load_video": "load",
    "probe": "load",
}

__all__ = [
    "PROCESSOR_KWARGS",
    "CacheEntry",
    "ContractError",
    "DecodeError",
    "EntryError",
    "FrameCache",
    "ImageClip",
    "MediaFailure",
    "MediaHandle",
    "PreprocessError",
    "VideoClip",
    "load_image",
    "load_video",
    "probe",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
