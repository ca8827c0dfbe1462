"""How per-token losses become one number, the same for any split into micro-batches and ranks."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["token_weights"]


def token_weights(response_lengths: Tensor, mode: str, *, total_tokens: int, total_responses: int) -> Tensor:
    """The weight of every token of these responses in the mean over the whole batch.

    Summing ``weight * loss`` over all micro-batches and ranks gives the batch's mean, so accumulation over any split
    equals one big batch.

    Args:
        response_lengths: Lengths of the responses whose tokens are laid one after another. [S]
        mode: ``token``: every token of the batch weighs the same; ``seq``: every response weighs the same, and its
            tokens share that weight.
        total_tokens: Response tokens of the whole batch, over all ranks.
        total_responses: Non-empty responses of the whole batch, over all ranks.

    Returns:
        Weights in the order of the tokens. [sum of response_lengths]

    Raises:
        ValueError: For another mode.
    """
    if mode == "token":
        return torch.full((int(response_lengths.sum()),), 1.0 / max(total_tokens, 1), device=response_lengths.device)
    if mode == "seq":
        per_response = 1.0 / (response_lengths.clamp(min=1).float() * max(total_responses, 1))
        return per_response.repeat_interleave(response_lengths)
    raise ValueError(f"loss_avg_mode is {mode!r}; allowed: token, seq")
