"""Which rank computes what: every group once, within the limit, all ranks in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from evr_trainer.carriers import ResponseBatch
from evr_trainer.policy.micro import plan_micro_batches
from evr_trainer.policy.sharding import MicroBatchLimit, balance, shard_groups, shard_prompts, unshard_order


@dataclass(frozen=True)
class Medium:
    kind: str


@dataclass(frozen=True)
class Prompt:
    """What planning reads of an encoded prompt."""

    media: tuple[Medium, ...] = ()
    length: int = 1

    @property
    def token_ids(self) -> np.ndarray:
        return np.zeros(self.length, dtype=np.int32)


KINDS = {
    "text": Prompt(),
    "image": Prompt((Medium("image"),)),
    "video": Prompt((Medium("video"),)),
    "mixed": Prompt((Medium("video"), Medium("image"))),
}
groups = st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.integers(1, 40)), max_size=9)


@settings(max_examples=150, deadline=None)
@given(st.lists(groups, min_size=1, max_size=4), st.integers(1, 60))
def test_laws_of_a_plan(ranks: list[list[tuple[str, int]]], limit: int) -> None:
    prompts = [[KINDS[kind] for kind, _ in rank] for rank in ranks]
    tokens = [[size for _, size in rank] for rank in ranks]
    plans = plan_micro_batches(prompts, tokens, limit)  # type: ignore[arg-type]
    assert len({len(plan) for plan in plans}) == 1  # as many passes on every rank
    for sizes, plan in zip(tokens, plans, strict=True):
        assert sorted(g for micro in plan for g in micro.groups) == list(range(len(sizes)))
        for micro in plan:
            assert len(micro.groups) <= 1 or sum(sizes[g] for g in micro.groups) <= limit
    for row in zip(*plans, strict=True):
        kinds = [
            [handle.kind for g in micro.groups for handle in rank[g].media]
            for rank, micro in zip(prompts, row, strict=True)
        ]
        runs = {frozenset([*own, *micro.dummies]) for own, micro in zip(kinds, row, strict=True)}
        assert len(runs) == 1  # the tower runs for the same kinds everywhere
        for own, micro in zip(kinds, row, strict=True):
            assert not set(own) & set(micro.dummies)
        assert set().union(*kinds) == runs.pop()  # and only for kinds that some rank has


def test_a_larger_group_goes_alone_and_does_not_raise_the_limit_of_others() -> None:
    plan = plan_micro_batches([[KINDS["text"]] * 4], [[5, 30, 5, 5]], 8)[0]  # type: ignore[list-item]
    assert sorted(micro.groups for micro in plan) == [(0,), (1,), (2,), (3,)]


def test_dummies_by_hand() -> None:
    """Rank 0 has one text group, rank 1 a video and an image that do not fit together, rank 2 nothing."""
    prompts = [[KINDS["text"]], [KINDS["video"], KINDS["image"]], []]
    plans = plan_micro_batches(prompts, [[5], [8, 6], []], 10)  # type: ignore[arg-type]
    by_group = {micro.groups: index for index, micro in enumerate(plans[1])}
    video, image = by_group[(0,)], by_group[(1,)]
    assert [len(plan) for plan in plans] == [2, 2, 2]
    assert {micro.dummies for micro in plans[1]} == {()}
    for rank in (0, 2):
        assert plans[rank][video].dummies == ("video",)
        assert plans[rank][image].dummies == ("image",)
    assert [micro.groups for micro in plans[2]] == [(), ()]
    assert plan_micro_batches([[], []], [[], []], 10) == [[], []]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 500), max_size=24), st.integers(1, 5))
def test_balance_gives_every_item_to_one_rank(lengths: list[int], world_size: int) -> None:
    parts = balance(lengths, world_size)
    assert len(parts) == world_size
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    assert all(part == sorted(part) for part in parts)
    if len(lengths) % world_size == 0:
        assert {len(part) for part in parts} == {len(lengths) // world_size}
    if len(lengths) >= world_size:
        assert all(parts)


def test_fewer_prompts_than_ranks() -> None:
    assert sorted(balance([7, 3], 4)) == [[], [], [0], [1]]
    assert balance([], 2) == [[], []]


def _batch(sizes: Sequence[int]) -> ResponseBatch:
    lengths = torch.tensor([[1, 2]] * len(sizes), dtype=torch.int64).reshape(-1, 2)
    tensors = {"response_ids": torch.zeros(len(sizes), 2, 2, dtype=torch.int64), "response_lengths": lengths}
    prompts = tuple(Prompt(length=size) for size in sizes)
    return ResponseBatch(prompts, TensorDict(tensors, [len(sizes)]))  # type: ignore[arg-type]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(1, 4), st.sampled_from([None, 40]))
def test_shards_put_together_again_are_the_batch(sizes: list[int], world_size: int, tokens: int | None) -> None:
    batch = _batch(sizes)
    shards = shard_groups(batch, world_size, MicroBatchLimit(tokens, responses=4))
    flat = [group for rank in shards.groups for group in rank]
    assert [flat[place] for place in unshard_order(shards.groups)] == list(range(len(sizes)))
    assert sum(shards.tokens) == sum(batch.group_tokens()) == sum(sizes) + 3 * len(sizes)
    assert len({len(plan) for plan in shards.micro_batches}) == 1
    for rank, plan in zip(shards.groups, shards.micro_batches, strict=True):
        assert sorted(g for micro in plan for g in micro.groups) == list(range(len(rank)))
        if tokens is None:  # two responses a group, four a micro-batch
            assert all(len(micro.groups) <= 2 for micro in plan)


def test_a_group_of_more_responses_than_the_limit_goes_alone() -> None:
    shards = shard_groups(_batch([3, 3, 3]), 1, MicroBatchLimit(None, responses=1))
    assert [micro.groups for micro in shards.micro_batches[0]] == [(0,), (1,), (2,)]


def test_prompts_are_balanced_by_their_tokens() -> None:
    """Four prompts of 8, 1, 1 and 8 tokens on two ranks: nine tokens each."""
    places = shard_prompts(_batch([8, 1, 1, 8]), 2)
    assert sorted(sum([8, 1, 1, 8][i] for i in place) for place in places) == [9, 9]


@pytest.mark.parametrize("order", [[[2, 0], [1]], [[], [0, 1, 2]], [[1], [2], [0]]])
def test_unshard_order_by_hand(order: list[list[int]]) -> None:
    results = [f"result of {group}" for rank in order for group in rank]
    assert [results[i] for i in unshard_order(order)] == [f"result of {g}" for g in range(3)]
