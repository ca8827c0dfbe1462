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
# Containers whose time stamps are guessed from the order of the packets: their frames are counted by decoding them.
_UNTIMED = frozenset({"avi", "h264", "hevc", "m4v", "mpegvideo"})
_ATTACHED_PICTURE = 0x400
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
    size = streams[0].codec_context
    if size.width * size.height > MAX_FRAME_PIXELS:
        container.close()
        raise ReadError(f"frames of {size.width}x{size.height} pixels; at most {MAX_FRAME_PIXELS} are read")
    return container, streams[0]


@dataclass(frozen=True)
class _Packet:
    pts: int
    dts: int | None
    is_key: bool
    duration: int


def scan_video(path: str) -> Scan:
    """Read all packets of the video stream and decode the first frame."""
    height, width, quarter_turns = _first_frame(path)
    container, stream = open_video(path)
    with container:
        packets = _packets(container, stream)
        if not packets:
            raise ReadError("no frames in the video stream")
        timed = not _UNTIMED & set(container.format.name.split(",")) and len({p.pts for p in packets}) == len(packets)
        header_rate = Fraction(stream.average_rate or 0) or Fraction(stream.guessed_rate or 0)
        time_base = Fraction(stream.time_base)
    if timed:
        shown = sorted(packets, key=lambda packet: packet.pts)
        length = _length(shown) * time_base
        fps = _rate(header_rate, len(shown), length)
        keys = [(i, p.dts) for i, p in enumerate(shown) if p.is_key and p.dts is not None]
        pts = tuple(packet.pts for packet in shown)
        key_frames, key_dts = tuple(i for i, _ in keys), tuple(dts for _, dts in keys)
        size = (height, width)
        return Scan(len(pts), fps, *size, float(length), time_base, pts, key_frames, key_dts, quarter_turns)
    count = _count_frames(path)
    fps = _rate(header_rate, count, Fraction(0))
    return Scan(count, fps, height, width, count / fps, time_base, None, (), (), quarter_turns)


def _packets(container: Any, stream: Any) -> list[_Packet]:
    """Every packet that shows, from the first key frame on: nothing before it can be decoded."""
    packets: list[_Packet] = []
    try:
        for packet in container.demux(stream):
            if packet.size == 0 or packet.is_discard or not (packets or packet.is_keyframe):
                continue
            if packet.is_corrupt:
                raise ReadError(f"truncated or damaged after {len(packets)} frames")
            pts = packet.pts if packet.pts is not None else -1  # a missing time is like a double one: not trusted
            packets.append(_Packet(pts, packet.dts, packet.is_keyframe, packet.duration or 0))
    except av.error.FFmpegError as error:
        raise ReadError(f"truncated or damaged after {len(packets)} frames: {_words(error)}") from error
    return packets


def _length(shown: list[_Packet]) -> Fraction:
    """From the first frame's start to the last one's end, in units of the time base."""
    span = Fraction(shown[-1].pts - shown[0].pts)
    return span + (shown[-1].duration or span / max(len(shown) - 1, 1))


def _rate(header_rate: Fraction, count: int, length: Fraction) -> float:
    """The header's frame rate, unless the time stamps say otherwise, as with variable rates."""
    rate = header_rate
    if length > 0 and abs(rate * length - count) > Fraction(1, 2):
        rate = count / length
    if rate <= 0:
        raise ReadError("the container gives no frame rate")
    return float(rate)


def _count_frames(path: str) -> int:
    container, stream = open_video(path)
    try:
        with container:
            return sum(1 for _ in container.decode(stream))
    except av.error.FFmpegError as error:
        raise ReadError(f"decoding failed: {_words(error)}") from error


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
    turns = round(frame.rotation / 90) % 4
    return (frame.width, frame.height, turns) if turns % 2 else (frame.height, frame.width, turns)


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
