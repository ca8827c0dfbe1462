"""One pass over a video's packets: which frames there are, when they show, and where decoding can start."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import av.error
import numpy as np
import numpy.typing as npt

from evr_video._readers import ReadError

MAX_FRAME_PIXELS = 1 << 26  # 8192 x 8192: more is a damaged or hostile header

# Containers that hold video. Playlists and scripts, which could name other files or hosts, are not among them.
_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,live_flv,asf,ogg,gif,h264,hevc,m4v,ivf,nut,mxf,"
    "rm,wtv,dv,y4m,yuv4mpegpipe,av1,obu"
)
_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": _FORMATS}


@dataclass(frozen=True)
class Scan:
    """What the packets say.

    Attributes:
        pts: Presentation time stamps in displayed order, in units of ``time_base``; None when the container has none
            that can be trusted, and frames must be counted. [N]
        key_frames: Positions in displayed order of the frames where decoding can start, ascending.
        key_dts: Decoding time stamps of those frames.
        quarter_turns: Counter-clockwise quarter turns that bring a stored frame upright.
    """

    num_frames: int
    fps: float
    height: int
    width: int
    duration_s: float
    time_base: Fraction
    pts: tuple[int, ...] | None
    key_frames: tuple[int, ...]
    key_dts: tuple[int, ...]
    quarter_turns: int

    def key_before(self, index: int) -> int:
        """Position in ``key_frames`` of the last one at or before ``index``."""
        return max(bisect_right(self.key_frames, index) - 1, 0)

    def time_of(self, index: int) -> float:
        """Seconds from the first frame's showing to that of frame ``index``."""
        if self.pts is None:
            return index / self.fps
        return float((self.pts[index] - self.pts[0]) * self.time_base)

    def expect_time(self, index: int, seconds: float) -> None:
        """Refuse a frame that another reader delivered for ``index`` when it shows at another time."""
        if abs(seconds - self.time_of(index)) > 0.5 / self.fps:
            raise ReadError(
                f"frame {index} shows at {self.time_of(index):.4f} s, the reader gave one of {seconds:.4f} s"
            )

    def turn(self, rgb: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Bring a stored frame [h, w, 3] upright [H, W, 3]."""
        return np.rot90(rgb, self.quarter_turns) if self.quarter_turns else rgb


def open_video(path: str) -> tuple[Any, Any]:
    """Open a local file: (container, first video stream that is not a cover picture)."""
    try:
        container = av.open(f"file:{path}", options=_OPTIONS, metadata_errors="ignore")
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise ReadError(f"not a readable video: {_words(error)}") from error
    streams = [s for s in container.streams.video if not int(s.disposition) & _ATTACHED_PICTURE]
    if not streams:
        container.close()
        raise ReadError("no video stream")
    return container, streams[0]


_ATTACHED_PICTURE = 0x400


def scan_video(path: str) -> Scan:
    """Read all packets of the video stream and decode the first frame."""
    container, stream = open_video(path)
    with container:
        packets = _packets(container, stream)
        if not packets:
            raise ReadError("no frames in the video stream")
        return _summary(stream, packets, *_first_frame(path))


def _packets(container: Any, stream: Any) -> list[tuple[int | None, int | None, bool, int]]:
    """(pts, dts, is key, duration) of every packet that shows."""
    packets: list[tuple[int | None, int | None, bool, int]] = []
    try:
        for packet in container.demux(stream):
            if packet.size == 0 or packet.is_discard:
                continue
            if packet.is_corrupt:
                raise ReadError(f"truncated or damaged after {len(packets)} frames")
            packets.append((packet.pts, packet.dts, packet.is_keyframe, packet.duration or 0))
    except av.error.FFmpegError as error:
        raise ReadError(f"truncated or damaged after {len(packets)} frames: {_words(error)}") from error
    return packets


def _first_frame(path: str) -> tuple[int, int, int]:
    """(height, width, quarter turns) as displayed, from the first frame that decodes."""
    container, stream = open_video(path)  # anew, since not every container can go back to its start
    try:
        with container:
            frame = next(container.decode(stream), None)
    except av.error.FFmpegError as error:
        raise ReadError(f"the first frame cannot be decoded: {_words(error)}") from error
    if frame is None:
        raise ReadError("no frame can be decoded")
    if frame.width * frame.height > MAX_FRAME_PIXELS:
        raise ReadError(f"frames of {frame.width}x{frame.height} pixels; at most {MAX_FRAME_PIXELS} are read")
    turns = round(frame.rotation / 90) % 4
    return (frame.width, frame.height, turns) if turns % 2 else (frame.height, frame.width, turns)


def _summary(stream: Any, packets: list[Any], height: int, width: int, quarter_turns: int) -> Scan:
    count = len(packets)
    time_base = Fraction(stream.time_base)
    shown = sorted(packets, key=lambda p: p[0]) if all(p[0] is not None for p in packets) else []
    trusted = bool(shown) and len({p[0] for p in shown}) == count
    length = Fraction(shown[-1][0] - shown[0][0] + shown[-1][3]) * time_base if trusted else Fraction(0)
    rate = Fraction(stream.average_rate or 0) or Fraction(stream.guessed_rate or 0)
    if length and abs(rate * length - count) > Fraction(1, 2):
        rate = count / length  # variable frame rate: the header's rate does not go with the time stamps
    if rate <= 0:
        raise ReadError("the container gives no frame rate")
    keys = [(i, p[1]) for i, p in enumerate(shown) if p[2] and p[1] is not None] if trusted else []
    return Scan(
        num_frames=count,
        fps=float(rate),
        height=height,
        width=width,
        duration_s=float(length or count / rate),
        time_base=time_base,
        pts=tuple(p[0] for p in shown) if trusted else None,
        key_frames=tuple(k[0] for k in keys),
        key_dts=tuple(k[1] for k in keys),
        quarter_turns=quarter_turns,
    )


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
