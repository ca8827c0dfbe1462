"""What the ranks of a test do; in a module of its own because they import it by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn
from transformers import AutoProcessor

from evr_trainer.carriers import TrainBatch
from evr_trainer.checkpoint import load_optimizer, load_weights, save_optimizer, save_weights
from evr_trainer.policy.micro import MicroBatch
from evr_trainer.policy.model import full_named_parameters, load_model
from evr_trainer.policy.objective import PolicyGradient
from evr_trainer.policy.optim import make_adamw
from evr_trainer.policy.policy import Policy, Sampling
from support_ranks import PLAIN, full, sharded_model

ADAMW_LR = 1e-4


@dataclass(frozen=True)
class Share:
    """An update as the ranks see it: the share and the micro-batches of each, one objective over all."""

    batches: Sequence[TrainBatch]
    plans: Sequence[Sequence[MicroBatch]]
    objective: PolicyGradient


@dataclass(frozen=True)
class Composition:
    """One mix of media over the ranks and how the model is set up for it."""

    name: str
    share: Share
    freeze_vision: bool = False
    checkpointing: bool = False


def update_on_ranks(
    rank: int, model_path: Path, forbidden: tuple[int, ...], compositions: Sequence[Composition], out: Path
) -> None:
    """For each composition log-probs, then one SGD update from the model's weights; files under ``out/name``."""
    processor = AutoProcessor.from_pretrained(model_path)
    for composition in compositions:
        model = sharded_model(
            model_path, freeze_vision=composition.freeze_vision, checkpointing=composition.checkpointing
        )
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.0)
        policy = _policy(model, processor, forbidden, optimizer)
        share, folder = composition.share, out / composition.name
        folder.mkdir(exist_ok=True)
        log_probs = policy.log_probs(share.batches[rank], share.plans[rank], stage="log-prob")
        metrics = policy.update(share.batches[rank], share.plans[rank], share.objective, lr=1.0, max_grad_norm=1.0)
        save_file({"log_probs": log_probs.contiguous()}, folder / f"log_probs_{rank}.safetensors")
        (folder / f"metrics_{rank}.json").write_text(json.dumps(asdict(metrics)))
        dump_weights(model, folder / "weights.safetensors")


def save_and_go_on(
    rank: int, model_path: Path, forbidden: tuple[int, ...], before: Share, after: Share, out: Path
) -> None:
    """Update with ``before``, save a checkpoint, update with ``after``; the weights of both moments are dumped."""
    policy = _adamw_policy(model_path, forbidden)
    _adamw_update(policy, rank, before)
    save_weights(policy.model, out / "model")
    assert policy.optimizer is not None
    save_optimizer(policy.model, policy.optimizer, out / "optimizer")
    dump_weights(policy.model, out / "saved.safetensors")
    dump_moments(policy, out / "saved_moments.safetensors")
    _adamw_update(policy, rank, after)
    dump_weights(policy.model, out / "next.safetensors")
    dump_moments(policy, out / "next_moments.safetensors")


def load_and_go_on(
    rank: int, model_path: Path, forbidden: tuple[int, ...], checkpoint: Path, after: Share, out: Path
) -> None:
    """Load a checkpoint of any number of ranks, dump its weights, update with ``after``, dump again."""
    policy = _adamw_policy(model_path, forbidden)
    load_weights(policy.model, checkpoint / "model")
    assert policy.optimizer is not None
    load_optimizer(policy.model, policy.optimizer, checkpoint / "optimizer")
    dump_weights(policy.model, out / "loaded.safetensors")
    dump_moments(policy, out / "loaded_moments.safetensors")
    _adamw_update(policy, rank, after)
    dump_weights(policy.model, out / "next.safetensors")
    dump_moments(policy, out / "next_moments.safetensors")


def checkpoint_jobs(rank: int, jobs: Sequence[tuple[Callable[..., None], tuple[object, ...]]]) -> None:
    """Several of the jobs above in one process group, one after another."""
    for job, args in jobs:
        job(rank, *args)
        dist.barrier()


def dump_weights(model: nn.Module, path: Path) -> None:
    """Every parameter unsharded, written by rank 0. A collective."""
    _dump({name: tensor.clone().contiguous() for name, tensor in full_named_parameters(model)}, path)


def dump_moments(policy: Policy, path: Path) -> None:
    """Every moment and step count of AdamW unsharded, written by rank 0. A collective."""
    _dump(dict(moments(policy)), path)


def moments(policy: Policy) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and whole value of each tensor of the optimizer's state."""
    assert policy.optimizer is not None
    for name, parameter in policy.model.named_parameters():
        for key, value in policy.optimizer.state.get(parameter, {}).items():
            yield f"{name}.{key}", full(value)


def _dump(tensors: dict[str, torch.Tensor], path: Path) -> None:
    if not dist.is_initialized() or dist.get_rank() == 0:
        save_file(tensors, path)


def _adamw_policy(model_path: Path, forbidden: tuple[int, ...]) -> Policy:
    """Sharded over the ranks of the process group; where there is none, one rank without sharding."""
    model = sharded_model(model_path) if dist.is_initialized() else load_model(model_path, **PLAIN)
    optimizer = make_adamw(model, lr=0.0, betas=(0.9, 0.99), weight_decay=0.1)
    return _policy(model, AutoProcessor.from_pretrained(model_path), forbidden, optimizer)


def _policy(
    model: nn.Module, processor: object, forbidden: tuple[int, ...], optimizer: torch.optim.Optimizer
) -> Policy:
    world_size = dist.get_world_size() if dist.is_initialized() else 1
    return Policy(model, processor, sampling=Sampling(1.0, forbidden), optimizer=optimizer, world_size=world_size)


def _adamw_update(policy: Policy, rank: int, share: Share) -> None:
    policy.update(share.batches[rank], share.plans[rank], share.objective, lr=ADAMW_LR, max_grad_norm=1.0)
