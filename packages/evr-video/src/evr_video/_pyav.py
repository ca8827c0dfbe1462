"""The PyAV reader: exact frames by presentation time, with a seek where that skips work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import av
import av.error
import numpy as np
from av.video.reformatter import VideoReformatter

from evr_video._readers import ReadError, Rgb
from evr_video._scan import Scan, open_video

_SEEK_WHEN_SKIPPING = 16  # frames; a seek costs about as much as decoding these


def read_pyav(path: str, scan: Scan, indices: Sequence[int], threads: int) -> Iterator[Rgb]:
    """Yield one upright RGB frame [H, W, 3] per index; ``indices`` ascend strictly."""
    container, stream = open_video(path)
    with container:
        stream.thread_type = "AUTO" if threads > 1 else "NONE"
        stream.codec_context.thread_count = threads
        try:
            yield from _read(container, stream, scan, indices)
        except av.error.FFmpegError as error:
            raise ReadError(f"decoding failed: {error.strerror}") from error


def _read(container: Any, stream: Any, scan: Scan, indices: Sequence[int]) -> Iterator[Rgb]:
    to_rgb = _Converter(scan)
    if scan.pts is None:
        yield from _counted(container, stream, indices, to_rgb)
        return
    for group in _groups(scan, indices):
        key = scan.key_before(group[0]) if scan.key_frames else 0
        if key > 0:
            container.seek(scan.key_dts[key], stream=stream, backward=True)
        yield from _timed(container, stream, scan, group, to_rgb)


def _groups(scan: Scan, indices: Sequence[int]) -> Iterator[list[int]]:
    """Cut the indices where seeking to the next key frame skips enough frames to pay."""
    group: list[int] = []
    for index in indices:
        key = scan.key_frames[scan.key_before(index)] if scan.key_frames else 0
        if group and key - group[-1] > _SEEK_WHEN_SKIPPING:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def _timed(container: Any, stream: Any, scan: Scan, group: list[int], to_rgb: _Converter) -> Iterator[Rgb]:
    """Decode on until every frame of the group has come by; start over once if the seek landed too late."""
    assert scan.pts is not None
    times = [scan.pts[index] for index in group]
    position, rewound = 0, False
    while position < len(times):
        for frame in container.decode(stream):
            if frame.pts is None or frame.pts < times[position]:
                continue
            if frame.pts > times[position]:
                break
            yield to_rgb(frame)
            position += 1
            if position == len(times):
                return
        if rewound:
            raise ReadError(f"frame {group[position]} at {scan.time_of(group[position]):.3f} s cannot be decoded")
        container.seek(0, backward=True)
        rewound = True


def _counted(container: Any, stream: Any, indices: Sequence[int], to_rgb: _Converter) -> Iterator[Rgb]:
    wanted = iter(indices)
    target = next(wanted, None)
    for position, frame in enumerate(container.decode(stream)):
        if target is None:
            return
        if position == target:
            yield to_rgb(frame)
            target = next(wanted, None)
    if target is not None:
        raise ReadError(f"frame {target} cannot be decoded")


class _Converter:
    """Turns decoded frames into upright RGB of one size."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._reformatter = VideoReformatter()
        turned = scan.quarter_turns % 2 == 1
        self._width, self._height = (scan.height, scan.width) if turned else (scan.width, scan.height)

    def __call__(self, frame: Any) -> Rgb:
        rgb = self._reformatter.reformat(frame, width=self._width, height=self._height, format="rgb24")
        return self._scan.turn(np.asarray(rgb.to_ndarray(), dtype=np.uint8))
