"""Choosing the next tokens from logits.

Legend: S sequences, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from evr_trainer.rollout.engine import SamplingParams

_TOP = 1.0 - 1e-12


def response_seed(seed: int, index: int = 0) -> int:
    """A seed in [0, 2^62) that is well mixed over (prompt seed, sample index)."""
    state = np.random.SeedSequence([seed % 2**64, index]).generate_state(1, np.uint64)[0]
    return int(state) >> 2


def uniforms(seed: int, index: int, count: int) -> np.ndarray:
    """``count`` numbers in [0, 1) of response ``index`` to the prompt with ``seed``. [count]

    The first k of them do not depend on ``count``.
    """
    return np.random.Generator(np.random.Philox(key=response_seed(seed, index))).random(count)


def next_tokens(
    logits: torch.Tensor, numbers: torch.Tensor, sampling: SamplingParams, forbidden: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token per sequence by inverting the cumulative distribution.

    Args:
        logits: Model outputs, any float type; not changed. [S, V]
        numbers: One number in [0, 1) per sequence, float64. [S]
        sampling: Temperature and truncation.
        forbidden: Token ids that are never drawn.

    Returns:
        Tokens and their log-probabilities before truncation. [S], [S]
    """
    scores = logits.to(torch.float32, copy=True)
    scores[:, list(forbidden)] = float("-inf")
    if sampling.greedy:
        tokens = scores.argmax(-1)
    else:
        scores.div_(sampling.temperature)
        tokens = _invert(_truncate(scores, sampling), numbers)
    log_probs = scores.gather(-1, tokens[:, None])[:, 0] - scores.logsumexp(-1)
    return tokens, log_probs


def _invert(scores: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """First token whose cumulative probability exceeds the number; one of probability zero is never hit. [S]"""
    cumulative = scores.softmax(-1).to(torch.float64).cumsum(-1)
    targets = numbers[:, None] * _TOP * cumulative[:, -1:]
    return torch.searchsorted(cumulative, targets, right=True)[:, 0]


def _truncate(scores: torch.Tensor, sampling: SamplingParams) -> torch.Tensor:
    """Scores with everything outside top-k, then outside top-p, at minus infinity. [S, V]"""
    if not sampling.truncated:
        return scores
    ordered, order = scores.sort(dim=-1, descending=True)
    if sampling.top_k != -1:
        ordered[:, sampling.top_k :] = float("-inf")
    probs = ordered.softmax(-1)
    # A token stays while the probability of the more likely ones is below top_p; the first one always stays.
    ordered.masked_fill_(probs.cumsum(-1) - probs >= sampling.top_p, float("-inf"))
    return torch.empty_like(scores).scatter_(-1, order, ordered)
