"""What an update minimises: a sum over response tokens, with the weights of the whole batch's mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from evr_trainer.losses import LOSSES, ClipRange, kl_penalty, token_weights
from evr_trainer.metrics import MetricSums

__all__ = ["Objective", "PolicyGradient", "Supervised", "TokenView"]


@dataclass(frozen=True)
class TokenView:
    """The response tokens of one micro-batch, in order group, response, token.

    ``log_probs`` [T] carry the gradient; ``entropy`` [T] does not. ``response_lengths`` [S] sum to T. The rest are
    [T] or None where the batch has none.
    """

    log_probs: Tensor
    entropy: Tensor
    response_lengths: Tensor
    rollout_log_probs: Tensor | None = None
    old_log_probs: Tensor | None = None
    ref_log_probs: Tensor | None = None
    advantages: Tensor | None = None


class Objective(Protocol):
    """Turns tokens into the micro-batch's share of the loss."""

    def __call__(self, tokens: TokenView, metrics: MetricSums) -> Tensor: ...


@dataclass(frozen=True)
class PolicyGradient:
    """The clipped policy-gradient objective, with KL to the reference where the batch has its log-probs.

    ``total_tokens`` and ``total_responses`` are those of the whole mini-batch over all ranks.
    """

    total_tokens: int
    total_responses: int
    loss_type: str = "default"
    avg_mode: str = "token"
    clip: ClipRange = field(default_factory=ClipRange)
    kl_kind: str = "low_var_kl"
    kl_coef: float = 0.0

    def __call__(self, tokens: TokenView, metrics: MetricSums) -> Tensor:
        if tokens.advantages is None:
            raise ValueError("a policy-gradient update needs advantages")
        on_policy = tokens.log_probs.detach()
        old = on_policy if tokens.old_log_probs is None else tokens.old_log_probs
        loss = LOSSES[self.loss_type](tokens.log_probs, old, tokens.advantages, self.clip)
        weights = token_weights(
            tokens.response_lengths,
            self.avg_mode,
            total_tokens=self.total_tokens,
            total_responses=self.total_responses,
        )
        total = (weights * loss.per_token).sum()
        # Shares of the mini-batch's mean add up to it, and the shares of the tokens to one.
        metrics.add("actor/pg_loss", float(total.detach()), len(tokens.log_probs) / max(self.total_tokens, 1))
        metrics.add_mean("actor/pg_clipfrac_higher", loss.clipped_high.float())
        metrics.add_mean("actor/pg_clipfrac_lower", loss.clipped_low.float())
        metrics.add_mean("actor/ppo_kl", loss.approx_kl)
        metrics.add_mean("actor/entropy_loss", tokens.entropy)
        if tokens.ref_log_probs is not None:
            penalty = kl_penalty(tokens.log_probs, tokens.ref_log_probs, self.kl_kind)
            metrics.add_mean("actor/kl_loss", penalty.detach())
            total = total + self.kl_coef * (weights * penalty).sum()
        return total


@dataclass(frozen=True)
class Supervised:
    """Mean negative log-likelihood of the response tokens; ``total_tokens`` over all ranks."""

    total_tokens: int

    def __call__(self, tokens: TokenView, metrics: MetricSums) -> Tensor:
        metrics.add_mean("sft/loss", -tokens.log_probs.detach())
        with torch.no_grad():
            metrics.add_mean("sft/entropy", tokens.entropy)
        return -tokens.log_probs.sum() / max(self.total_tokens, 1)
