"""The example files, and files in the predecessor's shape."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from evr_trainer.config import check_config, load_config

CONFIGS = Path(__file__).parents[2] / "apps" / "configs"


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    for name in ("train.jsonl", "val.jsonl"):
        (tmp_path / name).write_text("")
    return [f"data.train_files={tmp_path}/train.jsonl", f"data.val_files={tmp_path}/val.jsonl"]


@pytest.mark.parametrize("name", ["video_rl", "unified_rl"])
def test_examples_are_right(name: str, paths: list[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="evr_trainer"):
        config = load_config(CONFIGS / f"{name}.yaml", paths)
    assert check_config(config, media=("video", "image")) == []
    assert not caplog.records
    assert config.trainer.n_workers == 8


@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_the_demo_is_right(engine: str, paths: list[str], caplog: pytest.LogCaptureFixture) -> None:
    model = "worker.actor.model.model_path=owner/qwen3-vl-tiny"
    with caplog.at_level(logging.WARNING, logger="evr_trainer"):
        config = load_config(CONFIGS / "demo.yaml", [*paths, model, f"worker.rollout.name={engine}"])
    assert check_config(config, media=("video", "image")) == []
    assert not caplog.records
    assert (config.trainer.device, config.trainer.n_workers) == ("cpu", 2)


PREDECESSOR_VIDEO = """
data: {train_files: /t.jsonl, val_files: /v.json, prompt_key: problem, answer_key: answer, image_key: images,
  video_key: videos, use_preprocessed_videos: true, video_source_mode: prefer_preprocessed,
  preprocessed_video_dir: /p, image_dir: null, video_fps: 2.0, video_max_frames: 128, max_prompt_length: 20000,
  max_response_length: 4096, rollout_batch_size: 256, mini_rollout_batch_size: null, val_batch_size: 64,
  format_prompt: "a/b.jinja", override_chat_template: null, shuffle: false, seed: 42, min_pixels: 3136,
  max_pixels: 262144, image_max_pixels: 1048576, video_max_pixels: 262144, filter_overlong_prompts: false}
algorithm: {adv_estimator: grpo, disable_kl: true, use_kl_loss: false, kl_penalty: low_var_kl, kl_coef: 1.0e-2,
  online_filtering: false, filter_key: overall, filter_low: 0.01, filter_high: 0.99}
worker:
  actor:
    {global_batch_size: 256, micro_batch_size_per_device_for_update: 1, micro_batch_size_per_device_for_experience: 1,
    max_grad_norm: 1.0, padding_free: true, dynamic_batching: true, max_token_len_per_gpu: 24096, ulysses_size: 1,
    model: {model_path: Qwen/Qwen3-VL-8B-Instruct, enable_gradient_checkpointing: true, trust_remote_code: false,
      freeze_vision_tower: false},
    optim: {lr: 1.0e-6, weight_decay: 1.0e-2, strategy: adamw, lr_warmup_ratio: 0.0},
    fsdp: {enable_full_shard: true, enable_cpu_offload: false, enable_rank0_init: true},
    offload: {offload_params: false, offload_optimizer: false}}
  rollout: {n: 8, temperature: 1.0, top_p: 1.0, limit_images: 5, gpu_memory_utilization: 0.8, enforce_eager: false,
    enable_chunked_prefill: false, tensor_parallel_size: 2, max_num_batched_tokens: 25000, disable_tqdm: true,
    enable_mix_policy: false,
    val_override_config: {temperature: 0.7, top_p: 0.8, top_k: 20, repetition_penalty: 1.0,
      presence_penalty: 1.5, n: 1}}
  ref: {fsdp: {enable_full_shard: true, enable_cpu_offload: false, enable_rank0_init: true},
    offload: {offload_params: false}}
  reward: {reward_function: "a/b.py:compute_score"}
trainer: {total_epochs: 10, max_steps: null, project_name: video_rl, experiment_name: "x", logger: ["file","wandb"],
  nnodes: 1, n_gpus_per_node: 8, max_try_make_batch: 20, val_freq: 10, val_before_train: true, val_only: false,
  val_generations_to_log: 100000000, save_freq: 20, save_limit: 10, save_model_only: false,
  save_checkpoint_path: null, load_checkpoint_path: null, find_last_checkpoint: false}
"""


def test_files_of_the_predecessor_load_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "video_rl.yaml"
    file.write_text(PREDECESSOR_VIDEO)
    config = load_config(file)
    assert config.worker.actor.optim.lr == 1e-6
    assert config.worker.rollout.val_override_config.top_k == 20
    assert config.trainer.logger == ("file", "wandb")
    assert config.data.video_budget().max_pixels == 262144
    # what remains to be said about it: paths that are not here, and what this version does not carry out
    found = {problem.path for problem in check_config(config)}
    files = {
        "data.train_files",
        "data.val_files",
        "data.format_prompt",
        "data.preprocessed_video_dir",
        "worker.reward.reward_function",
    }
    assert files <= found
    assert found - files <= {
        "trainer.logger",
        "trainer.val_generations_to_log",
        "worker.rollout.tensor_parallel_size",
        "worker.rollout.val_override_config.presence_penalty",
    }
