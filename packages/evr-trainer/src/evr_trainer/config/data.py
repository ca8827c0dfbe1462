"""The ``data`` section: records, prompts, and what a prompt may spend on media."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from evr_core.schema import RecordFields
from evr_core.video import VideoBudget

from ._base import Count, CountOrOff, LocalPath, PositiveFloat, Section, Text

FrameCount = Annotated[int, Field(ge=1, le=65_536)]


class DataConfig(Section):
    """Records, prompts and media budgets. Pixels count one frame or one image: height x width."""

    train_files: Text = ""
    """Records to train on: a JSON, JSONL or Parquet file, a folder of them, or a hub dataset id; `path@split` selects a split."""  # noqa: E501
    val_files: Text = ""
    """Records to validate on, in the same forms; empty means no validation."""
    prompt_key: str = "prompt"
    """Record field with the question."""
    answer_key: str = "answer"
    """Record field with the ground truth."""
    image_key: str = "images"
    """Record field with the list of image paths."""
    video_key: str = "videos"
    """Record field with the list of video paths."""
    image_dir: LocalPath | None = None
    """Folder that relative media paths refer to; null means the record file's own folder."""
    skip_bad_records: bool = False
    """Count and list malformed records and unreadable media instead of stopping."""

    video_fps: PositiveFloat = 2.0
    """Frames sampled per second of video."""
    video_max_frames: FrameCount = 128
    """Most frames sampled from one video."""
    min_pixels: Count = 262_144
    """Least pixels of a frame or image after resizing, where the kind has no value of its own."""
    max_pixels: Count = 4_194_304
    """Most pixels of a frame or image after resizing, where the kind has no value of its own."""
    image_min_pixels: Count | None = None
    """Least pixels of an image; null inherits min_pixels."""
    image_max_pixels: Count | None = None
    """Most pixels of an image; null inherits max_pixels."""
    video_min_pixels: Count | None = None
    """Least pixels of a video frame; null inherits min_pixels."""
    video_max_pixels: Count | None = None
    """Most pixels of a video frame; null inherits max_pixels."""
    video_total_pixels: Count | None = None
    """Most pixels of all frames of a video together; null takes the default of the model family's processor."""
    val_video_fps: PositiveFloat | None = None
    """video_fps for validation; null inherits."""
    val_video_max_frames: FrameCount | None = None
    """video_max_frames for validation; null inherits."""
    val_video_min_pixels: Count | None = None
    """video_min_pixels for validation; null inherits."""
    val_video_max_pixels: Count | None = None
    """video_max_pixels for validation; null inherits."""
    val_video_total_pixels: Count | None = None
    """video_total_pixels for validation; null inherits."""

    max_prompt_length: Count = 512
    """Most tokens of a prompt, visual tokens included."""
    max_response_length: Count = 512
    """Most tokens of a response."""
    rollout_batch_size: Count = 512
    """Prompts per training step."""
    mini_rollout_batch_size: Count | None = None
    """Prompts generated at a time within a step; null generates the whole rollout batch at once."""
    val_batch_size: CountOrOff = -1
    """Prompts validated at a time; -1 means all."""
    format_prompt: LocalPath | None = None
    """Jinja template file of the prompt; null takes the built-in template of the record's problem type."""
    override_chat_template: LocalPath | None = None
    """Jinja file that replaces the tokenizer's chat template."""
    shuffle: bool = True
    """Shuffle the records every epoch, by the seed below."""
    seed: int = 1
    """Seed of the record order."""
    filter_overlong_prompts: bool = True
    """Leave out records whose prompt is longer than max_prompt_length; false stops the run at the first one."""
    filter_overlong_prompts_workers: Count = 16
    """Processes that measure prompt lengths."""

    cache_dir: LocalPath | None = None
    """Root of the frame cache; null means ~/.cache/evr/frames."""
    preprocess_workers: Count = 1
    """Processes that decode videos into the frame cache before training."""
    decode_timeout_s: PositiveFloat = 60.0
    """Seconds after which decoding one video is given up."""
    video_source_mode: Literal["prefer_preprocessed", "preprocessed_only", "realtime_only"] = "prefer_preprocessed"
    """Where frames come from: the cache when it has them, only the cache, or always the video file."""
    preprocessed_video_dir: LocalPath | None = None
    """Folder of preprocessed videos that records may point into."""
    val_preprocessed_video_dir: LocalPath | None = None
    """preprocessed_video_dir for validation; null inherits."""
    use_preprocessed_videos: bool | None = None
    """Deprecated and without effect: video_source_mode decides."""

    @property
    def record_fields(self) -> RecordFields:
        """Names of the record fields, as evr_core reads them."""
        return RecordFields(
            prompt=self.prompt_key, answer=self.answer_key, images=self.image_key, videos=self.video_key
        )

    @property
    def frame_cache_dir(self) -> Path:
        """Root of the frame cache."""
        return self.cache_dir or Path.home() / ".cache" / "evr" / "frames"

    @property
    def image_pixels(self) -> tuple[int, int]:
        """Least and most pixels of an image, inheritance resolved."""
        return self.image_min_pixels or self.min_pixels, self.image_max_pixels or self.max_pixels

    def video_budget(self) -> VideoBudget:
        """What a training prompt may spend on one video, inheritance resolved."""
        return _budget(
            self.video_fps,
            self.video_max_frames,
            self.video_min_pixels or self.min_pixels,
            self.video_max_pixels or self.max_pixels,
            self.video_total_pixels,
        )

    def val_video_budget(self) -> VideoBudget:
        """What a validation prompt may spend on one video; every value not given is that of training."""
        train = self.video_budget()
        return _budget(
            self.val_video_fps or train.fps,
            self.val_video_max_frames or train.max_frames,
            self.val_video_min_pixels or train.min_pixels,
            self.val_video_max_pixels or train.max_pixels,
            self.val_video_total_pixels or self.video_total_pixels,
        )


def _budget(fps: float, max_frames: int, min_pixels: int, max_pixels: int, total_pixels: int | None) -> VideoBudget:
    return VideoBudget(
        fps=fps,
        min_frames=min(VideoBudget.min_frames, max_frames),
        max_frames=max_frames,
        min_pixels=min_pixels,
        max_pixels=max_pixels,
        total_pixels=total_pixels or VideoBudget.total_pixels,
    )
