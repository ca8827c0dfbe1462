"""What an evaluation is asked to do."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evr_core import VideoBudget
from evr_eval.benchmark import Benchmark, benchmark_from_records, load_benchmark
from evr_eval.engine import SamplingSettings

_VIDEO = VideoBudget()


class EvalConfig(BaseModel):
    """One model on one benchmark.

    Give ``records`` (a record file of your own, with ``media_dir``) or ``benchmark`` (a built-in name or a YAML file,
    with ``data_dir``, the folder that holds its record file and media). Unknown keys are refused.

    Attributes:
        model_path: Local Hugging Face folder.
        output_dir: Receives ``results.jsonl`` and ``summary.json``; an earlier run here is continued.
        cache_dir: Frame cache, shared with training; default ``output_dir/frame_cache``.
        skip_bad_records: List malformed records in the summary instead of refusing the file. They stay in the
            denominator.
        max_samples: Take only the first so many samples; the denominator shrinks with them and the summary says so.
        format_prompt: A Jinja template that takes the place of the standard prompt.
        retry_errors: Run rows again that ended in media_error, engine_error or judge_error.
        fps, min_frames, max_frames, num_frames, min_pixels, max_pixels, total_pixels: See ``VideoBudget``.
        image_min_pixels, image_max_pixels: Bounds of an image; default as ``plan_image``.
        max_tokens: Most tokens of a response.
        temperature: 0 is greedy.
        top_p: Nucleus; 1 keeps everything.
        top_k: Most likely tokens kept; -1 keeps all.
        seed: Of sampling and of the intervals' bootstrap.
        engine: "transformers" (one request per forward pass) or "vllm" (continuous batches).
        max_model_len, max_num_seqs, gpu_memory_utilization: See ``VllmEngine``; no other engine reads them.
        device: "auto" takes CUDA where there is one.
        dtype: "auto" is bfloat16 on CUDA and float32 on CPU.
        load_workers: Threads that decode.
        score_workers: Threads that score.
        queue_size: Most samples waiting between two stages.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model_path: Path
    output_dir: Path
    records: Path | None = None
    media_dir: Path | None = None
    benchmark: str | None = None
    data_dir: Path | None = None
    cache_dir: Path | None = None
    skip_bad_records: bool = False
    max_samples: int | None = Field(default=None, ge=1)
    format_prompt: Path | None = None
    retry_errors: bool = False
    fps: float = Field(default=_VIDEO.fps, gt=0)
    min_frames: int = Field(default=_VIDEO.min_frames, ge=1)
    max_frames: int = Field(default=_VIDEO.max_frames, ge=1)
    num_frames: int | None = Field(default=None, ge=1)
    min_pixels: int = Field(default=_VIDEO.min_pixels, ge=1)
    max_pixels: int = Field(default=_VIDEO.max_pixels, ge=1)
    total_pixels: int = Field(default=_VIDEO.total_pixels, ge=1)
    image_min_pixels: int | None = Field(default=None, ge=1)
    image_max_pixels: int | None = Field(default=None, ge=1)
    max_tokens: int = Field(default=1024, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=-1, ge=-1)
    seed: int = 0
    engine: Literal["transformers", "vllm"] = "transformers"
    max_model_len: int | None = Field(default=None, ge=1)
    max_num_seqs: int = Field(default=64, ge=1)
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    load_workers: int = Field(default=2, ge=1)
    score_workers: int = Field(default=2, ge=1)
    queue_size: int = Field(default=16, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, raw: Any) -> Any:
        if isinstance(raw, dict):
            for key in raw:
                if key not in cls.model_fields:
                    nearest = difflib.get_close_matches(str(key), list(cls.model_fields), n=1, cutoff=0.5)
                    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known keys: {sorted(cls.model_fields)}"
                    raise ValueError(f"unknown evaluation key {key!r}; {hint}")
        return raw

    @model_validator(mode="after")
    def _check_source(self) -> EvalConfig:
        if (self.records is None) == (self.benchmark is None):
            raise ValueError("give exactly one of records (your own file) and benchmark (a definition)")
        if self.records is not None and self.data_dir is not None:
            raise ValueError("data_dir belongs to benchmark; for records give media_dir")
        if self.benchmark is not None and self.media_dir is not None:
            raise ValueError("media_dir belongs to records; a benchmark's media lie under data_dir")
        if self.min_frames > self.max_frames:
            raise ValueError(f"min_frames {self.min_frames} exceeds max_frames {self.max_frames}")
        return self

    def load_definition(self) -> Benchmark:
        """The benchmark this run is about."""
        if self.benchmark is not None:
            return load_benchmark(self.benchmark)
        assert self.records is not None
        return benchmark_from_records(self.records, self.media_dir)

    def video_budget(self) -> VideoBudget:
        """What a prompt may spend on one video."""
        return VideoBudget(
            fps=self.fps,
            min_frames=self.min_frames,
            max_frames=self.max_frames,
            num_frames=self.num_frames,
            min_pixels=self.min_pixels,
            max_pixels=self.max_pixels,
            total_pixels=self.total_pixels,
        )

    def sampling(self) -> SamplingSettings:
        """How responses are drawn."""
        return SamplingSettings(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            seed=self.seed,
        )
