"""Export a checkpoint to a Hugging Face folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch

from evr_trainer.assets import quiet_transformers
from evr_trainer.checkpoint.sharded import load_full_weights

__all__ = ["export_hf"]


def export_hf(actor_dir: Path, model_path: str | Path, out_dir: Path) -> Path:
    """Write the weights of a checkpoint as a folder that transformers and vLLM load.

    Args:
        actor_dir: ``global_step_N/actor`` of a checkpoint.
        model_path: Model the run started from; gives configuration, tokenizer and processor.
        out_dir: Must not exist, or hold an earlier export, which is replaced as a whole.

    Returns:
        ``out_dir``.

    Raises:
        ValueError: When ``actor_dir`` holds no weights, or ``out_dir`` is a folder that is not a model.
        CheckpointException: From torch, when a parameter is missing in the checkpoint.
    """
    from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor

    weights = actor_dir / "model"
    if not any(weights.glob("*.safetensors")):
        raise ValueError(f"{actor_dir} holds no weights (model/*.safetensors); give a global_step_N/actor folder")
    if out_dir.exists() and any(out_dir.iterdir()) and not (out_dir / "config.json").is_file():
        raise ValueError(f"{out_dir} exists and is no exported model; choose another folder or remove it")
    config = AutoConfig.from_pretrained(model_path, trust_remote_code=False)
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    model.tie_weights()
    load_full_weights(model, weights)
    if config.dtype is not None:
        model.to(config.dtype)
    staging = out_dir.with_name(f".staging-{out_dir.name}-{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    quiet_transformers()
    model.save_pretrained(staging)
    AutoProcessor.from_pretrained(model_path, trust_remote_code=False).save_pretrained(staging)
    if out_dir.exists():
        shutil.rmtree(out_dir)
    staging.rename(out_dir)
    return out_dir
