"""A Qwen3-VL of about a million parameters with a tokenizer of its own: the policy of the demo and of many tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evr_apps.demo.tokenizer import build_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3VLConfig

VOCAB_SIZE = 512
# Wider than usual (0.02): at these widths pictures must weigh as much as text from the start, or they are learnt late.
_INIT_STD = 0.15
_PATCH = 16
_TEMPORAL_PATCH = 2
_MERGE = 2
_SMALLEST_PIXELS = 32 * 32
_LARGEST_PIXELS = 256 * 256


def build_tiny_model(out_dir: Path, *, seed: int, corpus: Iterable[str]) -> Path:
    """Save an untrained tiny Qwen3-VL in Hugging Face layout (model, tokenizer, processor, generation config).

    Args:
        out_dir: Folder to write to; made when missing.
        seed: Decides the weights: the same seed and corpus give the same files.
        corpus: Texts that the byte-level BPE is trained on (``demo_corpus`` for the demo's records).

    Returns:
        ``out_dir``.
    """
    import torch
    from transformers import GenerationConfig, Qwen3VLForConditionalGeneration

    tokenizer = build_tokenizer(corpus, vocab_size=VOCAB_SIZE)
    config = _config(tokenizer)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed: that would also seed the accelerators
        model = Qwen3VLForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    out_dir.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out_dir)
    _save_processor(out_dir, tokenizer)
    return out_dir


def _config(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLConfig:
    from transformers import Qwen3VLConfig

    token_ids: dict[str, int] = tokenizer.get_vocab()
    width = 128
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": width,
            "intermediate_size": 384,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 1024,
            "initializer_range": _INIT_STD,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "tie_word_embeddings": False,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 192,
            "num_heads": 2,
            "patch_size": _PATCH,
            "temporal_patch_size": _TEMPORAL_PATCH,
            "spatial_merge_size": _MERGE,
            "out_hidden_size": width,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
            "initializer_range": _INIT_STD,
        },
        image_token_id=token_ids["<|image_pad|>"],
        video_token_id=token_ids["<|video_pad|>"],
        vision_start_token_id=token_ids["<|vision_start|>"],
        vision_end_token_id=token_ids["<|vision_end|>"],
        tie_word_embeddings=False,
    )


def _save_processor(out_dir: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Image and video processor share mean and standard deviation: vLLM uses the image processor's for both."""
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    pixels = {"patch_size": _PATCH, "temporal_patch_size": _TEMPORAL_PATCH, "merge_size": _MERGE}
    normalise = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    size = {"shortest_edge": _SMALLEST_PIXELS, "longest_edge": _LARGEST_PIXELS}
    Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size, **pixels, **normalise),
        video_processor=Qwen3VLVideoProcessor(
            size={**size, "longest_edge": 16 * _LARGEST_PIXELS}, cap_pixels_per_frame=True, **pixels, **normalise
        ),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
    ).save_pretrained(out_dir)
