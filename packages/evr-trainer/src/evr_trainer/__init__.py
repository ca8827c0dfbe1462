"""Reinforcement-learning post-training of video-language models on Ray, FSDP2 and vLLM.

Names are imported when first used, so that reading a configuration does not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evr_trainer.checkpoint import Checkpoint, CheckpointError, CheckpointStore, export_hf
    from evr_trainer.cluster import WorkerError
    from evr_trainer.config import ConfigError, SftConfig, TrainConfig, check_config, load_config, load_sft_config
    from evr_trainer.sft import SftSummary, check_sft_run, train_sft
    from evr_trainer.trainer import TrainSummary, check_run, train

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "ConfigError",
    "SftConfig",
    "SftSummary",
    "TrainConfig",
    "TrainSummary",
    "WorkerError",
    "check_config",
    "check_run",
    "check_sft_run",
    "export_hf",
    "load_config",
    "load_sft_config",
    "train",
    "train_sft",
]

_HOME = {
    "Checkpoint": "checkpoint",
    "CheckpointError": "checkpoint",
    "CheckpointStore": "checkpoint",
    "export_hf": "checkpoint",
    "WorkerError": "cluster",
    "ConfigError": "config",
    "SftConfig": "config",
    "TrainConfig": "config",
    "check_config": "config",
    "load_config": "config",
    "load_sft_config": "config",
    "SftSummary": "sft",
    "check_sft_run": "sft",
    "train_sft": "sft",
    "TrainSummary": "trainer",
    "check_run": "trainer",
    "train": "trainer",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"evr_trainer.{_HOME[name]}"), name)
    raise AttributeError(f"module 'evr_trainer' has no attribute {name!r}")
