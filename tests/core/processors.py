"""Processors of transformers over a byte-level tokenizer that is built here, without any download."""

from __future__ import annotations

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]


def tiny_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {token: i for i, token in enumerate(sorted(alphabet))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.add_special_tokens({"additional_special_tokens": SPECIAL})
    return fast


def processor_for(family):
    """Return the processor of a family: "qwen2_vl", "qwen2_5_vl" or "qwen3_vl"."""
    import transformers as hf

    kinds = {
        "qwen2_vl": (hf.Qwen2VLProcessor, hf.Qwen2VLVideoProcessor, 14),
        "qwen2_5_vl": (hf.Qwen2_5_VLProcessor, hf.Qwen2VLVideoProcessor, 14),
        "qwen3_vl": (hf.Qwen3VLProcessor, hf.Qwen3VLVideoProcessor, 16),
    }
    processor, video_processor, patch = kinds[family]
    return processor(
        image_processor=hf.Qwen2VLImageProcessor(patch_size=patch, merge_size=2),
        tokenizer=tiny_tokenizer(),
        video_processor=video_processor(),
    )
