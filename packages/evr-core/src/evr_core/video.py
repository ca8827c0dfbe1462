"""Carriers that describe a video, what may be spent on it, and what is taken from it."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class VideoInfo:
    """What the container says about a video, without decoding it.

    ``num_frames`` and ``fps`` are those of the whole stream; ``height`` and ``width`` are as displayed, that is after
    the container's rotation.
    """

    num_frames: int
    fps: float
    height: int
    width: int
    duration_s: float


@dataclass(frozen=True)
class VideoBudget:
    """What a prompt may spend on one video. The defaults are those of qwen-vl-utils for Qwen3-VL.

    Attributes:
        fps: Frames sampled per second of video.
        min_frames: Least number of frames.
        max_frames: Most frames.
        num_frames: An exact number of frames; takes the place of fps, min_frames and max_frames.
        min_pixels: Least pixels of a frame.
        max_pixels: Most pixels of a frame.
        total_pixels: Most pixels of all frames together.
    """

    fps: float = 2.0
    min_frames: int = 4
    max_frames: int = 768
    num_frames: int | None = None
    min_pixels: int = 128 * 32 * 32
    max_pixels: int = 768 * 32 * 32
    total_pixels: int = 128_000 * 32 * 32 * 9 // 10

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value > 0:
                raise ValueError(f"VideoBudget.{field.name} is {value}; it must be positive")


@dataclass(frozen=True)
class VideoPlan:
    """The one decision about sampling and resizing a clip; every stage obeys it.

    Attributes:
        frame_indices: Positions of the sampled frames in the stream, ascending. [T]
        timestamps_s: ``frame_indices / source fps``: the nominal time of each sampled frame. [T]
        height: Height after resizing, a multiple of the geometry's factor.
        width: Width after resizing, a multiple of the geometry's factor.
        grid_thw: Patches along time, height and width, as the processors of transformers report them.
        visual_tokens: Placeholder tokens that the clip takes in the prompt.
        timestamp_texts: One ``<t seconds>`` text per temporal patch; empty for families without them. [T']
        sample_fps: Frames per second that the sampled frames represent.
        source_fps: Frames per second of the stream the indices refer to.
        source_num_frames: Frames of that stream.
    """

    frame_indices: tuple[int, ...]
    timestamps_s: tuple[float, ...]
    height: int
    width: int
    grid_thw: tuple[int, int, int]
    visual_tokens: int
    timestamp_texts: tuple[str, ...]
    sample_fps: float
    source_fps: float
    source_num_frames: int

    @property
    def num_frames(self) -> int:
        """Sampled frames T."""
        return len(self.frame_indices)

    @property
    def range_num_frames(self) -> int:
        """Frames of the time range that the sampled ones stand for; ``source_num_frames`` when there is no range.

        The video metadata of transformers and qwen-vl-utils calls this ``total_num_frames``.
        """
        return round(self.num_frames * self.source_fps / self.sample_fps)

    @property
    def timestamp_tokens(self) -> int:
        """Text tokens that the timestamps and the marks around each temporal patch add to the prompt.

        Counted for the tokenizers of the Qwen families, which give every digit a token: "<12.3 seconds>" is
        ``<``, ``1``, ``2``, ``.``, ``3``, `` seconds``, ``>``, and each patch has a start and an end mark.
        """
        return sum(sum(char.isdigit() for char in text) + 4 + 2 for text in self.timestamp_texts)
