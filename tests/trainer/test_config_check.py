"""Each check on both sides of its boundary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evr_trainer.config import ConfigError, check_config, load_config, require_valid

# A configuration that is right but for what a test changes; text only, so that no budget of pixels matters.
BASE = {
    "trainer.n_gpus_per_node": "2",
    "trainer.device": "cpu",
    "trainer.logger": "[console]",
    "algorithm.disable_kl": "true",
    "worker.rollout.name": "transformers",
    "worker.rollout.n": "4",
    "data.rollout_batch_size": "16",
    "worker.actor.global_batch_size": "8",
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "model").mkdir()
    config = {"model_type": "qwen3_vl", "vision_config": {"patch_size": 16, "temporal_patch_size": 2}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    (tmp_path / "train.jsonl").write_text("")
    (tmp_path / "reward.py").write_text("")
    return {
        "data.train_files": str(tmp_path / "train.jsonl"),
        "worker.actor.model.model_path": str(tmp_path / "model"),
    }


def found(files: dict[str, str], *changes: str) -> dict[str, str]:
    base = [f"{path}={value}" for path, value in {**BASE, **files}.items()]
    config = load_config(None, [*base, *changes])
    return {problem.path: str(problem) for problem in check_config(config, media=())}


def test_the_base_is_right(files: dict[str, str]) -> None:
    assert found(files) == {}


BOUNDARIES = [
    # path, wrong, right, words of the problem
    ("data.rollout_batch_size", ["15"], ["16"], "15 prompts do not divide over 2 workers"),
    ("worker.actor.global_batch_size", ["1"], ["2"], "1 prompts do not divide over 2 workers"),
    ("worker.actor.global_batch_size", ["6"], ["16"], "16 prompts do not divide into updates of 6 prompts"),
    ("worker.actor.global_batch_size", ["32"], ["16"], "such as 16"),
    ("worker.actor.max_token_len_per_gpu", ["1023"], ["1024"], "raise it to at least 1024"),
    ("worker.rollout.n", ["1"], ["2"], "needs at least 2"),
    ("worker.rollout.temperature", ["0"], ["0.1"], "would be equal"),
    ("worker.actor.clip_ratio_low", ["1.0"], ["0.99"], "no ratio reaches"),
    ("worker.actor.clip_ratio_dual", ["1.0"], ["1.01"], "must be above 1"),
    ("algorithm.filter_low", ["0.99"], ["0.98"], "must be below algorithm.filter_high 0.99"),
    ("worker.reward.format_weight", ["0.2"], ["0.1"], "0.9 + 0.2 = 1.1"),
    ("data.min_pixels", ["4194305"], ["4194304"], "4194305, are more than the most, 4194304"),
    ("data.image_min_pixels", ["4194305"], ["4194304"], "data.image_min_pixels and data.max_pixels"),
    ("data.video_min_pixels", ["4194305"], ["4194304"], "a video frame"),
    ("data.val_video_min_pixels", ["4194305"], ["4194304"], "a video frame in validation"),
    ("data.video_total_pixels", ["262143"], ["262144"], "one has at least 262144"),
    ("trainer.val_freq", ["1"], ["-1"], "give data.val_files"),
    ("trainer.val_only", ["true"], ["false"], "give data.val_files"),
    ("worker.rollout.mix_policy_accuracy_threshold", ["0.5"], ["null"], "enable_mix_policy=false"),
]


@pytest.mark.parametrize(("path", "wrong", "right", "words"), BOUNDARIES)
def test_both_sides(files: dict[str, str], path: str, wrong: list[str], right: list[str], words: str) -> None:
    refused = found(files, f"{path}={wrong[0]}")
    assert words in refused[path]
    assert f"{path}={wrong[0]}" in refused[path]
    assert path not in found(files, f"{path}={right[0]}")


def test_micro_batches_without_dynamic_batching(files: dict[str, str]) -> None:
    # 8 prompts x 4 responses over 2 workers are 16 responses each
    fixed = "worker.actor.dynamic_batching=false"
    micro = "worker.actor.micro_batch_size_per_device_for_update"
    refused = found(files, fixed, f"{micro}=3")
    assert "updates on 16 responses (global_batch_size 8 x n 4 / 2 workers), which 3 does not divide" in refused[micro]
    assert micro not in found(files, fixed, f"{micro}=16")
    assert micro not in found(files, f"{micro}=3")


def test_mini_rollout_batches(files: dict[str, str]) -> None:
    path = "data.mini_rollout_batch_size"
    base = [f"{key}={value}" for key, value in {**BASE, **files}.items()]

    def reasons(value: str) -> list[str]:
        problems = check_config(load_config(None, [*base, f"{path}={value}"]), media=())
        return [p.reason for p in problems if p.path == path and "available" not in p.reason]

    assert len(reasons("6")) == 1
    assert len(reasons("5")) == 2
    assert reasons("8") == []


def test_the_engine_holds_a_whole_sequence(files: dict[str, str]) -> None:
    vllm = ["worker.rollout.name=vllm", "worker.rollout.tensor_parallel_size=1"]
    assert found(files, *vllm) == {}
    length, batch = "worker.rollout.max_model_len", "worker.rollout.max_num_batched_tokens"
    assert "= 1024" in found(files, *vllm, f"{length}=1023")[length]
    assert length not in found(files, *vllm, f"{length}=1024")
    assert "raise it to at least 1024" in found(files, *vllm, f"{batch}=1023")[batch]
    assert batch not in found(files, *vllm, f"{batch}=1024")
    assert batch not in found(files, *vllm, f"{batch}=1023", "worker.rollout.enable_chunked_prefill=true")
    assert batch not in found(files, f"{batch}=1023")


def test_tensor_parallel_groups_divide_the_machine(files: dict[str, str]) -> None:
    path = "worker.rollout.tensor_parallel_size"
    base = [f"{key}={value}" for key, value in {**BASE, **files, "worker.rollout.name": "vllm"}.items()]

    def reasons(value: str) -> list[str]:
        return [
            p.reason for p in check_config(load_config(None, [*base, f"{path}={value}"]), media=()) if p.path == path
        ]

    assert any("do not divide into engines of 3" in reason for reason in reasons("3"))
    assert not any("do not divide" in reason for reason in reasons("2"))


def test_kl_settings_that_contradict_each_other(files: dict[str, str]) -> None:
    on = "algorithm.disable_kl=false"
    assert "set algorithm.disable_kl=true" in found(files, on, "algorithm.kl_coef=0")["algorithm.kl_coef"]
    assert "algorithm.kl_coef" not in found(files, "algorithm.kl_coef=0")
    adaptive = ["algorithm.use_kl_loss=true", "algorithm.kl_type=adaptive"]
    assert "steers the KL of the reward" in found(files, on, *adaptive)["algorithm.kl_type"]
    assert "algorithm.kl_type" not in found(files, on, "algorithm.kl_type=adaptive")


def test_the_warm_up_ends_before_the_run(files: dict[str, str]) -> None:
    path = "worker.actor.optim.lr_warmup_steps"
    assert "whole run" in found(files, "trainer.max_steps=10", f"{path}=10")[path]
    assert path not in found(files, "trainer.max_steps=10", f"{path}=9")


def test_several_machines_need_a_cluster(files: dict[str, str]) -> None:
    base = [f"{key}={value}" for key, value in {**BASE, **files, "trainer.nnodes": "2"}.items()]

    def reasons(*changes: str) -> str:
        return "; ".join(p.reason for p in check_config(load_config(None, [*base, *changes]), media=()))

    assert "give trainer.ray_address" in reasons()
    assert "give trainer.ray_address" not in reasons("trainer.ray_address=auto")


@pytest.mark.parametrize(
    ("change", "available"),
    [
        ("algorithm.adv_estimator=gae", "grpo"),
        ("worker.actor.optim.strategy=adamw_bf16", "adamw"),
        ("worker.actor.ulysses_size=2", "1"),
        ("worker.rollout.enable_mix_policy=true", "false"),
        ("worker.rollout.val_override_config.presence_penalty=1.5", "null, 0.0"),
        ("data.video_source_mode=realtime_only", "prefer_preprocessed"),
        ("trainer.logger=[wandb]", "console, file, tensorboard"),
    ],
)
def test_what_is_not_available_says_what_is(files: dict[str, str], change: str, available: str) -> None:
    path = change.split("=")[0]
    expected = f"is not available in this version; available: {available}"
    assert expected in found(files, change)[path]


def test_offload_has_nothing_to_do_on_cpu(files: dict[str, str]) -> None:
    path = "worker.actor.offload.offload_params"
    assert "enable_cpu_offload" in found(files, f"{path}=true", "trainer.device=cuda")[path]
    assert found(files, f"{path}=true") == {}


def test_the_reference_is_built_like_the_actor(files: dict[str, str]) -> None:
    path = "worker.ref.fsdp.enable_cpu_offload"
    assert found(files, f"{path}=true") == {}  # there is no reference
    assert "the actor's value, False" in found(files, "algorithm.disable_kl=false", f"{path}=true")[path]
    assert found(files, "algorithm.disable_kl=false", f"{path}=false") == {}


def test_remote_code_is_refused_with_a_reason(files: dict[str, str]) -> None:
    path = "worker.actor.model.trust_remote_code"
    assert "never run" in found(files, f"{path}=true")[path]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("data.train_files", "/none/a.jsonl", "no such file or folder"),
        ("data.train_files", "a.jsonl", "no such file or folder"),
        ("data.train_files", "/none/a.jsonl@train", "no such file or folder"),
        ("data.train_files", "null", "must be given"),
        ("data.val_files", "../none.parquet", "no such file or folder"),
        ("data.image_dir", "/none", "no such folder"),
        ("data.image_dir", "{train}", "is a file; give a folder"),
        ("data.format_prompt", "/none.jinja", "no such file"),
        ("data.format_prompt", "{model}", "is a folder; give a file"),
        ("data.override_chat_template", "/none.jinja", "no such file"),
        ("data.preprocessed_video_dir", "/none", "no such folder"),
        ("data.cache_dir", "{train}", "is a file"),
        ("trainer.load_checkpoint_path", "/none", "no such folder"),
        ("trainer.save_checkpoint_path", "{train}", "is a file"),
        ("worker.reward.reward_function", "/none.py:main", "no such file: /none.py"),
        ("worker.reward.reward_function", "{reward}:not-a-name", "is not the name of a function"),
        ("worker.actor.model.model_path", "/none/model", "no such folder"),
        ("worker.actor.model.model_path", "./model", "no such folder"),
        ("worker.actor.model.model_path", "a/b/c", "no such folder"),
        ("worker.actor.model.model_path", "{folder}", "holds no config.json"),
        ("worker.actor.model.model_path", "null", "must be given"),
        ("worker.actor.model.tokenizer_path", "/none", "no such folder"),
    ],
)
def test_paths_that_do_not_exist(files: dict[str, str], tmp_path: Path, path: str, value: str, words: str) -> None:
    names = {"train": tmp_path / "train.jsonl", "model": tmp_path / "model", "folder": tmp_path}
    assert words in found(files, f"{path}={value.format(**names, reward=tmp_path / 'reward.py')}")[path]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("data.train_files", "{folder}"),
        ("data.train_files", "{train}@test"),
        ("data.train_files", "owner/records"),
        ("data.train_files", "owner/records@train"),
        ("data.val_files", "{train}"),
        ("data.image_dir", "{folder}"),
        ("data.cache_dir", "{folder}/new"),
        ("trainer.save_checkpoint_path", "{folder}/new"),
        ("worker.reward.reward_function", "{reward}"),
        ("worker.reward.reward_function", "{reward}:main"),
        ("worker.actor.model.model_path", "Qwen/Qwen3-VL-8B-Instruct"),
        ("worker.actor.model.tokenizer_path", "Qwen/Qwen3-VL-8B-Instruct"),
    ],
)
def test_paths_and_hub_ids_that_are_right(files: dict[str, str], tmp_path: Path, path: str, value: str) -> None:
    names = {"train": tmp_path / "train.jsonl", "folder": tmp_path, "reward": tmp_path / "reward.py"}
    assert found(files, f"{path}={value.format(**names)}") == {}


def test_cache_only_needs_a_cache(files: dict[str, str], tmp_path: Path) -> None:
    path = "data.video_source_mode"
    base = [f"{key}={value}" for key, value in {**BASE, **files, path: "preprocessed_only"}.items()]

    def asked_to_preprocess(cache: str) -> bool:
        problems = check_config(load_config(None, [*base, f"data.cache_dir={cache}"]), media=())
        return any("run evr preprocess" in problem.reason for problem in problems)

    assert asked_to_preprocess(f"{tmp_path}/none")
    assert not asked_to_preprocess(str(tmp_path))


def test_a_broken_model_configuration(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "model" / "config.json").write_text('{"model_type": "other"}')
    config = load_config(None, [f"{key}={value}" for key, value in {**BASE, **files}.items()])
    assert "unusable config.json" in str(check_config(config)[0])


def test_all_problems_are_raised_as_one(files: dict[str, str]) -> None:
    config = load_config(None, [f"{key}={value}" for key, value in {**BASE, **files}.items()] + ["worker.rollout.n=1"])
    with pytest.raises(ConfigError, match="1 problem in the configuration"):
        require_valid(config, media=())
