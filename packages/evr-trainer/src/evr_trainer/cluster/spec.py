"""What a worker needs to know to build its models; plain data that crosses Ray."""

from __future__ import annotations

from dataclasses import dataclass, field

from evr_trainer.config import FsdpConfig, ModelConfig, OptimConfig

__all__ = ["EngineSpec", "PolicySpec", "WorkerSpec"]


@dataclass(frozen=True)
class PolicySpec:
    """The trained model: where from, in which types, how sharded and optimised. ``lr`` is given with each update."""

    model_path: str
    tokenizer_path: str
    param_dtype: str = "fp32"
    compute_dtype: str = "fp32"
    reduce_dtype: str = "fp32"
    gradient_checkpointing: bool = False
    freeze_vision_tower: bool = False
    reshard_after_forward: bool = True
    cpu_offload: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.01
    temperature: float = 1.0

    @classmethod
    def of(cls, model: ModelConfig, fsdp: FsdpConfig, optim: OptimConfig, *, temperature: float = 1.0) -> PolicySpec:
        """From the sections of a configuration; ``temperature`` is that of the rollout."""
        return cls(
            model_path=model.model_path,
            tokenizer_path=model.tokenizer,
            param_dtype=fsdp.torch_dtype or "fp32",
            compute_dtype=fsdp.mp_param_dtype,
            reduce_dtype=fsdp.mp_reduce_dtype,
            gradient_checkpointing=model.enable_gradient_checkpointing,
            freeze_vision_tower=model.freeze_vision_tower,
            reshard_after_forward=fsdp.enable_full_shard,
            cpu_offload=fsdp.enable_cpu_offload,
            betas=optim.betas,
            weight_decay=optim.weight_decay,
            temperature=temperature,
        )


@dataclass(frozen=True)
class EngineSpec:
    """The rollout engine; fields as ``evr_trainer.rollout.make_engine`` takes them."""

    name: str
    dtype: str = "float32"
    max_model_len: int = 4096
    max_num_seqs: int = 64
    options: dict[str, int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerSpec:
    """One worker's place and models."""

    rank: int
    world_size: int
    device: str
    policy: PolicySpec
    num_threads: int = 1
    engine: EngineSpec | None = None
    with_optimizer: bool = True
    with_reference: bool = False
    collective_timeout_s: float = 600.0
    loopback_only: bool = True
