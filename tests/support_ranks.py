"""Run a function on gloo ranks of this machine: real processes, a file for rendezvous, a deadline."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from evr_trainer.policy.model import load_model, shard_model

# Imported once, in the process that all ranks are forked from; on a small machine imports take longer than the tests.
PRELOAD = (
    "torch.distributed.fsdp",
    "transformers.models.qwen3_vl.modeling_qwen3_vl",
    "transformers.models.qwen3_vl.processing_qwen3_vl",
    "transformers.models.qwen3_vl.video_processing_qwen3_vl",
    "evr_trainer.checkpoint",
    "evr_trainer.policy.policy",
)

PLAIN: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}


def run_ranks(target: Callable[..., None], world_size: int, folder: Path, *args: Any, timeout_s: float = 200.0) -> None:
    """``target(rank, *args)`` on every rank inside a process group.

    Raises:
        TimeoutError: Some rank was not done in time; all are killed.
        ProcessRaisedException: From torch, with the traceback of the rank that failed.
    """
    multiprocessing.set_forkserver_preload(list(PRELOAD))
    context = mp.start_processes(
        _enter,
        (target, world_size, str(folder / "rendezvous"), args),
        world_size,
        join=False,
        start_method="forkserver",
    )
    assert context is not None
    deadline = time.monotonic() + timeout_s
    try:
        while not context.join(timeout=1.0):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the ranks were not done after {timeout_s} s: a collective hangs")
    finally:
        for process in context.processes:
            process.kill()


def _enter(rank: int, target: Callable[..., None], world_size: int, rendezvous: str, args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo",
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=60),
    )
    try:
        target(rank, *args)
    finally:
        dist.destroy_process_group()


def sharded_model(model_path: Path, *, freeze_vision: bool = False, checkpointing: bool = False) -> nn.Module:
    """The model of a folder in float32, sharded over all ranks."""
    model: Any = load_model(model_path, freeze_vision=freeze_vision, **PLAIN)
    if checkpointing:
        model.gradient_checkpointing_enable()
    return shard_model(model, init_device_mesh("cpu", (dist.get_world_size(),)), param_dtype=torch.float32)


def full(tensor: Tensor) -> Tensor:
    """The whole of a tensor on every rank; a collective for a sharded one."""
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().clone()
