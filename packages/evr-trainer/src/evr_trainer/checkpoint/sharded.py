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
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

__all__ = ["load_full_weights", "load_optimizer", "load_weights", "save_optimizer", "save_weights"]

_MOMENTS = ("exp_avg", "exp_avg_sq")


def save_weights(model: nn.Module, folder: Path) -> None:
    """Write this rank's shards of every parameter. A collective."""
    _save(dict(model.named_parameters()), folder)


def load_weights(model: nn.Module, folder: Path) -> None:
    """Read every parameter in place. A collective.

    Raises:
        CheckpointException: From torch, when a parameter is missing in the files.
    """
    _load(dict(model.named_parameters()), folder)


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
    parameters = dict(model.named_parameters())
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
    _load(dict(model.named_parameters()), folder, no_dist=True)


def _optimizer_states(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """State by parameter name, for those that have been stepped."""
    return {
        name: optimizer.state[parameter] for name, parameter in model.named_parameters() if parameter in optimizer.state
    }


def _save(tensors: dict[str, Tensor], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    dcp_save(tensors, storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True))


def _load(tensors: dict[str, Tensor], folder: Path, *, no_dist: bool = False) -> None:
    with warnings.catch_warnings():
        # torch says that it loads in a single process; export means to.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp_load(tensors, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=no_dist)


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0
