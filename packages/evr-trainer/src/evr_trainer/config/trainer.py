"""The ``trainer`` section: length of the run, workers, validation, checkpoints, logging."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from ._base import Count, CountOrOff, Device, LocalPath, Loggers, PositiveFloat, Section


class TrainerConfig(Section):
    """The run as a whole."""

    total_epochs: Count = 15
    """Passes over the training records; ignored when max_steps is given."""
    max_steps: Count | None = None
    """Training steps; null means total_epochs decides."""
    project_name: str = "evr"
    """Name of the project for loggers and folders."""
    experiment_name: str = "demo"
    """Name of the run for loggers and folders."""
    logger: Loggers = ("console", "wandb")
    """Where metrics go."""
    nnodes: Count = 1
    """Machines."""
    n_gpus_per_node: Count = 8
    """Worker processes per machine: one per device on CUDA."""
    device: Device = "auto"
    """Device of the workers; auto takes CUDA when there is one."""
    seed: int = 1
    """Deprecated and without effect: data.seed and worker.rollout.seed decide, and nothing else is random."""
    ray_address: str | None = None
    """Address of a running Ray cluster; null starts one on this machine, guarded by Ray's token."""
    collective_timeout_s: PositiveFloat = 600.0
    """Seconds after which a collective operation that some worker does not join fails."""
    max_try_make_batch: CountOrOff = 20
    """Most rollouts to fill a batch when groups are filtered; -1 means no limit."""
    critic_warmup: Annotated[int, Field(ge=0)] = 0
    """Steps in which only the critic is trained."""
    val_freq: CountOrOff = -1
    """Validate every so many steps; -1 means never during training."""
    val_before_train: bool = True
    """Validate before the first step, when there are validation records."""
    val_only: bool = False
    """Validate and stop."""
    val_generations_to_log: Annotated[int, Field(ge=0)] = 0
    """Validation responses that are logged as text."""
    save_freq: CountOrOff = -1
    """Save a checkpoint every so many steps; -1 means only at the end."""
    save_limit: CountOrOff = -1
    """Checkpoints kept: the newest ones and the best; -1 means all."""
    save_model_only: bool = False
    """Save weights without optimizer state; such a checkpoint cannot be resumed from exactly."""
    save_checkpoint_path: LocalPath | None = None
    """Folder of the checkpoints; null means checkpoints/{project_name}/{experiment_name}."""
    load_checkpoint_path: LocalPath | None = None
    """Checkpoint folder (global_step_N) to start from."""
    find_last_checkpoint: bool = True
    """Continue from the newest complete checkpoint in save_checkpoint_path when load_checkpoint_path is null."""
    report_dir: LocalPath | None = None
    """Folder of metrics, TensorBoard files and logged responses; null means the folder of the checkpoints."""
    ray_timeline: LocalPath | None = None
    """File that Ray's timeline is written to at the end."""

    @property
    def n_workers(self) -> int:
        """Worker actors over all machines: nnodes x n_gpus_per_node."""
        return self.nnodes * self.n_gpus_per_node

    @property
    def checkpoint_dir(self) -> Path:
        """Folder of the checkpoints."""
        return self.save_checkpoint_path or Path("checkpoints") / self.project_name / self.experiment_name

    @property
    def log_dir(self) -> Path:
        """Folder of metrics and logged responses."""
        return self.report_dir or self.checkpoint_dir
