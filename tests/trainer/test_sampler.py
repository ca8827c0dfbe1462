"""What a resumed run computes anew instead of storing: the order of samples, seeds, the learning rate."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evr_trainer.data import EpochSampler
from evr_trainer.policy.optim import LearningRate, make_adamw
from evr_trainer.seeding import derive_seed


def test_unshuffled_order_runs_over_the_end_of_the_epoch() -> None:
    sampler = EpochSampler(size=3, seed=1, shuffle=False)
    taken = [sampler.take(2) for _ in range(4)]
    assert taken == [[0, 1], [2, 0], [1, 2], [0, 1]]
    assert (sampler.position, sampler.epoch) == (8, 2)


def test_every_epoch_is_a_permutation_of_its_own() -> None:
    sampler = EpochSampler(size=50, seed=7)
    first, second = sampler.take(50), sampler.take(50)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert first != list(range(50))
    assert EpochSampler(size=50, seed=8).take(50) != first


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**40), st.lists(st.integers(0, 30), max_size=6))
def test_order_is_that_of_numpy_however_it_is_taken(size: int, seed: int, counts: list[int]) -> None:
    """Batches of any size, also larger than an epoch, cut one sequence: permutation after permutation."""
    sampler = EpochSampler(size=size, seed=seed)
    taken = [index for count in counts for index in sampler.take(count)]
    epochs = range(sum(counts) // size + 1)
    expected = [int(i) for e in epochs for i in np.random.default_rng([seed, e]).permutation(size)]
    assert taken == expected[: sum(counts)]
    assert sampler.epoch == sum(counts) // size


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10), st.integers(0, 40), st.integers(0, 40))
def test_a_resumed_sampler_goes_on_where_it_was(size: int, before: int, after: int) -> None:
    uninterrupted = EpochSampler(size=size, seed=3)
    uninterrupted.take(before)
    resumed = EpochSampler(size=size, seed=3, position=uninterrupted.position)
    assert resumed.take(after) == uninterrupted.take(after)


def test_seeds_are_the_same_on_every_machine() -> None:
    """BLAKE2b-64 of "1<US>2<US>3", big-endian, less its lowest bit; `b2sum -l 64` gives the same digest."""
    assert derive_seed(1, 2, 3) == 0x2180CE39EDD0D2AC >> 1
    assert derive_seed("val", 5) == 0xE05298D1FEDB3A4F >> 1


def test_seeds_differ_in_every_part() -> None:
    seeds = {derive_seed(seed, step, place) for seed in range(4) for step in range(50) for place in range(50)}
    assert len(seeds) == 4 * 50 * 50
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert torch.tensor(sorted(seeds), dtype=torch.int64).max() > 2**62  # the range is used
    assert (
        len({derive_seed(1, 23), derive_seed(12, 3), derive_seed(3, 12), derive_seed(1, 2, 3), derive_seed(123)}) == 5
    )


@pytest.mark.parametrize(("step", "expected"), [(0, 0.25), (1, 0.5), (2, 0.75), (3, 1.0), (4, 1.0), (1000, 1.0)])
def test_constant_rate_after_a_linear_warm_up(step: int, expected: float) -> None:
    assert LearningRate(peak=1.0, warmup_steps=4)(step) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 1.0),  # half of the peak
        (1, 2.0),
        (2, 2.0),  # the cosine starts at the peak
        (4, 0.2 + 1.8 * 0.5 * (1 + 0.5**0.5)),  # a quarter of the way: cos(pi / 4)
        (6, 1.1),  # half way: between the peak and its tenth
        (10, 0.2),
        (99, 0.2),  # and never below
    ],
)
def test_cosine_by_hand(step: int, expected: float) -> None:
    rate = LearningRate(peak=2.0, warmup_steps=2, total_steps=10, kind="cosine", min_ratio=0.1)
    assert rate(step) == pytest.approx(expected)


def test_cosine_falls_steadily_and_equals_torch() -> None:
    rate = LearningRate(peak=3e-4, total_steps=20, kind="cosine")
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=3e-4)
    reference = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    for step in range(20):
        assert rate(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        reference.step()
    assert all(rate(step + 1) < rate(step) for step in range(20))


def test_a_run_that_is_all_warm_up() -> None:
    rate = LearningRate(peak=1.0, warmup_steps=5, total_steps=5, kind="cosine")
    assert [rate(step) for step in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_only_matrices_decay_and_frozen_parameters_stay_out() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2), torch.nn.Linear(2, 1))
    model[2].requires_grad_(False)
    optimizer = make_adamw(model, lr=0.1, betas=(0.8, 0.9), weight_decay=0.5)
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert decay == {
        id(model[0].weight): 0.5,
        id(model[0].bias): 0.0,
        id(model[1].weight): 0.0,
        id(model[1].bias): 0.0,
    }
    assert {group["betas"] for group in optimizer.param_groups} == {(0.8, 0.9)}
