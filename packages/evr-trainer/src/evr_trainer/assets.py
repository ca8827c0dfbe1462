"""What of a model the driver needs: tokenizer and geometry, no weights."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evr_core import ModelGeometry, geometry_for

__all__ = ["ModelAssets", "load_assets", "quiet_transformers", "resolve_device", "threads_per_worker"]


@dataclass(frozen=True)
class ModelAssets:
    """Tokenizer and patch geometry of a model."""

    tokenizer: Any
    geometry: ModelGeometry


def load_assets(model_path: str, tokenizer_path: str, *, chat_template: Path | None = None) -> ModelAssets:
    """Read them from a folder or hub id; ``chat_template`` replaces the tokenizer's own."""
    from transformers import AutoConfig, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_path, trust_remote_code=False)
    if chat_template is not None:
        tokenizer.chat_template = chat_template.read_text()
    return ModelAssets(tokenizer, geometry_for(AutoConfig.from_pretrained(model_path, trust_remote_code=False)))


def quiet_transformers() -> None:
    """No progress bars of transformers in this process: they would break up ours."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()


def resolve_device(device: str, num_workers: int) -> str:
    """``auto`` becomes ``cuda`` where there is one, else ``cpu``.

    Raises:
        ValueError: ``cuda`` is asked for on a machine without.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "trainer.device=cuda, but torch sees no CUDA device; set trainer.device=cpu or install a driver"
        )
    if device == "cuda" and torch.cuda.device_count() < num_workers:
        raise ValueError(
            f"{num_workers} workers, but only {torch.cuda.device_count()} CUDA devices here; every worker takes one"
        )
    return device


def threads_per_worker(num_workers: int) -> int:
    """CPU threads of each worker, so that all together use every core once."""
    return max(len(os.sched_getaffinity(0)) // num_workers, 1)
