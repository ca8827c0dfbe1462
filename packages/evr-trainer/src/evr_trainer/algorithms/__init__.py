"""Advantage estimators: one file each, chosen by ``algorithm.adv_estimator``."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from evr_trainer.algorithms.grpo import grpo_advantages

__all__ = ["ESTIMATORS", "grpo_advantages"]

# name -> (rewards [G, n]) -> advantages [G, n]
ESTIMATORS: dict[str, Callable[..., Tensor]] = {"grpo": grpo_advantages}
