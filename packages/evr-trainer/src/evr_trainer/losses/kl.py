"""Estimates of KL(policy || reference) from sampled tokens (Schulman 2020, "Approximating KL divergence")."""

from __future__ import annotations

from torch import Tensor

__all__ = ["KL_PENALTIES", "kl_penalty"]

KL_PENALTIES = ("kl", "abs", "mse", "low_var_kl")


def kl_penalty(log_probs: Tensor, ref_log_probs: Tensor, kind: str) -> Tensor:
    """Per-token penalty of the same shape as the log-probs.

    Args:
        log_probs: Of the sampled tokens under the policy.
        ref_log_probs: Under the reference.
        kind: ``kl`` (k1: the plain difference), ``abs`` (its size), ``mse`` (k2: half its square), ``low_var_kl``
            (k3: ``exp(d) - d - 1`` with ``d = ref - policy``, never negative).

    Raises:
        ValueError: For another kind.
    """
    difference = (log_probs - ref_log_probs).clamp(-20.0, 20.0)
    match kind:
        case "kl":
            return difference
        case "abs":
            return difference.abs()
        case "mse":
            return 0.5 * difference.square()
        case "low_var_kl":
            return (-difference).exp() + difference - 1.0
    raise ValueError(f"kl_penalty is {kind!r}; allowed: {', '.join(KL_PENALTIES)}")
