"""Export a checkpoint to a Hugging Face folder."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import torch

from evr_trainer.assets import quiet_transformers
from evr_trainer.checkpoint.sharded import load_full_weights

__all__ = ["export_hf"]

_log = logging.getLogger(__name__)


def export_hf(actor_dir: Path, model_path: str | Path, out_dir: Path) -> Path:
    """Write the weights of a checkpoint as a folder that transformers and vLLM load.

    Args:
        actor_dir: ``global_step_N/actor`` of a checkpoint.
        model_path: Model the run started from; gives configuration, tokenizer and processor.
        out_dir: Must not exist, or hold an earlier export, which is replaced as a whole.

    Returns:
        ``out_dir``.

    Raises:
        ValueError: When ``actor_dir`` holds no weights, or ``out_dir`` is something other than an earlier export.
        CheckpointException: From torch, when a parameter is missing in the checkpoint.
    """
    weights = actor_dir / "model"
    if not any(weights.glob("*.safetensors")):
        raise ValueError(f"{actor_dir} holds no weights (model/*.safetensors); give a global_step_N/actor folder")
    _refuse_other_folders(out_dir, Path(model_path))
    staging, old = (out_dir.with_name(f".{kind}-{out_dir.name}-{os.getpid()}") for kind in ("staging", "old"))
    shutil.rmtree(staging, ignore_errors=True)
    quiet_transformers()
    _write(weights, model_path, staging)
    if out_dir.exists():
        out_dir.rename(old)
    staging.rename(out_dir)
    shutil.rmtree(old, ignore_errors=True)
    return out_dir


def _refuse_other_folders(out_dir: Path, model_path: Path) -> None:
    if not out_dir.exists():
        return
    if model_path.exists() and out_dir.samefile(model_path):
        raise ValueError(f"{out_dir} is the model that the run started from; choose another folder for the export")
    if out_dir.is_dir() and (not any(out_dir.iterdir()) or (out_dir / "config.json").is_file()):
        return
    raise ValueError(f"{out_dir} exists and is no exported model; choose another folder or remove it")


def _write(weights: Path, model_path: str | Path, folder: Path) -> None:
    """Model, generation config and processor, in the type of the model that the run started from."""
    from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, GenerationConfig

    config = AutoConfig.from_pretrained(model_path, trust_remote_code=False)
    dtype = config.dtype  # from_config writes its own into the config
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    model.tie_weights()
    load_full_weights(model, weights)
    if dtype is not None:
        model.to(dtype)
    try:
        model.generation_config = GenerationConfig.from_pretrained(model_path)
    except OSError:
        _log.info("%s has no generation_config.json; the export gets the model's defaults", model_path)
    model.save_pretrained(folder)
    AutoProcessor.from_pretrained(model_path, trust_remote_code=False).save_pretrained(folder)
