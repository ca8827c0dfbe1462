"""The sizes of a model that memory depends on, read from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evr_core.families import read_config


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a vision-language model.

    Attributes:
        layers: Decoder layers.
        attention_layers: Decoder layers that keep keys and values for every token (fewer in hybrid models).
        hidden_size: Width of the decoder.
        heads: Query heads.
        kv_heads: Key-value heads.
        head_dim: Width of a head.
        ffn_size: Inner width of the feed-forward part that one token passes through.
        vocab_size: Tokens of the vocabulary.
        parameters: All parameters, vision tower included; computed from the sizes, good to about 2 per cent.
    """

    layers: int
    attention_layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    parameters: int


def model_shape(model: str | Path | Mapping[str, Any] | object) -> ModelShape:
    """Read the sizes from a folder with ``config.json``, a mapping, or a configuration object of transformers.

    Raises:
        FileNotFoundError: The folder holds no ``config.json``.
        ValueError: The configuration lacks a size.
    """
    config = read_config(model)
    text = config.get("text_config") or config
    hidden, heads = _size(text, "hidden_size"), _size(text, "num_attention_heads")
    layers = _size(text, "num_hidden_layers")
    kinds = text.get("layer_types") or []
    head_dim = text.get("head_dim") or hidden // heads
    kv_heads = text.get("num_key_value_heads") or heads
    experts = text.get("num_experts") or text.get("num_local_experts") or 0
    ffn = _size(text, "moe_intermediate_size" if experts else "intermediate_size")
    vocab = _size(text, "vocab_size")
    attention = 2 * hidden * head_dim * (heads + kv_heads)
    layer = attention + 3 * hidden * ffn * max(experts, 1)
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))
    embeddings = vocab * hidden * (1 if tied else 2)
    return ModelShape(
        layers=layers,
        attention_layers=sum(kind != "linear_attention" for kind in kinds) if kinds else layers,
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn_size=ffn * (text.get("num_experts_per_tok") or 1 if experts else 1),
        vocab_size=vocab,
        parameters=layers * layer + embeddings + _vision_parameters(config.get("vision_config") or {}),
    )


def _size(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"model configuration: {key} is {value!r}; expected a positive whole number")
    return value


def _vision_parameters(vision: Mapping[str, Any]) -> int:
    """Attention and feed-forward matrices of the blocks, patch embedding, and the mergers."""
    depth = vision.get("depth", 0)
    if not depth:
        return 0
    # Qwen2-VL calls the tower's width embed_dim, and its hidden_size is the width of the decoder.
    width = vision.get("embed_dim") or _size(vision, "hidden_size")
    inner = vision.get("intermediate_size") or int(width * vision.get("mlp_ratio", 4))
    gates = 3 if vision.get("model_type", "").startswith("qwen2_5") else 2
    patch = 3 * vision.get("temporal_patch_size", 2) * vision.get("patch_size", 16) ** 2 * width
    merged = width * vision.get("spatial_merge_size", 2) ** 2
    out = vision.get("out_hidden_size") or _size(vision, "hidden_size")
    mergers = 1 + len(vision.get("deepstack_visual_indexes") or [])
    positions = vision.get("num_position_embeddings", 0) * width
    return int(depth * (4 * width**2 + gates * width * inner) + patch + positions + mergers * merged * (merged + out))
