"""Checkpoints that are complete or not there, and exports that transformers loads."""

from __future__ import annotations

from evr_trainer.checkpoint.export import export_hf
from evr_trainer.checkpoint.sharded import (
    load_full_weights,
    load_optimizer,
    load_weights,
    save_optimizer,
    save_weights,
)
from evr_trainer.checkpoint.store import Checkpoint, CheckpointError, CheckpointStore

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "export_hf",
    "load_full_weights",
    "load_optimizer",
    "load_weights",
    "save_optimizer",
    "save_weights",
]
