"""Advantages against hand-computed values."""

from __future__ import annotations

import math

import pytest
import torch

from evr_trainer.algorithms import ESTIMATORS, grpo_advantages


def test_grpo_by_hand() -> None:
    """Rewards 1, 0, 0, 1: mean 0.5, unbiased std sqrt(1/3)."""
    got = grpo_advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0]]), eps=0.0)
    expected = 0.5 / math.sqrt(1 / 3)
    torch.testing.assert_close(got, torch.tensor([[expected, -expected, -expected, expected]]))


def test_groups_do_not_see_each_other() -> None:
    generator = torch.Generator().manual_seed(0)
    rewards = torch.rand(5, 8, generator=generator)
    together = grpo_advantages(rewards)
    for g in range(5):
        torch.testing.assert_close(together[g : g + 1], grpo_advantages(rewards[g : g + 1]))


def test_a_group_without_spread_teaches_nothing() -> None:
    assert grpo_advantages(torch.full((2, 4), 0.7)).abs().max() == 0


def test_shift_and_scale_of_rewards_do_not_matter() -> None:
    rewards = torch.tensor([[0.1, 0.4, 0.9, 0.2]])
    torch.testing.assert_close(
        grpo_advantages(rewards, eps=0.0), grpo_advantages(3 * rewards + 5, eps=0.0), rtol=1e-4, atol=1e-5
    )


def test_a_single_response_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rollout\.n is 1"):
        ESTIMATORS["grpo"](torch.ones(3, 1))
