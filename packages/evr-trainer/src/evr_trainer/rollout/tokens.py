"""Tokens that end a response, and tokens that no response may hold."""

from __future__ import annotations

from typing import Any

FORBIDDEN_TOKENS = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>")


def forbidden_token_ids(tokenizer: Any) -> tuple[int, ...]:
    """Ids of the visual placeholder tokens that ``tokenizer`` knows, ascending.

    A sampled placeholder would count as one more visual token without a feature, and the next forward pass over the
    response would fail or, worse, shift features; so they can never be sampled.
    """
    vocabulary = tokenizer.get_vocab()
    return tuple(sorted(vocabulary[token] for token in FORBIDDEN_TOKENS if token in vocabulary))


def end_token_ids(generation_config: Any, tokenizer: Any) -> tuple[int, ...]:
    """Ids that end a response, ascending: the tokenizer's and those of the generation configuration.

    Raises:
        ValueError: Neither names one.
    """
    configured = getattr(generation_config, "eos_token_id", None)
    ids = set(configured if isinstance(configured, list | tuple) else [configured]) | {tokenizer.eos_token_id}
    ids.discard(None)
    if not ids:
        raise ValueError("neither the tokenizer nor generation_config.json names an end-of-sequence token; set one")
    return tuple(sorted(int(token) for token in ids))
