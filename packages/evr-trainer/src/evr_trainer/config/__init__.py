"""Configuration of training: models, loading, checks."""

from __future__ import annotations

from ._schema import SchemaRow, config_schema_rows
from .actor import ActorConfig, CriticConfig, RefConfig
from .algorithm import AlgorithmConfig
from .check import check_config, load_checked_config, require_valid
from .data import DataConfig
from .errors import ConfigError, Problem
from .load import load_config
from .policy import FsdpConfig, ModelConfig, OffloadConfig, OptimConfig
from .reward import RewardConfig
from .rollout import RolloutConfig, ValSamplingConfig
from .root import TrainConfig, WorkerConfig
from .sft import SftConfig, SftOptimConfig, SftTrainerConfig, check_sft_config, load_sft_config
from .show import Difference, diff_configs, resolved_yaml
from .tokens import check_token_budget, max_video_tokens
from .trainer import TrainerConfig

__all__ = [
    "ActorConfig",
    "AlgorithmConfig",
    "ConfigError",
    "CriticConfig",
    "DataConfig",
    "Difference",
    "FsdpConfig",
    "ModelConfig",
    "OffloadConfig",
    "OptimConfig",
    "Problem",
    "RefConfig",
    "RewardConfig",
    "RolloutConfig",
    "SchemaRow",
    "SftConfig",
    "SftOptimConfig",
    "SftTrainerConfig",
    "TrainConfig",
    "TrainerConfig",
    "ValSamplingConfig",
    "WorkerConfig",
    "check_config",
    "check_sft_config",
    "check_token_budget",
    "config_schema_rows",
    "diff_configs",
    "load_checked_config",
    "load_config",
    "load_sft_config",
    "max_video_tokens",
    "require_valid",
    "resolved_yaml",
]
