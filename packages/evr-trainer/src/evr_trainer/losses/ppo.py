"""The clipped policy-gradient loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["ClipRange", "PolicyLoss", "ppo_clip_loss"]


@dataclass(frozen=True)
class ClipRange:
    """Bounds of the probability ratio: [1 - low, 1 + high]; ``dual`` bounds it where the advantage is negative."""

    low: float = 0.2
    high: float = 0.3
    dual: float = 3.0


@dataclass(frozen=True)
class PolicyLoss:
    """Loss of each token [T] and, detached, which tokens each bound decided [T]."""

    per_token: Tensor
    clipped_high: Tensor
    clipped_low: Tensor
    approx_kl: Tensor


def ppo_clip_loss(log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, clip: ClipRange) -> PolicyLoss:
    """PPO's clipped surrogate with DAPO's separate bounds and the dual clip.

    Sources: Schulman et al. 2017 (arXiv:1707.06347, equation 7); Yu et al. 2025, DAPO (arXiv:2503.14476, clip-higher);
    Ye et al. 2020 (arXiv:1912.09729, equation 5, dual clip).

    Args:
        log_probs: Of the sampled tokens under the policy being trained. [T]
        old_log_probs: Under the policy that the ratio is taken against; no gradient. [T]
        advantages: [T]
        clip: The bounds.

    Returns:
        Per-token losses to be minimised. ``approx_kl`` is ``old - new``, the k1 estimate of KL(old || new).
    """
    # The ratio's exponent is bounded so that one token cannot overflow float32.
    log_ratio = (log_probs - old_log_probs).clamp(-20.0, 20.0)
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1.0 - clip.low, 1.0 + clip.high)
    plain, clipped = -advantages * ratio, -advantages * bounded
    pessimistic = torch.maximum(plain, clipped)
    ceiling = -advantages * clip.dual
    per_token = torch.where(advantages < 0, torch.minimum(pessimistic, ceiling), pessimistic)
    return PolicyLoss(
        per_token=per_token,
        clipped_high=(clipped > plain).detach(),
        clipped_low=((advantages < 0) & (pessimistic > ceiling)).detach(),
        approx_kl=-log_ratio.detach(),
    )
