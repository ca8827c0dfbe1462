"""The demo's recipe as settings of the trainer and of the evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evr_apps.demo.recipe import Recipe
from evr_apps.demo.shapes import NUM_FRAMES, SIDE

if TYPE_CHECKING:
    from evr_core import VideoBudget
    from evr_eval import EvalConfig
    from evr_trainer.config import SftConfig, TrainConfig

PIXELS = SIDE * SIDE  # clips and pictures keep their size
_FPS = 2.0
_PROMPT = Path(__file__).with_name("prompt.jinja")


def video_budget() -> VideoBudget:
    """What every stage of the demo spends on a clip: all of its frames, at their size."""
    from evr_core import VideoBudget

    return VideoBudget(fps=_FPS, max_frames=NUM_FRAMES, min_pixels=PIXELS, max_pixels=PIXELS)


def sft_config(
    recipe: Recipe, *, seed: int, records: Path, media_dir: Path, cache_dir: Path, model_dir: Path, output_dir: Path
) -> SftConfig:
    """Settings of the supervised warm-up."""
    from evr_trainer.config import SftConfig

    return SftConfig.model_validate(
        {
            "data": _data_settings(recipe, seed, cache_dir, media_dir) | {"train_files": str(records)},
            "model": {"model_path": str(model_dir), "enable_gradient_checkpointing": False},
            "optim": {
                "lr": recipe.sft_lr,
                "betas": [0.9, 0.95],
                "weight_decay": 0.0,
                "lr_scheduler_type": "cosine",
                "lr_warmup_steps": min(20, recipe.sft_steps // 4),
            },
            "fsdp": {"mp_param_dtype": "fp32", "torch_dtype": "fp32"},
            "trainer": {
                "output_dir": str(output_dir),
                "max_steps": recipe.sft_steps,
                "batch_size": recipe.sft_batch_size,
                "max_token_len_per_gpu": 16_384,
                "n_workers": recipe.workers,
                "device": "cpu",
                "seed": seed,
                "logger": ["file"],
                "log_freq": 1,
                "save_freq": 100,
                "save_limit": 1,
            },
        }
    )


def train_settings(
    recipe: Recipe, *, seed: int, rollout: str, train_file: Path, val_file: Path, media_dir: Path, cache_dir: Path,
    model_dir: Path, run_dir: Path,
) -> dict[str, Any]:  # fmt: skip
    """Settings of the reinforcement-learning stage, as a YAML file would hold them."""
    return {
        "data": _data_settings(recipe, seed, cache_dir, media_dir) | {
            "train_files": str(train_file),
            "val_files": str(val_file),
            "rollout_batch_size": recipe.rl_batch_size,
        },
        "worker": {
            "actor": {
                "global_batch_size": recipe.rl_batch_size,
                "model": {"model_path": str(model_dir), "enable_gradient_checkpointing": False},
                "optim": {"lr": recipe.rl_lr, "betas": [0.9, 0.95], "weight_decay": 0.0},
                "fsdp": {"mp_param_dtype": "fp32", "torch_dtype": "fp32"},
                "offload": {"offload_params": False, "offload_optimizer": False},
                "max_token_len_per_gpu": 16_384,
            },
            "rollout": {
                "name": rollout,
                "n": recipe.group_size,
                "temperature": recipe.temperature,
                "seed": seed,
                "dtype": "fp32",
                "enforce_eager": True,
                "tensor_parallel_size": 1,
                "val_override_config": {"temperature": 0.0, "n": 1},
            },
        },
        "trainer": {
            "max_steps": recipe.rl_steps,
            "n_gpus_per_node": recipe.workers,
            "device": "cpu",
            "seed": seed,
            "logger": ["file", "tensorboard"],
            "val_freq": recipe.val_freq,
            "val_before_train": False,
            "save_freq": recipe.save_freq,
            "save_limit": 2,
            "save_checkpoint_path": str(run_dir),
        },
        "algorithm": {"adv_estimator": "grpo", "disable_kl": True},
    }  # fmt: skip


def train_config(settings: dict[str, Any]) -> TrainConfig:
    """The checked configuration of these settings.

    Raises:
        ConfigError: They do not fit together.
    """
    from evr_trainer.config import TrainConfig, require_valid

    config = TrainConfig.model_validate(settings)
    require_valid(config)
    return config


def eval_config(
    recipe: Recipe, *, seed: int, records: Path, media_dir: Path, cache_dir: Path, model_dir: Path, output_dir: Path
) -> EvalConfig:
    """Greedy answers to the held-out records."""
    from evr_eval import EvalConfig

    return EvalConfig(
        model_path=model_dir,
        output_dir=output_dir,
        records=records,
        media_dir=media_dir,
        cache_dir=cache_dir,
        format_prompt=_PROMPT,
        fps=_FPS,
        max_frames=NUM_FRAMES,
        min_pixels=PIXELS,
        max_pixels=PIXELS,
        image_min_pixels=PIXELS,
        image_max_pixels=PIXELS,
        max_tokens=recipe.max_response_length,
        seed=seed,
        dtype="float32",
        device="cpu",
    )


def _data_settings(recipe: Recipe, seed: int, cache_dir: Path, media_dir: Path) -> dict[str, Any]:
    return {
        "prompt_key": "problem",
        "format_prompt": str(_PROMPT),
        "image_dir": str(media_dir),
        "cache_dir": str(cache_dir),
        "seed": seed,
        "max_prompt_length": recipe.max_prompt_length,
        "max_response_length": recipe.max_response_length,
        "video_fps": _FPS,
        "video_max_frames": NUM_FRAMES,
        "min_pixels": PIXELS,
        "max_pixels": PIXELS,
        "filter_overlong_prompts_workers": 1,
    }
