"""Group-relative policy optimisation (Shao et al. 2024, arXiv:2402.03300, section 4.1.2)."""

from __future__ import annotations

from torch import Tensor

__all__ = ["grpo_advantages"]


def grpo_advantages(rewards: Tensor, *, eps: float = 1e-6) -> Tensor:
    """How much better each response is than its group, in standard deviations of the group.

    Args:
        rewards: Score of each response. [G, n]
        eps: Added to the standard deviation.

    Returns:
        ``(rewards - mean) / (std + eps)`` per group, with the unbiased standard deviation (n - 1), which the
        reference implementations use; zero for a group without spread. [G, n]

    Raises:
        ValueError: With fewer than two responses a group has no spread to compare with.
    """
    if rewards.shape[-1] < 2:
        raise ValueError(f"grpo compares the responses of a group: rollout.n is {rewards.shape[-1]}, at least 2 needed")
    centred = rewards - rewards.mean(dim=-1, keepdim=True)
    return centred / (rewards.std(dim=-1, keepdim=True) + eps)
