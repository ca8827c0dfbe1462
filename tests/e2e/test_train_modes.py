"""Training with what the demo leaves out: a reference model, several updates a step, pruning, a new epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evr_trainer import load_config, train
from support_train import TrainJob, build_job


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    return build_job(tmp_path_factory.mktemp("job"), num_train=12)


def _train(job: TrainJob, run_dir: Path, **changes: Any) -> list[dict[str, float]]:
    train(load_config(job.write_config(run_dir.name, run_dir, **changes), []))
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def test_kl_in_the_reward_with_two_updates_a_step(job: TrainJob, tmp_path: Path) -> None:
    rows = _train(
        job,
        tmp_path / "run",
        **{
            "algorithm.disable_kl": False,
            "algorithm.kl_coef": 0.5,
            "worker.actor.global_batch_size": 2,
            "data.val_files": str(job.folder / "data" / "val.jsonl"),
            "trainer.val_before_train": True,
            "trainer.val_freq": 2,
            "trainer.save_freq": 1,
            "trainer.save_limit": 1,
            "trainer.max_steps": 4,
        },
    )
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["step"] for row in rows if "val/overall" in row] == [0, 2, 4]
    steps = rows[1:]
    assert steps[0]["actor/reward_kl"] == 0.0, "the policy starts as its reference"
    assert all(row["actor/reward_kl"] != 0.0 for row in steps[1:])
    for row in steps:
        assert row["critic/rewards/mean"] <= row["critic/score/mean"] + 0.5 * abs(row["actor/reward_kl"]) * 8 + 1e-6
        assert row["mismatch/max"] < 1e-4
    # The second update of a step is off-policy: its ratio to the old log-probs is no longer exactly one.
    assert any(row["actor/ppo_kl"] != 0.0 for row in steps)
    best = json.loads((tmp_path / "run" / "global_step_4" / "state.json").read_text())["best"]["step"]
    kept = {path.name for path in (tmp_path / "run").glob("global_step_*")}
    assert kept == {"global_step_4"} | ({f"global_step_{best}"} if best else set())


def test_kl_in_the_loss(job: TrainJob, tmp_path: Path) -> None:
    rows = _train(
        job,
        tmp_path / "run",
        **{
            "algorithm.disable_kl": False,
            "algorithm.use_kl_loss": True,
            "algorithm.kl_penalty": "low_var_kl",
            "worker.actor.loss_avg_mode": "seq",
            "worker.actor.dynamic_batching": False,
            "trainer.max_steps": 3,
        },
    )
    kl = [row["actor/kl_loss"] for row in rows]
    assert abs(kl[0]) < 1e-6
    assert all(value > 1e-6 for value in kl[1:])
    assert all("timing_s/ref_log_probs" in row for row in rows)
    assert all(row["actor/ppo_kl"] == 0.0 for row in rows), "one update a step is on-policy"
