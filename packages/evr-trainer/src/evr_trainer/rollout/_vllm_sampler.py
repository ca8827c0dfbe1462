"""Log-probabilities of vLLM from before top-p and top-k."""

from __future__ import annotations

from typing import Any

import torch


def keep_log_probs_before_truncation(worker: Any) -> None:
    """Make a vLLM worker report log-probs of the distribution that top-p and top-k have not yet cut.

    vLLM offers log-probs before temperature and logit bias, or after truncation; the policy's own log-probs lie
    between the two. Without truncation vLLM's are right and stay; with it they are taken from the logits that enter
    the truncation. vLLM picks the sampler's ``forward`` per instance itself; this wraps what it picked.
    """
    sampler = worker.model_runner.sampler.topk_topp_sampler
    chosen = sampler.forward

    def forward(
        logits: torch.Tensor, generators: dict[int, torch.Generator], k: torch.Tensor | None, p: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if k is None and p is None:
            tokens, log_probs = chosen(logits, generators, k, p)
            return tokens, log_probs
        before = logits.log_softmax(dim=-1, dtype=torch.float32)
        tokens, _ = chosen(logits, generators, k, p)
        return tokens, before

    sampler.forward = forward
