"""Configuration of training: models, loading, checks."""

from __future__ import annotations

from .actor import ActorConfig, CriticConfig, RefConfig
from .algorithm import AlgorithmConfig
from .data import DataConfig
from .errors import ConfigError, Problem
from .load import load_config
from .policy import FsdpConfig, ModelConfig, OffloadConfig, OptimConfig
from .reward import RewardConfig
from .rollout import RolloutConfig, ValSamplingConfig
from .root import TrainConfig, WorkerConfig
from .trainer import TrainerConfig

__all__ = [
    "ActorConfig",
    "AlgorithmConfig",
    "ConfigError",
    "CriticConfig",
    "DataConfig",
    "FsdpConfig",
    "ModelConfig",
    "OffloadConfig",
    "OptimConfig",
    "Problem",
    "RefConfig",
    "RewardConfig",
    "RolloutConfig",
    "TrainConfig",
    "TrainerConfig",
    "ValSamplingConfig",
    "WorkerConfig",
    "load_config",
]
