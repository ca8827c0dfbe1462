"""Configuration of supervised fine-tuning: the same loader, the same errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from evr_trainer.config import ConfigError, SftConfig, check_sft_config, load_sft_config


def test_defaults() -> None:
    config = SftConfig()
    assert (config.optim.lr, config.trainer.batch_size, config.trainer.n_workers) == (1e-5, 32, 1)
    assert config.trainer.output_dir == Path("checkpoints/evr/sft")
    assert config.token_budget == 4 * 1024


def test_files_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "sft.yaml"
    file.write_text("optim:\n  lr: 1e-3\n  lr_scheduler_type: cosine\n")
    config = load_sft_config(file, ["trainer.output_dir=out", "trainer.max_steps=10"])
    assert (config.optim.lr, config.optim.lr_scheduler_type, config.trainer.max_steps) == (1e-3, "cosine", 10)
    assert config.trainer.output_dir == Path("out")


def test_mistakes_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        load_sft_config(None, ["worker.actor.optim.lr=1", "trainer.batchsize=3", "optim.lr=x"])
    found = {problem.path: problem.nearest for problem in caught.value.problems}
    assert found == {"worker.actor.optim.lr": "optim.lr", "trainer.batchsize": "trainer.batch_size", "optim.lr": ""}


def test_keys_of_training_without_use_are_named(caplog: pytest.LogCaptureFixture) -> None:
    load_sft_config(None, ["data.rollout_batch_size=4"])
    assert "data.rollout_batch_size is ignored" in caplog.text


def found(*changes: str) -> dict[str, str]:
    base = ["data.train_files=owner/records", "model.model_path=Qwen/Qwen3-VL-2B-Instruct"]
    return {p.path: str(p) for p in check_sft_config(load_sft_config(None, [*base, *changes]), media=())}


@pytest.mark.parametrize(
    ("path", "wrong", "right", "others"),
    [
        ("trainer.batch_size", "33", "32", ["trainer.n_workers=2"]),
        ("trainer.max_token_len_per_gpu", "1023", "1024", []),
        ("optim.lr_warmup_steps", "10", "9", ["trainer.max_steps=10"]),
        ("optim.strategy", "adamw_bf16", "adamw", []),
        ("trainer.logger", "wandb", "tensorboard", []),
        ("model.trust_remote_code", "true", "false", []),
        ("model.model_path", "/none", "owner/model", []),
        ("data.train_files", "/none.jsonl", "owner/data", []),
        ("data.min_pixels", "4194305", "4194304", []),
        ("trainer.load_checkpoint_path", "/none", "/", []),
        ("data.image_dir", "/none", "/", []),
    ],
)
def test_both_sides(path: str, wrong: str, right: str, others: list[str]) -> None:
    assert path in found(*others, f"{path}={wrong}")
    assert found(*others, f"{path}={right}") == {}


def test_the_token_budget_counts() -> None:
    config = load_sft_config(None, ["data.train_files=a/b", "model.model_path=Qwen/Qwen3-VL-2B-Instruct"])
    assert [p.path for p in check_sft_config(config)] == ["data.video_max_pixels"]
