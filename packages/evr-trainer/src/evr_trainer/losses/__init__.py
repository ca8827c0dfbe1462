"""Policy losses: one file each, chosen by ``worker.actor.loss_type``."""

from __future__ import annotations

from collections.abc import Callable

from evr_trainer.losses.average import token_weights
from evr_trainer.losses.kl import KL_PENALTIES, kl_penalty
from evr_trainer.losses.ppo import ClipRange, PolicyLoss, ppo_clip_loss

__all__ = ["KL_PENALTIES", "LOSSES", "ClipRange", "PolicyLoss", "kl_penalty", "ppo_clip_loss", "token_weights"]

LOSSES: dict[str, Callable[..., PolicyLoss]] = {"default": ppo_clip_loss}
