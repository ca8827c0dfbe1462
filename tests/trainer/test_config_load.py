"""Files, overrides, and mistakes in them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import yaml

from evr_trainer.config import (
    ConfigError,
    TrainConfig,
    diff_configs,
    load_checked_config,
    load_config,
    resolved_yaml,
)


def problems(overrides: list[str], file: Path | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_config(file, overrides)
    return {problem.path: str(problem) for problem in caught.value.problems}


def test_defaults_then_file_then_overrides(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("data: {seed: 7, video_fps: 1}\nworker:\n  rollout: {n: 4}\ntrainer:\n")
    config = load_config(file, ["worker.rollout.n=8", "worker.actor.optim.lr=3e-4"])
    assert (config.data.seed, config.data.video_fps, config.worker.rollout.n) == (7, 1.0, 8)
    assert config.worker.actor.optim.lr == 3e-4
    assert config.trainer.total_epochs == 15


def test_the_file_may_come_as_an_override(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("data: {seed: 7}\n")
    assert load_config(None, ["data.max_prompt_length=9", f"config={file}"]).data.seed == 7
    assert "given more than once" in problems([f"config={file}"], file)["config"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: [1", "not readable as YAML"), ("- 1\n", "mapping of sections"), ("data: {seed: 1, seed: 2}", "seed")],
)
def test_unreadable_files(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    assert words in problems([], file)["config"]


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    assert "there is no such file" in problems([], tmp_path / "none.yaml")["config"]


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("dat", "data"),
        ("trainr", "trainer"),
        ("data.train_file", "data.train_files"),
        ("algorithm.adv_estimater", "algorithm.adv_estimator"),
        ("worker.rolout", "worker.rollout"),
        ("worker.rollout.temprature", "worker.rollout.temperature"),
        ("worker.actor.optim.lrr", "worker.actor.optim.lr"),
        ("worker.rollout.val_override_config.topp", "worker.rollout.val_override_config.top_p"),
        # moved to another section
        ("trainer.rollout_batch_size", "data.rollout_batch_size"),
        ("trainer.lr", "worker.actor.optim.lr"),
        ("data.n", "worker.rollout.n"),
        ("algorithm.loss_type", "worker.actor.loss_type"),
        ("save_freq", "trainer.save_freq"),
    ],
)
def test_unknown_keys_name_the_nearest_known_one(path: str, nearest: str) -> None:
    assert problems([f"{path}=3"])[path] == f"{path}=3: unknown key; did you mean {nearest}?"


def test_nothing_is_suggested_when_nothing_is_near() -> None:
    assert problems(["zzz=3"])["zzz"] == "zzz=3: unknown key"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("data.seed=1.5", "wrong type: a number with a fraction; allowed: whole number"),
        ("data.seed=true", "wrong type: true or false; allowed: whole number"),
        ("data.seed=one", "wrong type: text; allowed: whole number"),
        ("data.seed=[1]", "wrong type: a list; allowed: whole number"),
        ("data.shuffle=1", "wrong type: a whole number; allowed: true or false"),
        ("data.video_fps=fast", "wrong type: text; allowed: number > 0"),
        ("data.video_fps=0", "not an allowed value; allowed: number > 0"),
        ("data.video_max_frames=0", "not an allowed value; allowed: whole number >= 1"),
        ("data.min_pixels=null", "wrong type: null; allowed: whole number >= 1"),
        ("data.val_batch_size=0", "must be -1 (off) or at least 1; allowed: whole number >= 1, or -1"),
        ("worker.rollout.name=hf", "not an allowed value; allowed: one of vllm, transformers"),
        ("worker.rollout.top_p=1.5", "allowed: number > 0.0 and <= 1.0"),
        ("worker.actor.optim.betas=[0.9]", "wrong number of values; allowed: list of 2"),
        ("worker.actor.optim.lr=.inf", "must be finite"),
        ("worker.actor.fsdp.mp_param_dtype=int8", "allowed: one of bf16, fp16, fp32"),
        ("worker.reward.reward_function_kwargs=3", "wrong type: a whole number; allowed: mapping"),
        ("worker=3", "expected a section with keys of its own, got a whole number"),
    ],
)
def test_wrong_values(override: str, words: str) -> None:
    path = override.split("=")[0]
    assert words in problems([override])[path]


def test_wrong_types_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("data:\n  format_prompt: [a]\n  prompt_key: 3\ntrainer:\n  max_steps: 2026-01-01\n")
    found = problems([], file)
    assert "wrong type: a list; allowed: path, or null" in found["data.format_prompt"]
    assert "wrong type: a whole number; allowed: text" in found["data.prompt_key"]
    assert "wrong type: text; allowed: whole number >= 1, or null" in found["trainer.max_steps"]


def test_an_element_of_a_list_is_named() -> None:
    assert "not an allowed value" in problems(["trainer.logger=[console, consol]"])["trainer.logger[1]"]


@pytest.mark.parametrize("override", ["novalue", "=3", "a..b=3", ".=3"])
def test_malformed_overrides(override: str) -> None:
    assert "an override is written a.b.c=value" in problems([override])[override]


def test_an_override_inside_of_a_value() -> None:
    assert "is no section" in problems(["worker.rollout=3", "worker.rollout.n=2"])["worker.rollout.n"]


def test_text_keys_take_the_text_as_it_is() -> None:
    config = load_config(
        None,
        [
            "trainer.experiment_name=042",
            "trainer.project_name=a: b",
            "data.train_files=records@train",
            "data.val_files=null",
            "data.image_dir=null",
            "trainer.logger=console",
            "worker.rollout.dtype=float32",
        ],
    )
    assert (config.trainer.experiment_name, config.trainer.project_name) == ("042", "a: b")
    assert (config.data.train_files, config.data.val_files, config.data.image_dir) == ("records@train", "", None)
    assert config.trainer.logger == ("console",)
    assert config.worker.rollout.dtype == "fp32"


def test_home_folders_are_expanded() -> None:
    assert load_config(None, ["data.cache_dir=~/frames"]).data.cache_dir == Path.home() / "frames"


def test_interpolation_sees_defaults(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "trainer: {project_name: 'x_${trainer.experiment_name}'}\nworker: {rollout: {seed: '${data.seed}'}}\n"
    )
    config = load_config(file, ["data.seed=5"])
    assert (config.trainer.project_name, config.worker.rollout.seed) == ("x_demo", 5)
    assert "cannot be resolved" in problems(["trainer.project_name=${trainer.nothing}"])["trainer.project_name"]


def test_a_wrong_interpolation_hides_no_other_mistake() -> None:
    found = problems(["trainer.project_name=${nothing}", "data.seed=x"])
    assert set(found) == {"trainer.project_name", "data.seed"}


def test_a_section_that_is_a_list() -> None:
    assert "got a list" in problems(["worker.actor.fsdp=[1]"])["worker.actor.fsdp"]


@pytest.mark.parametrize("path", ["data.rollout_batch_size", "worker.actor.global_batch_size"])
def test_huge_numbers_are_answered_at_once(path: str) -> None:
    with pytest.raises(ConfigError):
        load_checked_config(None, [f"{path}=999999999999999999999"])
    assert "<= 65536" in problems(["data.video_max_frames=65537"])["data.video_max_frames"]


def test_values_that_wait_for_an_override(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("data:\n  train_files: ???\n")
    assert "has no value yet" in problems([], file)["data.train_files"]
    assert load_config(file, ["data.train_files=a.jsonl"]).data.train_files == "a.jsonl"


TEN_MISTAKES = {
    "data.train_files": "/none/records.jsonl",
    "data.sed": "3",
    "data.video_fps": "fast",
    "data.min_pixels": "9000000",
    "algorithm.adv_estimator": "gae",
    "trainer.lr": "1e-5",
    "worker.actor.global_batch_size": "100",
    "worker.rollout.n": "1",
    "worker.actor.model.model_path": "/none/model",
    "trainer.logger": "[csv]",
}


def test_ten_mistakes_of_every_kind_are_reported_together() -> None:
    overrides = [f"{path}={value}" for path, value in TEN_MISTAKES.items()]
    with pytest.raises(ConfigError) as caught:
        load_checked_config(None, [*overrides, "algorithm.disable_kl=true", "worker.rollout.name=transformers"])
    found = {problem.path.split("[")[0] for problem in caught.value.problems}
    expected = (set(TEN_MISTAKES) - {"worker.rollout.n"}) | {"data.min_pixels"}  # gae does not need n >= 2
    assert expected <= found
    assert str(caught.value).startswith(f"{len(caught.value.problems)} problems in the configuration:\n  - ")


def test_keys_without_effect_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load_config(
            None,
            [
                "data.use_preprocessed_videos=true",
                "worker.actor.padding_free=true",
                "worker.actor.use_torch_compile=true",
                "trainer.device=cpu",
                "worker.rollout.disable_tqdm=true",
                "worker.critic.cliprange_value=0.4",
                "algorithm.use_kl_loss=true",
                "algorithm.disable_kl=true",
            ],
        )
    named = [record.getMessage().split(" ")[0].split("=")[0] for record in caplog.records]
    assert sorted(named) == [
        "algorithm.use_kl_loss",
        "data.use_preprocessed_videos",
        "worker.actor.padding_free",
        "worker.actor.use_torch_compile",
        "worker.critic",
        "worker.rollout.disable_tqdm",
    ]


def test_nothing_is_said_about_keys_that_were_not_given(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load_config(None, ["trainer.device=cpu", "worker.rollout.name=transformers"])
    assert not caplog.records


def test_shown_configurations_load_again(tmp_path: Path) -> None:
    config = load_config(None, ["worker.actor.optim.lr=1e-6", "data.image_dir=/media", "trainer.logger=[file]"])
    file = tmp_path / "shown.yaml"
    file.write_text(resolved_yaml(config))
    assert load_config(file, []) == config
    assert yaml.safe_load(resolved_yaml(config))["worker"]["actor"]["optim"]["lr"] == 1e-6


def test_differences_are_listed_by_key() -> None:
    left, right = TrainConfig(), load_config(None, ["data.seed=2", "worker.rollout.n=8"])
    assert [(d.path, d.left, d.right) for d in diff_configs(left, right)] == [
        ("data.seed", 1, 2),
        ("worker.rollout.n", 1, 8),
    ]
    assert diff_configs(left, TrainConfig()) == ()
