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
    from evr_video.contract import MediaContract
    from evr_video.errors import ContractError, DecodeError, MediaFailure, PreprocessError
    from evr_video.handle import MediaHandle
    from evr_video.inputs import visual_inputs
    from evr_video.load import load_image, load_video, probe
    from evr_video.preprocess import PreprocessResult, preprocess_samples
    from evr_video.prompt import EncodedPrompt, VisualTokenIds, encode_prompt, media_positions, token_types

_HOMES = {
    "CacheEntry": "cache",
    "ContractError": "errors",
    "DecodeError": "errors",
    "EncodedPrompt": "prompt",
    "EntryError": "_entry",
    "FrameCache": "cache",
    "ImageClip": "clip",
    "MediaContract": "contract",
    "MediaFailure": "errors",
    "MediaHandle": "handle",
    "PROCESSOR_KWARGS": "clip",
    "PreprocessError": "errors",
    "PreprocessResult": "preprocess",
    "VideoClip": "clip",
    "VisualTokenIds": "prompt",
    "encode_prompt": "prompt",
    "load_image": "load",
    "load_video": "load",
    "media_positions": "prompt",
    "preprocess_samples": "preprocess",
    "probe": "load",
    "token_types": "prompt",
    "visual_inputs": "inputs",
}

__all__ = [
    "PROCESSOR_KWARGS",
    "CacheEntry",
    "ContractError",
    "DecodeError",
    "EncodedPrompt",
    "EntryError",
    "FrameCache",
    "ImageClip",
    "MediaContract",
    "MediaFailure",
    "MediaHandle",
    "PreprocessError",
    "PreprocessResult",
    "VideoClip",
    "VisualTokenIds",
    "encode_prompt",
    "load_image",
    "load_video",
    "media_positions",
    "preprocess_samples",
    "probe",
    "token_types",
    "visual_inputs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
