"""Weights and optimizer state of a sharded model, through torch's distributed checkpoint in safetensors files.

Every rank writes its shards; a run with another number of ranks can read them. Nothing is pickled to disk.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter

__all__ = ["load_full_weights", "load_optimizer", "load_weights", "save_optimizer", "save_weights"]

_MOMENTS = ("exp_avg", "exp_avg_sq")


def save_weights(model: nn.Module, folder: Path) -> None:
    """Write this rank's shards of every parameter. A collective."""
    _save(dict(_parameters(model)), folder)


def load_weights(model: nn.Module, folder: Path) -> None:
    """Read every parameter in place. A collective.

    Raises:
        CheckpointException: From torch, when a parameter is missing in the files.
    """
    _load(dict(_parameters(model)), folder)


def save_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Write this rank's shards of AdamW's moments, and the step counts to ``<folder>.json``. A collective."""
    states = _optimizer_states(model, optimizer)
    tensors = {f"{name}.{key}": state[key] for name, state in states.items() for key in _MOMENTS}
    if tensors:
        _save(tensors, folder)
    if _rank() == 0:
        steps = {name: float(state["step"]) for name, state in states.items()}
        folder.with_suffix(".json").write_text(json.dumps({"steps": steps}))


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Restore AdamW's moments and step counts. A collective."""
    steps: dict[str, float] = json.loads(folder.with_suffix(".json").read_text())["steps"]
    parameters = dict(_parameters(model))
    unknown = sorted(set(steps) - set(parameters))
    if unknown:
        raise ValueError(f"{folder}: optimizer state for parameters this model does not have: {unknown[:5]}")
    states: dict[str, dict[str, Any]] = {}
    for name, step in steps.items():
        parameter = parameters[name]
        states[name] = {key: torch.zeros_like(parameter) for key in _MOMENTS}
        states[name]["step"] = torch.tensor(step, dtype=torch.float32, device=parameter.device)
    if states:
        _load({f"{name}.{key}": state[key] for name, state in states.items() for key in _MOMENTS}, folder)
    optimizer.state.clear()
    for name, state in states.items():
        optimizer.state[parameters[name]] = state


def load_full_weights(model: nn.Module, folder: Path) -> None:
    """Read sharded weights into an unsharded model, in one process without torch.distributed."""
    _load(dict(_parameters(model)), folder, no_dist=True)


def _parameters(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [(name, parameter.data) if not _is_sharded(parameter) else (name, parameter) for name, parameter in
            model.named_parameters()]


def _is_sharded(tensor: Tensor) -> bool:
    return hasattr(tensor, "full_tensor")


def _optimizer_states(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """State by parameter name, for those that have been stepped."""
    return {
        name: optimizer.state[parameter]
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
    }


def _save(tensors: dict[str, Tensor], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no_dist.*")
        dcp.save(tensors, storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True))


def _load(tensors: dict[str, Tensor], folder: Path, *, no_dist: bool = False) -> None:
    dcp.load(tensors, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=no_dist)


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0
