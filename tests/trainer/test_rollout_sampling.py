"""Drawing tokens: right probabilities, right log-probs, randomness that belongs to the sequence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evr_trainer.rollout import SamplingParams
from evr_trainer.rollout.sampling import next_tokens, response_seed, uniforms

# The probabilities are 0.4, 0.3, 0.2, 0.1, in another order.
LOGITS = torch.tensor([[math.log(0.2), math.log(0.4), math.log(0.1), math.log(0.3)]])


def drawn(sampling: SamplingParams, forbidden: list[int], count: int = 1000) -> tuple[list[float], torch.Tensor]:
    """Shares of each token over evenly spaced numbers, and the log-prob that came with each token (nan if none)."""
    numbers = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    tokens, log_probs = next_tokens(LOGITS.expand(count, -1), numbers, sampling, forbidden)
    seen = torch.full((4,), float("nan"))
    seen[tokens] = log_probs
    return [(tokens == token).float().mean().item() for token in range(4)], seen


def test_shares_equal_the_probabilities() -> None:
    shares, log_probs = drawn(SamplingParams(n=1, max_tokens=1), [])
    assert shares == pytest.approx([0.2, 0.4, 0.1, 0.3])
    assert log_probs.exp().tolist() == pytest.approx([0.2, 0.4, 0.1, 0.3])


def test_temperature_sharpens_shares_and_log_probs() -> None:
    shares, log_probs = drawn(SamplingParams(n=1, max_tokens=1, temperature=0.5), [])
    # Squares of the probabilities, 0.04 + 0.16 + 0.01 + 0.09 = 0.3.
    expected = [4 / 30, 16 / 30, 1 / 30, 9 / 30]
    assert shares == pytest.approx(expected, abs=2e-3)
    assert log_probs.exp().tolist() == pytest.approx(expected)


def test_forbidden_tokens_leave_the_distribution() -> None:
    shares, log_probs = drawn(SamplingParams(n=1, max_tokens=1), [1])
    assert shares == pytest.approx([2 / 6, 0.0, 1 / 6, 3 / 6], abs=2e-3)
    assert log_probs.exp()[[0, 2, 3]].tolist() == pytest.approx([2 / 6, 1 / 6, 3 / 6])


@pytest.mark.parametrize(
    ("top_p", "top_k", "expected"),
    [
        (1.0, 2, [0.0, 4 / 7, 0.0, 3 / 7]),
        (0.7 - 1e-6, -1, [0.0, 4 / 7, 0.0, 3 / 7]),
        (0.71, -1, [2 / 9, 4 / 9, 0.0, 3 / 9]),
        (0.01, -1, [0.0, 1.0, 0.0, 0.0]),
        # Top-k renormalises before top-p: 4/7 reaches 0.5.
        (0.5, 2, [0.0, 1.0, 0.0, 0.0]),
    ],
)
def test_truncation_changes_shares_but_not_log_probs(top_p: float, top_k: int, expected: list[float]) -> None:
    shares, log_probs = drawn(SamplingParams(n=1, max_tokens=1, top_p=top_p, top_k=top_k), [])
    assert shares == pytest.approx(expected, abs=2e-3)
    kept = [token for token in range(4) if expected[token] > 0]
    assert log_probs.exp()[kept].tolist() == pytest.approx([[0.2, 0.4, 0.1, 0.3][token] for token in kept])


def test_greedy_takes_the_largest_allowed_logit_with_log_probs_at_temperature_one() -> None:
    tokens, log_probs = next_tokens(
        LOGITS, torch.zeros(1, dtype=torch.float64), SamplingParams(1, 1, temperature=0.0), [1]
    )
    assert tokens.tolist() == [3]
    assert log_probs.exp().item() == pytest.approx(3 / 6)


@pytest.mark.parametrize("number", [0.0, np.nextafter(1.0, 0.0)])
def test_extreme_numbers_never_hit_a_token_of_probability_zero(number: float) -> None:
    logits = torch.tensor([[-torch.inf, 1.0, 2.0, -torch.inf]])
    tokens, _ = next_tokens(logits, torch.tensor([number], dtype=torch.float64), SamplingParams(1, 1), [])
    assert tokens.item() in (1, 2)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=9), st.floats(0, 1, exclude_max=True), st.floats(0.1, 2.0))
def test_drawing_equals_walking_along_the_probabilities(logits: list[float], number: float, temperature: float) -> None:
    tensor = torch.tensor([logits])
    sampling = SamplingParams(n=1, max_tokens=1, temperature=temperature)
    token, log_prob = next_tokens(tensor, torch.tensor([number], dtype=torch.float64), sampling, [])
    weights = [math.exp((value - max(logits)) / temperature) for value in tensor[0].tolist()]
    below = sum(weights[: token.item()]) / sum(weights)
    share = weights[token.item()] / sum(weights)
    assert below - 1e-5 <= number <= below + share + 1e-5
    assert log_prob.item() == pytest.approx(math.log(share), abs=1e-4)


def test_numbers_depend_on_seed_and_index_and_not_on_their_count() -> None:
    assert uniforms(5, 2, 3).tolist() == uniforms(5, 2, 9)[:3].tolist()
    rows = {tuple(uniforms(seed, index, 4)) for seed in (0, 1, 2) for index in range(4)}
    assert len(rows) == 12
    assert all(0 <= response_seed(seed) < 2**62 for seed in (-1, 0, 2**63, 2**70))


@pytest.mark.parametrize(
    ("field", "value"),
    [("n", 0), ("max_tokens", 0), ("temperature", -0.1), ("temperature", 1e-4), ("top_p", 0.0), ("top_k", 0)],
)
def test_settings_out_of_range_are_named(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{field} is .*; allowed:"):
        SamplingParams(**{"n": 1, "max_tokens": 1, field: value})
