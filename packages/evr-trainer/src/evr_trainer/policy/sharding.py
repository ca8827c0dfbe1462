"""Which rank computes which groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evr_core import partition_balanced
from evr_trainer.carriers import GroupBatch, ResponseBatch
from evr_trainer.policy.micro import MicroBatch, plan_micro_batches

__all__ = ["MicroBatchLimit", "Shards", "shard_groups"]


@dataclass(frozen=True)
class MicroBatchLimit:
    """How much goes into one forward pass: at most ``tokens``, or, when that is None, ``responses``."""

    tokens: int | None
    responses: int = 1


@dataclass(frozen=True)
class Shards:
    """Groups of each rank (positions in the batch) and the micro-batches that each runs."""

    groups: list[list[int]]
    micro_batches: list[list[MicroBatch]]
    tokens: list[int]


def unshard_order(groups: Sequence[Sequence[int]]) -> list[int]:
    """Where each group of the batch is in the ranks' results laid one after another."""
    flat = [group for rank in groups for group in rank]
    order = [0] * len(flat)
    for place, group in enumerate(flat):
        order[group] = place
    return order


def balance(lengths: Sequence[int], world_size: int) -> list[list[int]]:
    """Split by Karmarkar-Karp into nearly equal totals; equal counts too where they divide.

    With fewer items than ranks, the last ranks get none.
    """
    if len(lengths) < world_size:
        return [[i] for i in range(len(lengths))] + [[] for _ in range(world_size - len(lengths))]
    parts = partition_balanced(list(lengths), world_size, equal_size=len(lengths) % world_size == 0)
    return [sorted(part) for part in parts]


def shard_groups(batch: ResponseBatch, world_size: int, limit: MicroBatchLimit) -> Shards:
    """Give every rank nearly the same number of tokens; a group stays on one rank."""
    tokens = batch.group_tokens()
    groups = balance(tokens, world_size)
    if limit.tokens is None:
        sizes, most = [[batch.num_responses] * len(rank) for rank in groups], limit.responses
    else:
        sizes, most = [[tokens[g] for g in rank] for rank in groups], limit.tokens
    prompts = [[batch.prompts[g] for g in rank] for rank in groups]
    return Shards(groups, plan_micro_batches(prompts, sizes, most), [sum(tokens[g] for g in rank) for rank in groups])


def shard_prompts(batch: GroupBatch, world_size: int) -> list[list[int]]:
    """Give every rank nearly the same number of prompt tokens."""
    return balance([len(prompt.token_ids) for prompt in batch.prompts], world_size)
