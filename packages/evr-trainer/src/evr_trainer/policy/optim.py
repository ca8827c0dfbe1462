"""The optimizer and the learning rate as a function of the step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from evr_trainer.config import OptimConfig

__all__ = ["LearningRate", "make_adamw"]


@dataclass(frozen=True)
class LearningRate:
    """Learning rate of each optimizer step, counted from 0; a pure function, so a resumed run needs no state.

    Attributes:
        peak: After the warm-up.
        warmup_steps: Steps of linear growth from ``peak / warmup_steps``.
        total_steps: Length of the run; only the cosine needs it.
        kind: ``constant`` or ``cosine``.
        min_ratio: Lowest rate of the cosine as a share of the peak.
    """

    peak: float
    warmup_steps: int = 0
    total_steps: int = 0
    kind: str = "constant"
    min_ratio: float = 0.0

    @classmethod
    def of(cls, optim: OptimConfig, total_steps: int) -> LearningRate:
        """From the optimizer's section, for a run of ``total_steps`` optimizer steps."""
        return cls(
            peak=optim.lr,
            warmup_steps=optim.warmup_steps(total_steps),
            total_steps=total_steps,
            kind=optim.lr_scheduler_type,
            min_ratio=optim.min_lr_ratio or 0.0,
        )

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.peak * (step + 1) / self.warmup_steps
        if self.kind == "constant":
            return self.peak
        span = max(self.total_steps - self.warmup_steps, 1)
        progress = min((step - self.warmup_steps) / span, 1.0)
        cosine = 0.5 * (1.0 + math.cos(math.pi * progress))
        return self.peak * (self.min_ratio + (1.0 - self.min_ratio) * cosine)


def make_adamw(model: nn.Module, *, lr: float, betas: tuple[float, float], weight_decay: float) -> torch.optim.AdamW:
    """AdamW over the parameters that take a gradient; biases and norms (one-dimensional ones) are not decayed."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=lr, betas=betas, fused=True)
