"""A small but complete training job: real clips, a tiny model, a configuration file, the evr command."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evr_apps.demo.corpus import demo_corpus
from evr_apps.demo.data import generate_demo_data
from evr_apps.demo.tiny_model import build_tiny_model

EVR = [str(Path(sys.executable).with_name("evr"))]

# A policy with random weights never writes an answer tag; this reward has spread from the first response on.
REWARD_FILE = """
def main(record):
    text = record["response"]
    return {"overall": sum(letter in "aeiou" for letter in text) / (len(text) + 1)}
"""


@dataclass(frozen=True)
class TrainJob:
    """A folder with records, media, an untrained model and a reward function."""

    folder: Path

    @property
    def records(self) -> Path:
        return self.folder / "data" / "train.jsonl"

    @property
    def media(self) -> Path:
        return self.folder / "data" / "media"

    def settings(self, run_dir: Path, **changes: Any) -> dict[str, Any]:
        """A configuration of four prompts a step with four responses, two workers; dotted keys change it."""
        settings: dict[str, Any] = {
            "data": {
                "train_files": str(self.records),
                "image_dir": str(self.media),
                "cache_dir": str(self.folder / "cache"),
                "prompt_key": "problem",
                "min_pixels": 1024,
                "max_pixels": 4096,
                "video_max_frames": 8,
                "max_prompt_length": 512,
                "max_response_length": 8,
                "rollout_batch_size": 4,
            },
            "algorithm": {"disable_kl": True},
            "worker": {
                "actor": {
                    "global_batch_size": 4,
                    "model": {"model_path": str(self.folder / "model"), "enable_gradient_checkpointing": False},
                    "optim": {"lr": 1e-3},
                    "fsdp": {"mp_param_dtype": "fp32"},
                    "max_token_len_per_gpu": 2048,
                },
                "rollout": {"name": "transformers", "n": 4, "dtype": "fp32", "tensor_parallel_size": 1},
                "reward": {"reward_function": f"{self.folder / 'reward.py'}:main"},
            },
            "trainer": {
                "max_steps": 2,
                "n_gpus_per_node": 2,
                "device": "cpu",
                "logger": ["console"],
                "val_before_train": False,
                "save_checkpoint_path": str(run_dir),
            },
        }
        for path, value in changes.items():
            _set(settings, path.split("."), value)
        return settings

    def write_config(self, name: str, run_dir: Path, **changes: Any) -> Path:
        """``settings`` as a YAML file."""
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(self.settings(run_dir, **changes)))
        return path


def build_job(folder: Path, *, num_train: int = 24) -> TrainJob:
    """Records of every task, with their clips, a model and the reward function."""
    data = generate_demo_data(folder / "data", seed=0, num_train=num_train, num_val=10, num_sft=10)
    build_tiny_model(folder / "model", seed=0, corpus=demo_corpus(data.train_file))
    (folder / "reward.py").write_text(REWARD_FILE)
    return TrainJob(folder)


def _set(settings: dict[str, Any], path: list[str], value: Any) -> None:
    *parents, last = path
    for key in parents:
        settings = settings.setdefault(key, {})
    settings[last] = value


def deterministic(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics that do not depend on the clock or on memory."""
    volatile = ("timing", "perf/", "media/")
    return {key: value for key, value in metrics.items() if not key.startswith(volatile)}
