"""Losses against values worked by hand and slow, obvious implementations."""

from __future__ import annotations

import math

import pytest
import torch

from evr_trainer.losses import KL_PENALTIES, ClipRange, kl_penalty, ppo_clip_loss, token_weights

CLIP = ClipRange(low=0.2, high=0.3, dual=3.0)


def _loss(ratio: float, advantage: float) -> float:
    loss = ppo_clip_loss(torch.tensor([math.log(ratio)]), torch.zeros(1), torch.tensor([advantage]), CLIP)
    return float(loss.per_token)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, -2.0),  # on-policy: minus the advantage
        (1.2, 1.0, -1.2),  # within the upper bound
        (1.5, 1.0, -1.3),  # clipped at 1 + 0.3
        (0.5, 1.0, -0.5),  # a fall of a good token is not clipped
        (0.5, -1.0, 0.8),  # clipped at 1 - 0.2
        (2.0, -1.0, 2.0),  # a rise of a bad token is not clipped
        (5.0, -1.0, 3.0),  # until the dual clip
    ],
)
def test_clip_bounds(ratio: float, advantage: float, expected: float) -> None:
    assert _loss(ratio, advantage) == pytest.approx(expected, rel=1e-6)


def test_gradient_on_policy_is_minus_the_advantage() -> None:
    log_probs = torch.randn(7, requires_grad=True)
    advantages = torch.randn(7)
    ppo_clip_loss(log_probs, log_probs.detach(), advantages, CLIP).per_token.sum().backward()
    torch.testing.assert_close(log_probs.grad, -advantages)


def test_no_gradient_where_the_bound_decides() -> None:
    log_probs = torch.tensor([math.log(2.0), math.log(0.1), math.log(10.0)], requires_grad=True)
    advantages = torch.tensor([1.0, -1.0, -1.0])
    loss = ppo_clip_loss(log_probs, torch.zeros(3), advantages, CLIP)
    loss.per_token.sum().backward()
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == [0.0, 0.0, 0.0]
    assert loss.clipped_high.tolist() == [True, True, False]
    assert loss.clipped_low.tolist() == [False, False, True]


def test_an_extreme_ratio_stays_finite() -> None:
    loss = ppo_clip_loss(torch.tensor([500.0, -500.0]), torch.zeros(2), torch.tensor([-1.0, 1.0]), CLIP)
    assert bool(loss.per_token.isfinite().all())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("kl", 0.5), ("abs", 0.5), ("mse", 0.125), ("low_var_kl", math.exp(-0.5) + 0.5 - 1.0)],
)
def test_kl_penalties(kind: str, expected: float) -> None:
    value = kl_penalty(torch.tensor([-1.0]), torch.tensor([-1.5]), kind)
    assert float(value) == pytest.approx(expected, rel=1e-6)


def test_expected_penalties_estimate_the_divergence() -> None:
    """Under samples of p, k1 and k3 both average to KL(p || q), worked out exactly over the vocabulary."""
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(11, generator=generator, dtype=torch.float64).log_softmax(0)
    q = torch.randn(11, generator=generator, dtype=torch.float64).log_softmax(0)
    exact = float((p.exp() * (p - q)).sum())
    for kind in ("kl", "low_var_kl"):
        assert float((p.exp() * kl_penalty(p, q, kind)).sum()) == pytest.approx(exact, rel=1e-9)


def test_unknown_kl_names_the_allowed_ones() -> None:
    with pytest.raises(ValueError, match="low_var_kl"):
        kl_penalty(torch.zeros(1), torch.zeros(1), "k9")
    assert all(kl_penalty(torch.zeros(1), torch.zeros(1), kind).tolist() == [0.0] for kind in KL_PENALTIES)


@pytest.mark.parametrize("mode", ["token", "seq"])
def test_weights_of_any_split_add_up_to_the_batch_mean(mode: str) -> None:
    lengths = torch.tensor([3, 1, 0, 6])
    losses = torch.arange(10, dtype=torch.float32)
    per_response = losses.split(lengths.tolist())
    expected = (
        losses.mean() if mode == "token" else torch.stack([part.mean() for part in per_response if len(part)]).mean()
    )

    def share(rows: list[int]) -> torch.Tensor:
        weights = token_weights(lengths[rows], mode, total_tokens=10, total_responses=3)
        return (weights * torch.cat([per_response[row] for row in rows])).sum()

    torch.testing.assert_close(share([0, 1, 2, 3]), expected)
    torch.testing.assert_close(share([0, 2]) + share([1]) + share([3]), expected)


def test_unknown_average_names_the_allowed_ones() -> None:
    with pytest.raises(ValueError, match="token, seq"):
        token_weights(torch.tensor([1]), "constant", total_tokens=1, total_responses=1)
