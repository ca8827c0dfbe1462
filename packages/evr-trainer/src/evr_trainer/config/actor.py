"""The ``worker.actor``, ``worker.ref`` and ``worker.critic`` sections."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ._base import Count, PositiveFloat, Section
from .policy import FsdpConfig, ModelConfig, OffloadConfig, OptimConfig


class ActorConfig(Section):
    """The policy: batches, loss, model, optimizer, sharding."""

    strategy: Literal["fsdp"] = "fsdp"
    """How the model is spread over devices."""
    global_batch_size: Count = 256
    """Prompts per optimizer step, over all workers; each brings its n responses."""
    micro_batch_size_per_device_for_update: Count = 4
    """Responses per forward and backward pass of one worker."""
    micro_batch_size_per_device_for_experience: Count = 16
    """Responses per forward pass of one worker when log-probs are computed."""
    max_grad_norm: PositiveFloat = 1.0
    """Gradients are scaled down to this norm."""
    clip_ratio_low: PositiveFloat = 0.2
    """The ratio of new to old probability is clipped at 1 - clip_ratio_low."""
    clip_ratio_high: PositiveFloat = 0.3
    """The ratio of new to old probability is clipped at 1 + clip_ratio_high."""
    clip_ratio_dual: PositiveFloat = 3.0
    """For negative advantages the loss is bounded by clip_ratio_dual x |advantage|."""
    loss_type: Literal["default", "gspo", "gspo_token", "cispo"] = "default"
    """Policy loss; default is the clipped loss of PPO and DAPO with dual clipping."""
    loss_avg_mode: Literal["token", "seq"] = "token"
    """Mean over all tokens of the batch, or over sequences of their token means."""
    ppo_epochs: Count = 1
    """Passes over each rollout batch."""
    padding_free: bool | None = None
    """Deprecated and without effect: sequences are always packed without padding."""
    dynamic_batching: bool = True
    """Bound micro-batches by max_token_len_per_gpu tokens instead of by their number of responses."""
    max_token_len_per_gpu: Count | None = None
    """Most tokens of a micro-batch; null means micro-batch size x (max_prompt_length + max_response_length)."""
    ulysses_size: Count = 1
    """Workers that share one sequence."""
    use_torch_compile: bool = True
    """Without effect in this version: nothing is compiled."""
    model: ModelConfig = Field(default_factory=ModelConfig)
    """The policy's weights."""
    optim: OptimConfig = Field(default_factory=OptimConfig)
    """Optimizer and schedule."""
    fsdp: FsdpConfig = Field(default_factory=FsdpConfig)
    """Sharding and precision."""
    offload: OffloadConfig = Field(default_factory=OffloadConfig)
    """Host memory while the rollout engine runs."""


class RefConfig(Section):
    """The frozen reference policy. Its weights are those the actor starts from; null inherits the actor's value."""

    strategy: Literal["fsdp"] = "fsdp"
    """How the model is spread over devices."""
    micro_batch_size_per_device_for_experience: Count | None = None
    """Responses per forward pass of one worker."""
    dynamic_batching: bool | None = None
    """Bound micro-batches by tokens."""
    max_token_len_per_gpu: Count | None = None
    """Most tokens of a micro-batch."""
    padding_free: bool | None = None
    """Deprecated and without effect: sequences are always packed without padding."""
    ulysses_size: Count | None = None
    """Workers that share one sequence."""
    use_torch_compile: bool | None = None
    """Without effect in this version: nothing is compiled."""
    fsdp: FsdpConfig = Field(default_factory=FsdpConfig)
    """Sharding and precision."""
    offload: OffloadConfig = Field(default_factory=OffloadConfig)
    """Host memory while the rollout engine runs."""


class CriticConfig(Section):
    """The value model of gae; unused by every other estimator."""

    strategy: Literal["fsdp"] = "fsdp"
    """How the model is spread over devices."""
    global_batch_size: Count = 256
    """Prompts per optimizer step, over all workers."""
    micro_batch_size_per_device_for_update: Count = 4
    """Responses per forward and backward pass of one worker."""
    micro_batch_size_per_device_for_experience: Count = 16
    """Responses per forward pass of one worker when values are computed."""
    max_grad_norm: PositiveFloat = 1.0
    """Gradients are scaled down to this norm."""
    cliprange_value: Annotated[float, Field(gt=0.0)] = 0.5
    """New values are clipped to this distance from the old ones."""
    loss_avg_mode: Literal["token", "seq"] = "token"
    """Mean over all tokens of the batch, or over sequences of their token means."""
    ppo_epochs: Count = 1
    """Passes over each rollout batch."""
    padding_free: bool | None = None
    """Deprecated and without effect: sequences are always packed without padding."""
    dynamic_batching: bool = True
    """Bound micro-batches by max_token_len_per_gpu tokens."""
    max_token_len_per_gpu: Count | None = None
    """Most tokens of a micro-batch; null as for the actor."""
    ulysses_size: Count = 1
    """Workers that share one sequence."""
    model: ModelConfig = Field(default_factory=ModelConfig)
    """The value model's weights."""
    optim: OptimConfig = Field(default_factory=OptimConfig)
    """Optimizer and schedule."""
    fsdp: FsdpConfig = Field(default_factory=FsdpConfig)
    """Sharding and precision."""
    offload: OffloadConfig = Field(default_factory=OffloadConfig)
    """Host memory while the rollout engine runs."""
