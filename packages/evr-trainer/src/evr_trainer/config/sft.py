"""Configuration of cold-start supervised fine-tuning: the sections of training that it shares, and a run of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from evr_core.geometry import ModelGeometry

from ._base import Count, CountOrOff, Device, LocalPath, Loggers, PositiveFloat, Section
from ._check_files import data_path_problems, model_problems, record_problems
from ._check_pixels import pixel_problems
from ._not_yet import NOT_YET, logger_problems, remote_code_problems, unavailable
from ._schema import value_at
from .check import budget_problems
from .data import DataConfig
from .errors import Problem
from .load import load_section
from .policy import FsdpConfig, ModelConfig, OptimConfig
from .tokens import VIDEO_ONLY, Medium


class SftOptimConfig(OptimConfig):
    """Optimizer and schedule of supervised fine-tuning."""

    lr: PositiveFloat = 1e-5
    """Highest learning rate."""


class SftTrainerConfig(Section):
    """The run as a whole."""

    output_dir: LocalPath = Path("checkpoints/evr/sft")
    """Folder of checkpoints, metrics and the finished model."""
    total_epochs: Count = 1
    """Passes over the training records; ignored when max_steps is given."""
    max_steps: Count | None = None
    """Optimizer steps; null means total_epochs decides."""
    batch_size: Count = 32
    """Records per optimizer step, over all workers."""
    max_token_len_per_gpu: Count | None = None
    """Most tokens of a micro-batch; null means four of the longest sequences."""
    max_grad_norm: PositiveFloat = 1.0
    """Gradients are scaled down to this norm."""
    n_workers: Count = 1
    """Worker processes: one per device on CUDA."""
    device: Device = "auto"
    """Device of the workers; auto takes CUDA when there is one."""
    seed: int = 1
    """Deprecated and without effect: data.seed decides, and nothing else is random."""
    logger: Loggers = ("console", "file")
    """Where metrics go."""
    log_freq: Count = 10
    """Log every so many steps."""
    save_freq: CountOrOff = -1
    """Save a checkpoint every so many steps; -1 means only at the end."""
    save_limit: CountOrOff = -1
    """Checkpoints kept; -1 means all."""
    load_checkpoint_path: LocalPath | None = None
    """Checkpoint folder (global_step_N) to start from."""
    find_last_checkpoint: bool = True
    """Continue from the newest complete checkpoint in output_dir when load_checkpoint_path is null."""
    ray_address: str | None = None
    """Address of a running Ray cluster; null starts one on this machine, guarded by Ray's token."""
    collective_timeout_s: Annotated[float, Field(gt=0.0)] = 600.0
    """Seconds after which a collective operation that some worker does not join fails."""


class SftConfig(Section):
    """Configuration of supervised fine-tuning: ``config.optim.lr``, ``config.trainer.output_dir``."""

    data: DataConfig = Field(default_factory=DataConfig)
    """Records, prompts and media; keys about rollouts have no effect."""
    model: ModelConfig = Field(default_factory=ModelConfig)
    """The model to start from."""
    optim: SftOptimConfig = Field(default_factory=SftOptimConfig)
    """Optimizer and schedule."""
    fsdp: FsdpConfig = Field(default_factory=FsdpConfig)
    """Sharding and precision."""
    trainer: SftTrainerConfig = Field(default_factory=SftTrainerConfig)
    """The run."""

    @property
    def max_sequence_length(self) -> int:
        """Most tokens of a prompt with its answer."""
        return self.data.max_prompt_length + self.data.max_response_length

    @property
    def token_budget(self) -> int:
        """Most tokens of a micro-batch."""
        return self.trainer.max_token_len_per_gpu or 4 * self.max_sequence_length


def load_sft_config(file: Path | str | None = None, overrides: Sequence[str] = ()) -> SftConfig:
    """``load_config`` for supervised fine-tuning: the same forms and the same errors."""
    return load_section(SftConfig, file, overrides)


def check_sft_config(
    config: SftConfig, *, geometry: ModelGeometry | None = None, media: Collection[Medium] = VIDEO_ONLY
) -> list[Problem]:
    """``check_config`` for supervised fine-tuning."""
    pixels = list(pixel_problems(config.data))
    problems = [
        *_not_yet(config),
        *_run(config),
        *pixels,
        *record_problems(config.data),
        *data_path_problems(config.data),
        *model_problems(config.model, "model"),
    ]
    return problems if pixels else problems + budget_problems(config.data, config.model, "model", geometry, media)


def _not_yet(config: SftConfig) -> Iterator[Problem]:
    """The lines about an actor's model, optimizer and sharding hold here too."""
    prefix = "worker.actor."
    for item in NOT_YET:
        path = item.path.removeprefix(prefix)
        if item.path.startswith(prefix) and path.split(".")[0] in ("model", "optim", "fsdp"):
            value = value_at(config, path)
            if item.refused(value):
                yield unavailable(path, value, item.available)
    yield from logger_problems(config.trainer.logger)
    yield from remote_code_problems(config.model, "model")


def _run(config: SftConfig) -> Iterator[Problem]:
    run = config.trainer
    if run.batch_size % run.n_workers:
        reason = f"{run.batch_size} records do not divide over {run.n_workers} workers; use a multiple of them"
        yield Problem("trainer.batch_size", reason, run.batch_size)
    if run.max_token_len_per_gpu is not None and run.max_token_len_per_gpu < config.max_sequence_length:
        reason = f"cannot hold one sequence; raise it to at least {config.max_sequence_length}, or set it to null"
        yield Problem("trainer.max_token_len_per_gpu", reason, run.max_token_len_per_gpu)
    steps, warmup = run.max_steps, config.optim.lr_warmup_steps
    if steps is not None and warmup is not None and warmup >= steps:
        reason = f"the warm-up would last the whole run of trainer.max_steps {steps}; use fewer steps"
        yield Problem("optim.lr_warmup_steps", reason, warmup)
    if run.load_checkpoint_path is not None and not run.load_checkpoint_path.is_dir():
        yield Problem("trainer.load_checkpoint_path", "there is no such folder", run.load_checkpoint_path)
