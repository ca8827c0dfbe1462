"""The whole configuration of a training run."""

from __future__ import annotations

from pydantic import Field

from ._base import Section
from .actor import ActorConfig, CriticConfig, RefConfig
from .algorithm import AlgorithmConfig
from .data import DataConfig
from .reward import RewardConfig
from .rollout import RolloutConfig
from .trainer import TrainerConfig


class WorkerConfig(Section):
    """What runs on the workers."""

    actor: ActorConfig = Field(default_factory=ActorConfig)
    """The policy."""
    ref: RefConfig = Field(default_factory=RefConfig)
    """The reference policy."""
    critic: CriticConfig = Field(default_factory=CriticConfig)
    """The value model."""
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    """The engine that writes responses."""
    reward: RewardConfig = Field(default_factory=RewardConfig)
    """Scoring."""
    hybrid_engine: bool | None = None
    """Deprecated and without effect: policy and rollout engine always share their devices."""


class TrainConfig(Section):
    """Configuration of reinforcement-learning training, one attribute path per key: ``config.worker.rollout.n``.

    Building one checks types and ranges of single values and touches no file; ``check_config`` finds what does not
    fit together or does not exist.
    """

    data: DataConfig = Field(default_factory=DataConfig)
    """Records, prompts and media."""
    algorithm: AlgorithmConfig = Field(default_factory=AlgorithmConfig)
    """Advantages and KL."""
    worker: WorkerConfig = Field(default_factory=WorkerConfig)
    """Models, rollout and reward."""
    trainer: TrainerConfig = Field(default_factory=TrainerConfig)
    """The run."""

    @property
    def max_sequence_length(self) -> int:
        """Most tokens of a prompt with its response."""
        return self.data.max_prompt_length + self.data.max_response_length

    @property
    def max_model_len(self) -> int:
        """Longest sequence of the rollout engine."""
        return self.worker.rollout.max_model_len or self.max_sequence_length

    @property
    def update_token_budget(self) -> int:
        """Most tokens of a micro-batch of the actor update."""
        actor = self.worker.actor
        return actor.max_token_len_per_gpu or actor.micro_batch_size_per_device_for_update * self.max_sequence_length

    @property
    def experience_token_budget(self) -> int:
        """Most tokens of a micro-batch when log-probs are computed."""
        actor = self.worker.actor
        return (
            actor.max_token_len_per_gpu or actor.micro_batch_size_per_device_for_experience * self.max_sequence_length
        )
