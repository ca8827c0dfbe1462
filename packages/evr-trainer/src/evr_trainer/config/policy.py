"""Sections that every trained model has: weights, optimizer, sharding, offload."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ._base import CountOrOff, Dtype, NonNegativeFloat, PositiveFloat, Rate, Section, Text

Decay = Annotated[float, Field(ge=0.0, lt=1.0)]


class ModelConfig(Section):
    """Which model, and what of it is trained."""

    model_path: Text = ""
    """Folder of a Hugging Face model, or a hub id."""
    tokenizer_path: Text = ""
    """Folder or hub id of the tokenizer and processor; empty means model_path."""
    override_config: dict[str, Any] = Field(default_factory=dict)
    """Values that replace those of the model's own configuration."""
    enable_gradient_checkpointing: bool = True
    """Recompute activations in the backward pass instead of keeping them."""
    trust_remote_code: bool = False
    """Refused when true: code from a model folder is never run."""
    freeze_vision_tower: bool = False
    """Leave the vision tower's parameters as they are."""

    @property
    def tokenizer(self) -> str:
        """Where the tokenizer and processor come from."""
        return self.tokenizer_path or self.model_path


class OptimConfig(Section):
    """Optimizer and learning-rate schedule."""

    lr: PositiveFloat = 1e-6
    """Highest learning rate."""
    betas: Annotated[tuple[Decay, Decay], Field(strict=False)] = (0.9, 0.999)
    """Decay rates of AdamW's two moments."""
    weight_decay: NonNegativeFloat = 1e-2
    """Decoupled weight decay."""
    strategy: Literal["adamw", "adamw_bf16"] = "adamw"
    """Optimizer; adamw_bf16 keeps its state in bfloat16."""
    lr_warmup_ratio: Rate = 0.0
    """Share of all steps over which the learning rate rises from 0; used when lr_warmup_steps is null."""
    lr_warmup_steps: Annotated[int, Field(ge=0)] | None = None
    """Steps over which the learning rate rises from 0."""
    min_lr_ratio: Rate | None = None
    """Lowest learning rate of the cosine schedule, as a share of lr; null means 0."""
    lr_scheduler_type: Literal["constant", "cosine"] = "constant"
    """Learning rate after the warm-up."""

    def warmup_steps(self, total_steps: int) -> int:
        """Warm-up steps of a run of ``total_steps`` optimizer steps."""
        if self.lr_warmup_steps is not None:
            return self.lr_warmup_steps
        return int(self.lr_warmup_ratio * total_steps)


class FsdpConfig(Section):
    """Sharding and mixed precision of FSDP2."""

    enable_full_shard: bool = True
    """Free a layer's gathered parameters after its forward pass; false keeps them until the backward pass."""
    enable_cpu_offload: bool = False
    """Keep shards in host memory and move them to the device layer by layer."""
    enable_rank0_init: bool = True
    """Read the weights on rank 0 only and spread them from there; false reads them on every rank."""
    fsdp_size: CountOrOff = -1
    """Workers that share one copy of the parameters; -1 means all."""
    mp_param_dtype: Dtype = "bf16"
    """Type of parameters and activations in forward and backward passes."""
    mp_reduce_dtype: Dtype = "fp32"
    """Type in which gradients are reduced."""
    mp_buffer_dtype: Dtype = "fp32"
    """Type of buffers."""
    torch_dtype: Dtype | None = None
    """Type in which parameters are kept; null means fp32."""
    use_orig_params: bool | None = None
    """Deprecated and without effect: FSDP2 always keeps the original parameters."""


class OffloadConfig(Section):
    """What moves to host memory while the rollout engine holds the device."""

    offload_params: bool = False
    """Move parameters."""
    offload_optimizer: bool = False
    """Move optimizer state."""
