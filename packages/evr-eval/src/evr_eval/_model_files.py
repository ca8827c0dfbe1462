"""What every engine needs to know of a model folder and a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def resolve_device(device: str) -> str:
    """The device that "auto" stands for here.

    Raises:
        ValueError: CUDA is asked for where there is none.
    """
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device {device!r}: no CUDA device here; use 'cpu' or 'auto'")
    return device


def engine_fingerprint(name: str, device: str, dtype: str) -> dict[str, str]:
    """The fingerprint of an engine with these arguments, without making one."""
    if dtype == "auto":
        dtype = "bfloat16" if resolve_device(device).startswith("cuda") else "float32"
    return {"name": name, "dtype": dtype}


def end_token_ids(model_path: Path, tokenizer: Any) -> tuple[int, ...]:
    """Tokens that end a response: those of ``generation_config.json``, else the tokenizer's.

    Raises:
        ValueError: Neither names one.
    """
    from transformers import GenerationConfig

    configured = None
    if (model_path / "generation_config.json").is_file():
        configured = GenerationConfig.from_pretrained(str(model_path), local_files_only=True).eos_token_id
    if configured is None:
        configured = tokenizer.eos_token_id
    if configured is None:
        raise ValueError(f"{model_path} names no end-of-sequence token (generation_config.json or tokenizer)")
    return tuple(configured) if isinstance(configured, list | tuple) else (int(configured),)
