"""Every default that the specification names, and what is derived from the values."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from evr_core import VideoBudget
from evr_trainer.config import SftConfig, TrainConfig, config_schema_rows, load_config

SPECIFIED = {
    "data.train_files": "",
    "data.val_files": "",
    "data.prompt_key": "prompt",
    "data.answer_key": "answer",
    "data.image_key": "images",
    "data.video_key": "videos",
    "data.image_dir": None,
    "data.video_fps": 2.0,
    "data.video_max_frames": 128,
    "data.max_prompt_length": 512,
    "data.max_response_length": 512,
    "data.rollout_batch_size": 512,
    "data.mini_rollout_batch_size": None,
    "data.val_batch_size": -1,
    "data.format_prompt": None,
    "data.override_chat_template": None,
    "data.shuffle": True,
    "data.seed": 1,
    "data.min_pixels": 262144,
    "data.max_pixels": 4194304,
    "data.image_min_pixels": None,
    "data.image_max_pixels": None,
    "data.video_min_pixels": None,
    "data.video_max_pixels": None,
    "data.video_total_pixels": None,
    "data.val_video_fps": None,
    "data.val_video_max_frames": None,
    "data.val_video_min_pixels": None,
    "data.val_video_max_pixels": None,
    "data.val_video_total_pixels": None,
    "data.filter_overlong_prompts": True,
    "data.filter_overlong_prompts_workers": 16,
    "data.use_preprocessed_videos": None,
    "data.video_source_mode": "prefer_preprocessed",
    "data.preprocessed_video_dir": None,
    "data.skip_bad_records": False,
    "algorithm.adv_estimator": "grpo",
    "algorithm.gamma": 1.0,
    "algorithm.lam": 1.0,
    "algorithm.gdpo_reward_keys": ("accuracy", "format"),
    "algorithm.disable_kl": False,
    "algorithm.use_kl_loss": False,
    "algorithm.kl_penalty": "kl",
    "algorithm.kl_coef": 1e-3,
    "algorithm.kl_type": "fixed",
    "algorithm.kl_horizon": 10000.0,
    "algorithm.kl_target": 0.1,
    "algorithm.online_filtering": False,
    "algorithm.filter_key": "overall",
    "algorithm.filter_low": 0.01,
    "algorithm.filter_high": 0.99,
    "worker.actor.strategy": "fsdp",
    "worker.actor.global_batch_size": 256,
    "worker.actor.micro_batch_size_per_device_for_update": 4,
    "worker.actor.micro_batch_size_per_device_for_experience": 16,
    "worker.actor.max_grad_norm": 1.0,
    "worker.actor.clip_ratio_low": 0.2,
    "worker.actor.clip_ratio_high": 0.3,
    "worker.actor.clip_ratio_dual": 3.0,
    "worker.actor.loss_type": "default",
    "worker.actor.loss_avg_mode": "token",
    "worker.actor.ppo_epochs": 1,
    "worker.actor.padding_free": None,
    "worker.actor.dynamic_batching": True,
    "worker.actor.max_token_len_per_gpu": None,
    "worker.actor.ulysses_size": 1,
    "worker.actor.use_torch_compile": True,
    "worker.actor.model.model_path": "",
    "worker.actor.model.tokenizer_path": "",
    "worker.actor.model.override_config": {},
    "worker.actor.model.enable_gradient_checkpointing": True,
    "worker.actor.model.trust_remote_code": False,
    "worker.actor.model.freeze_vision_tower": False,
    "worker.actor.optim.lr": 1e-6,
    "worker.actor.optim.betas": (0.9, 0.999),
    "worker.actor.optim.weight_decay": 1e-2,
    "worker.actor.optim.strategy": "adamw",
    "worker.actor.optim.lr_warmup_ratio": 0.0,
    "worker.actor.optim.lr_warmup_steps": None,
    "worker.actor.optim.min_lr_ratio": None,
    "worker.actor.optim.lr_scheduler_type": "constant",
    "worker.actor.fsdp.enable_full_shard": True,
    "worker.actor.fsdp.enable_cpu_offload": False,
    "worker.actor.fsdp.enable_rank0_init": True,
    "worker.actor.fsdp.fsdp_size": -1,
    "worker.actor.fsdp.mp_param_dtype": "bf16",
    "worker.actor.fsdp.mp_reduce_dtype": "fp32",
    "worker.actor.fsdp.mp_buffer_dtype": "fp32",
    "worker.actor.fsdp.torch_dtype": None,
    "worker.actor.offload.offload_params": False,
    "worker.actor.offload.offload_optimizer": False,
    "worker.ref.strategy": "fsdp",
    "worker.ref.fsdp.enable_full_shard": True,
    "worker.ref.offload.offload_params": False,
    "worker.critic.cliprange_value": 0.5,
    "worker.critic.global_batch_size": 256,
    "worker.critic.optim.lr": 1e-6,
    "worker.reward.reward_function": "",
    "worker.reward.reward_function_kwargs": {},
    "worker.reward.skip_special_tokens": True,
    "worker.reward.num_cpus": 1,
    "worker.reward.accuracy_weight": 0.9,
    "worker.reward.format_weight": 0.1,
    "worker.rollout.name": "vllm",
    "worker.rollout.n": 1,
    "worker.rollout.temperature": 1.0,
    "worker.rollout.top_p": 1.0,
    "worker.rollout.top_k": -1,
    "worker.rollout.seed": 1,
    "worker.rollout.limit_images": 0,
    "worker.rollout.dtype": "bf16",
    "worker.rollout.gpu_memory_utilization": 0.6,
    "worker.rollout.ignore_eos": False,
    "worker.rollout.enforce_eager": False,
    "worker.rollout.enable_chunked_prefill": False,
    "worker.rollout.tensor_parallel_size": 2,
    "worker.rollout.max_model_len": None,
    "worker.rollout.max_num_batched_tokens": 8192,
    "worker.rollout.val_override_config.n": 1,
    "worker.rollout.val_override_config.temperature": None,
    "worker.rollout.enable_mix_policy": False,
    "worker.rollout.mix_policy_accuracy_threshold": None,
    "trainer.total_epochs": 15,
    "trainer.max_steps": None,
    "trainer.logger": ("console", "wandb"),
    "trainer.nnodes": 1,
    "trainer.n_gpus_per_node": 8,
    "trainer.device": "auto",
    "trainer.ray_address": None,
    "trainer.collective_timeout_s": 600.0,
    "trainer.max_try_make_batch": 20,
    "trainer.critic_warmup": 0,
    "trainer.val_freq": -1,
    "trainer.val_before_train": True,
    "trainer.val_only": False,
    "trainer.val_generations_to_log": 0,
    "trainer.save_freq": -1,
    "trainer.save_limit": -1,
    "trainer.save_model_only": False,
    "trainer.save_checkpoint_path": None,
    "trainer.load_checkpoint_path": None,
    "trainer.find_last_checkpoint": True,
    "trainer.ray_timeline": None,
}


@pytest.mark.parametrize("path", SPECIFIED)
def test_default(path: str) -> None:
    rows = {row.path: row for row in config_schema_rows()}
    assert rows[path].default == SPECIFIED[path]
    value: object = TrainConfig()
    for name in path.split("."):
        value = getattr(value, name)
    assert value == SPECIFIED[path]


@pytest.mark.parametrize("root", [TrainConfig, SftConfig])
def test_every_key_has_a_type_in_plain_words_and_a_description(root: type[TrainConfig] | type[SftConfig]) -> None:
    for row in config_schema_rows(root):
        assert row.description.endswith("."), row.path
        plain = ("text", "path", "number", "whole number", "true or false", "one of ", "list of ", "mapping")
        assert row.type.startswith(plain), f"{row.path}: {row.type}"


def test_choices_are_those_of_the_specification() -> None:
    types = {row.path: row.type for row in config_schema_rows()}
    assert types["algorithm.adv_estimator"] == "one of gae, grpo, grpo_passk, gdpo, reinforce_plus_plus, remax, rloo"
    assert types["algorithm.kl_penalty"] == "one of kl, abs, mse, low_var_kl, full"
    assert types["worker.actor.loss_type"] == "one of default, gspo, gspo_token, cispo"
    assert types["worker.rollout.name"] == "one of vllm, transformers"
    assert types["trainer.logger"] == "list of one of console, file, tensorboard, wandb, swanlab, mlflow"


def test_a_configuration_cannot_be_changed() -> None:
    config = TrainConfig()
    with pytest.raises(ValidationError):
        config.data.seed = 2  # type: ignore[misc]


def test_pixels_and_validation_settings_inherit() -> None:
    config = load_config(
        None,
        ["data.min_pixels=1000", "data.max_pixels=9000", "data.video_max_pixels=8000", "data.val_video_max_frames=2"],
    )
    assert config.data.image_pixels == (1000, 9000)
    train = config.data.video_budget()
    assert (train.min_pixels, train.max_pixels, train.max_frames, train.fps) == (1000, 8000, 128, 2.0)
    assert train.total_pixels == VideoBudget().total_pixels
    val = config.data.val_video_budget()
    assert (val.min_pixels, val.max_pixels, val.max_frames, val.min_frames) == (1000, 8000, 2, 2)


def test_validation_settings_of_their_own() -> None:
    config = load_config(
        None,
        [
            "data.val_video_fps=1",
            "data.val_video_min_pixels=11",
            "data.val_video_max_pixels=12",
            "data.val_video_total_pixels=13",
            "data.video_total_pixels=14",
        ],
    )
    val = config.data.val_video_budget()
    assert (val.fps, val.min_pixels, val.max_pixels, val.total_pixels) == (1.0, 11, 12, 13)
    assert config.data.video_budget().total_pixels == 14


def test_derived_values() -> None:
    config = load_config(
        None, ["trainer.nnodes=2", "trainer.n_gpus_per_node=4", "trainer.project_name=p", "trainer.experiment_name=e"]
    )
    assert config.trainer.n_workers == 8
    assert config.trainer.checkpoint_dir == Path("checkpoints/p/e")
    assert config.trainer.log_dir == Path("checkpoints/p/e")
    assert config.max_sequence_length == config.max_model_len == 1024
    assert config.update_token_budget == 4 * 1024
    assert config.experience_token_budget == 16 * 1024
    assert config.worker.actor.optim.warmup_steps(100) == 0


def test_warmup_steps_come_before_the_ratio() -> None:
    ratio = load_config(None, ["worker.actor.optim.lr_warmup_ratio=0.1"]).worker.actor.optim
    steps = load_config(None, ["worker.actor.optim.lr_warmup_steps=3"]).worker.actor.optim
    assert ratio.warmup_steps(50) == 5
    assert steps.warmup_steps(50) == 3
