"""A small byte-level BPE with Qwen's special tokens."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_ANSWER_TAGS = ("<answer>", "</answer>")
# What is never cut before merging: a frame's time, the head of a grounding answer, a word, a number, a line end.
_PIECES = r'<\d+\.\d seconds>|\{"\w+": \[|\]\}| ?\p{L}+|\p{N}{1,2}|, | ?[^\s\p{L}\p{N}]+|\s+'
_CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja")


def build_tokenizer(corpus: Iterable[str], *, vocab_size: int) -> PreTrainedTokenizerFast:
    """Train the tokenizer on ``corpus``; the same corpus gives the same tokens.

    Each answer tag is one ordinary token, so that it survives decoding without special tokens.

    Raises:
        ValueError: ``vocab_size`` has no room for the 256 bytes and the special tokens.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    least = 256 + len(SPECIAL_TOKENS) + len(_ANSWER_TAGS)
    if vocab_size < least:
        raise ValueError(f"vocab_size={vocab_size}: at least {least} are needed for the bytes and the special tokens")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL_TOKENS) - len(_ANSWER_TAGS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer=trainer)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in _ANSWER_TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=list(SPECIAL_TOKENS),
        chat_template=_CHAT_TEMPLATE.read_text(encoding="utf-8"),
        padding_side="left",
        model_max_length=1024,
    )
