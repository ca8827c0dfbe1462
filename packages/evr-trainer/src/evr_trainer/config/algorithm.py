"""The ``algorithm`` section: advantages, KL control, filtering of groups."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ._base import NonNegativeFloat, PositiveFloat, Rate, Section

AdvEstimator = Literal["gae", "grpo", "grpo_passk", "gdpo", "reinforce_plus_plus", "remax", "rloo"]


class AlgorithmConfig(Section):
    """How rewards become advantages, and how the policy is held near its reference."""

    adv_estimator: AdvEstimator = "grpo"
    """Advantage estimator."""
    eps: PositiveFloat = 1e-6
    """Added to the standard deviation of a group's rewards before dividing by it."""
    gamma: Rate = 1.0
    """Discount factor (gae, reinforce_plus_plus)."""
    lam: Rate = 1.0
    """Lambda of generalised advantage estimation (gae)."""
    gdpo_reward_keys: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = ("accuracy", "format")
    """Metrics of the reward function that gdpo normalises separately."""
    disable_kl: bool = False
    """Train without a reference model."""
    use_kl_loss: bool = False
    """Add the KL divergence to the loss instead of subtracting it from the reward."""
    kl_penalty: Literal["kl", "abs", "mse", "low_var_kl", "full"] = "kl"
    """Estimator of the KL divergence per token."""
    kl_coef: NonNegativeFloat = 1e-3
    """Weight of the KL divergence."""
    kl_type: Literal["fixed", "adaptive"] = "fixed"
    """Whether kl_coef stays or is steered towards kl_target."""
    kl_horizon: PositiveFloat = 10_000.0
    """Samples over which the adaptive controller reacts."""
    kl_target: PositiveFloat = 0.1
    """KL divergence that the adaptive controller aims at."""
    online_filtering: bool = False
    """Leave out groups whose mean of filter_key is not strictly between filter_low and filter_high."""
    filter_key: str = "overall"
    """Metric of the reward function that decides about a group."""
    filter_low: float = 0.01
    """Groups whose mean is at or below it are left out."""
    filter_high: float = 0.99
    """Groups whose mean is at or above it are left out."""

    @property
    def uses_reference(self) -> bool:
        """Whether a reference model is loaded: KL is on in one of its two forms."""
        return not self.disable_kl
