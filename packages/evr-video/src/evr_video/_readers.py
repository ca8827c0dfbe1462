"""Video readers behind one protocol. Runs in the decoder process: no torch at import.

Legend: H, W height and width as displayed, that is after the container's rotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from evr_video._scan import Scan

Rgb = npt.NDArray[np.uint8]

AUTO_ORDER = ("pyav", "torchcodec", "decord")


class ReadError(Exception):
    """The reader cannot deliver; the message is the reason."""


class Reader(Protocol):
    """Gives frames by their position in the displayed order."""

    def __call__(self, path: str, scan: Scan, indices: Sequence[int], threads: int) -> Iterator[Rgb]:
        """Yield one RGB frame [H, W, 3] per index; ``indices`` ascend strictly."""
        ...


def _torchcodec() -> Reader:
    try:
        import torchcodec  # noqa: F401
    except ImportError as error:
        raise ReadError("torchcodec is not installed: pip install 'evr-video[torchcodec]'") from error
    return _read_torchcodec


def _read_torchcodec(path: str, scan: Scan, indices: Sequence[int], threads: int) -> Iterator[Rgb]:
    from torchcodec import decoders

    try:
        decoder = decoders.VideoDecoder(  # type: ignore[attr-defined]
            path, dimension_order="NHWC", num_ffmpeg_threads=threads
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise ReadError(f"torchcodec: {str(error).strip().splitlines()[0]}") from error
    first = decoder.metadata.begin_stream_seconds or 0.0
    for index in indices:
        try:
            frame = decoder.get_frame_at(index)
        except (RuntimeError, IndexError) as error:
            raise ReadError(f"frame {index}: {str(error).strip().splitlines()[0]}") from error
        scan.expect_time(index, float(frame.pts_seconds) - first)
        yield frame.data.numpy()


def _decord() -> Reader:
    try:
        import decord  # noqa: F401
    except ImportError as error:
        raise ReadError("decord is not installed: pip install 'evr-video[decord]'") from error
    return _read_decord


def _read_decord(path: str, scan: Scan, indices: Sequence[int], threads: int) -> Iterator[Rgb]:
    import decord

    try:
        reader = decord.VideoReader(path, num_threads=threads)
    except decord.DECORDError as error:
        raise ReadError(f"decord: {str(error).strip().splitlines()[-1]}") from error
    if len(reader) != scan.num_frames:
        raise ReadError(f"decord counts {len(reader)} frames, the container has {scan.num_frames}")
    first = float(reader.get_frame_timestamp(0)[0])
    for index in indices:
        try:
            frame = reader[index].asnumpy()
        except (decord.DECORDError, IndexError) as error:
            raise ReadError(f"frame {index}: {str(error).strip().splitlines()[-1]}") from error
        scan.expect_time(index, float(reader.get_frame_timestamp(index)[0]) - first)
        yield frame  # decord turns them upright itself


def _pyav() -> Reader:
    from evr_video._pyav import read_pyav

    return read_pyav


READERS: dict[str, Callable[[], Reader]] = {"pyav": _pyav, "torchcodec": _torchcodec, "decord": _decord}


def reader_for(backend: str) -> Reader:
    """Return the reader of that name; raises ReadError when its library is missing."""
    return READERS[backend]()
