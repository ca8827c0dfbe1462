"""Load a video-language model and shard it with FSDP2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

__all__ = ["DTYPES", "full_named_parameters", "load_model", "shard_model", "vision_tower"]

DTYPES: dict[str, torch.dtype] = {
    "fp32": torch.float32,
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
}


def load_model(path: str | Path, *, dtype: torch.dtype, device: torch.device, freeze_vision: bool = False) -> nn.Module:
    """The model of a Hugging Face folder or hub id, in training mode, attention through SDPA.

    Custom code from the folder is never run.
    """
    from transformers import AutoModelForImageTextToText

    model: nn.Module = AutoModelForImageTextToText.from_pretrained(
        path, dtype=dtype, attn_implementation="sdpa", trust_remote_code=False
    )
    model.to(device)
    model.train()
    if freeze_vision:
        vision_tower(model).requires_grad_(False)
    return model


def vision_tower(model: nn.Module) -> nn.Module:
    """The vision encoder of a Qwen-VL model."""
    tower = getattr(getattr(model, "model", model), "visual", None)
    if not isinstance(tower, nn.Module):
        raise ValueError(f"{type(model).__name__} has no vision tower at model.visual; supported: the Qwen-VL families")
    return tower


def shard_model(
    model: nn.Module,
    mesh: DeviceMesh,
    *,
    param_dtype: torch.dtype,
    reduce_dtype: torch.dtype = torch.float32,
    reshard_after_forward: bool = True,
    cpu_offload: bool = False,
) -> nn.Module:
    """Shard every language layer and vision block, then the rest, over the mesh (in place)."""
    options: dict[str, Any] = {
        "mesh": mesh,
        "mp_policy": MixedPrecisionPolicy(param_dtype=param_dtype, reduce_dtype=reduce_dtype),
        "reshard_after_forward": reshard_after_forward,
        "offload_policy": CPUOffloadPolicy() if cpu_offload else OffloadPolicy(),
    }
    inner: Any = getattr(model, "model", model)
    tower: Any = vision_tower(model)
    for block in [*inner.language_model.layers, *tower.blocks]:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model


def full_named_parameters(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Stream every parameter unsharded, one at a time, under transformers' names.

    A collective: every rank must run it to the end. Shared parameters come once.
    """
    for name, parameter in model.named_parameters():
        full = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        yield name, full.detach()
