"""Asking decoder processes for frames, and resizing what they send.

Legend: T frames, H and W as displayed, h and w after resizing.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from evr_core import ImagePlan, VideoInfo, VideoPlan
from evr_video._pool import DecoderProcess, WorkerDied, decoder_process
from evr_video._readers import AUTO_ORDER, READERS
from evr_video.errors import DecodeError

log = logging.getLogger(__name__)

TIMEOUT_S = 300.0
_CHUNK_BYTES = 32 << 20  # source frames that are resized together


@dataclass(frozen=True)
class DecodedVideo:
    """Resized frames uint8 [T, 3, h, w], their times in seconds [T], and the reader that gave them."""

    frames: Tensor
    timestamps_s: Tensor
    backend: str


def check_backend(backend: str) -> None:
    """Refuse a name that is no reader's."""
    if backend != "auto" and backend not in READERS:
        raise ValueError(f"backend={backend!r}: must be 'auto' or one of {', '.join(READERS)}")


def probe_video(path: Path, timeout_s: float) -> VideoInfo:
    """Read what the container says; see ``evr_video.probe``."""
    with _asking(path, "pyav", {"op": "probe"}, timeout_s) as (_, reply):
        del reply["ok"]
        return VideoInfo(**reply)


def probe_image(path: Path, timeout_s: float) -> tuple[int, int]:
    """Height and width of a picture, as stored."""
    with _asking(path, "pillow", {"op": "image_size"}, timeout_s) as (_, reply):
        return int(reply["height"]), int(reply["width"])


def decode_image(path: Path, plan: ImagePlan, timeout_s: float) -> Tensor:
    """Pixels uint8 [3, h, w] of a picture."""
    request = {"op": "image", "height": plan.height, "width": plan.width}
    pixels = np.empty((plan.height, plan.width, 3), np.uint8)
    with _asking(path, "pillow", request, timeout_s) as (worker, _):
        _read_frame(worker, path, "pillow", pixels)
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def decode_video(path: Path, plan: VideoPlan, backend: str, timeout_s: float, threads: int) -> DecodedVideo:
    """Decode and resize the planned frames with the named reader, or with the first of ``AUTO_ORDER`` that works."""
    if backend != "auto":
        return _decode_with(path, plan, backend, timeout_s, threads)
    refused: list[DecodeError] = []
    for name in AUTO_ORDER:
        try:
            return _decode_with(path, plan, name, timeout_s, threads)
        except DecodeError as error:
            if isinstance(error.__cause__, WorkerDied):  # a file that hangs or kills one reader is not tried on another
                raise
            log.warning("%s", error)
            refused.append(error)
    raise DecodeError(path, "auto", "; ".join(f"{error.backend}: {error.reason}" for error in refused))


def _decode_with(path: Path, plan: VideoPlan, backend: str, timeout_s: float, threads: int) -> DecodedVideo:
    indices = sorted(set(plan.frame_indices))
    slot = {index: i for i, index in enumerate(indices)}
    request = {"op": "video", "backend": backend, "indices": indices, "threads": threads}
    with _asking(path, backend, request, timeout_s) as (worker, reply):
        frames = torch.empty((len(indices), 3, plan.height, plan.width), dtype=torch.uint8)
        start = 0
        for rgb in _chunks(worker, path, backend, (len(indices), reply["height"], reply["width"], 3)):
            frames[start : start + len(rgb)] = resize(rgb.permute(0, 3, 1, 2).contiguous(), plan.height, plan.width)
            start += len(rgb)
        times = reply["timestamps_s"]
    rows = [slot[index] for index in plan.frame_indices]
    if len(rows) != len(indices):
        frames = frames[rows]
    return DecodedVideo(frames, torch.tensor([times[row] for row in rows], dtype=torch.float64), backend)


def _chunks(worker: DecoderProcess, path: Path, backend: str, shape: tuple[int, int, int, int]) -> Iterator[Tensor]:
    """Yield source frames [t, H, W, 3] chunk by chunk; the next chunk is read while the caller works on this one."""
    count, *frame_shape = shape
    size = max(1, min(count, _CHUNK_BYTES // math.prod(frame_shape)))
    buffers = [np.empty((size, *frame_shape), np.uint8) for _ in range(2 if size < count else 1)]

    def fill(number: int) -> np.ndarray[Any, Any]:
        chunk = buffers[number % len(buffers)][: count - number * size]
        for frame in chunk:
            _read_frame(worker, path, backend, frame)
        return chunk

    if size == count:
        yield torch.from_numpy(fill(0))
        return
    with ThreadPoolExecutor(1) as reader:
        pending = reader.submit(fill, 0)
        for number in range(1, math.ceil(count / size) + 1):
            chunk = pending.result()
            if number * size < count:
                pending = reader.submit(fill, number)
            yield torch.from_numpy(chunk)


def resize(frames: Tensor, height: int, width: int) -> Tensor:
    """Resize uint8 [T, 3, H, W] to [T, 3, height, width]: bicubic with antialias.

    The arithmetic is float32, clamped to 0..255 and rounded half to even once, which is what torchvision's
    ``transforms.functional.resize`` and therefore qwen-vl-utils does with uint8 frames.
    """
    if frames.shape[-2:] == (height, width):
        return frames
    resized = functional.interpolate(
        frames.float(), size=(height, width), mode="bicubic", align_corners=False, antialias=True
    )
    return resized.clamp_(0, 255).round_().to(torch.uint8)


def check_file(path: Path) -> None:
    """Refuse what cannot be a media file before a decoder sees it."""
    if not path.exists():
        raise DecodeError(path, "file", "no such file")
    if not path.is_file():
        raise DecodeError(path, "file", "not a regular file")
    if path.stat().st_size == 0:
        raise DecodeError(path, "file", "the file is empty")
    if not os.access(path, os.R_OK):
        raise DecodeError(path, "file", "no permission to read it")


@contextmanager
def _asking(
    path: Path, backend: str, request: dict[str, Any], timeout_s: float
) -> Iterator[tuple[DecoderProcess, dict[str, Any]]]:
    """Send a request; every way in which it can fail ends as DecodeError."""
    check_file(path)
    request = {**request, "path": str(path.absolute())}
    try:
        with decoder_process() as worker:
            try:
                reply = worker.ask(request, timeout_s)
            except WorkerDied as died:
                if not died.retry:
                    raise
                reply = None
            if reply is not None and reply["ok"]:
                yield worker, reply
                return
        if reply is None:
            with _asking(path, backend, request, timeout_s) as answer:
                yield answer
            return
    except WorkerDied as died:
        raise DecodeError(path, backend, str(died)) from died
    raise DecodeError(path, backend, reply["reason"])


def _read_frame(worker: DecoderProcess, path: Path, backend: str, target: np.ndarray[Any, Any]) -> None:
    mark = bytearray(1)
    worker.read_into(memoryview(mark))
    if mark == b"F":
        worker.read_into(target.reshape(-1).data)
        return
    raise DecodeError(path, backend, worker.read_line()["reason"])
