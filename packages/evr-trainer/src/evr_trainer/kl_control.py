"""The weight of the KL penalty (Ziegler et al. 2019, arXiv:1909.08593, section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KLController"]


@dataclass
class KLController:
    """A fixed coefficient, or one steered towards a target divergence; ``coef`` is all the state there is."""

    coef: float
    adaptive: bool = False
    target: float = 0.1
    horizon: float = 10_000.0

    def update(self, kl: float, num_samples: int) -> None:
        """After a step with mean divergence ``kl`` over ``num_samples`` responses."""
        if self.adaptive:
            error = min(max(kl / self.target - 1.0, -0.2), 0.2)
            self.coef *= max(1.0 + error * num_samples / self.horizon, 0.0)
