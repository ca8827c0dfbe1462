"""A training run that is killed in any phase ends as if it had never been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from support_train import EVR, TrainJob, build_job, deterministic

STEPS = 5
LIMIT_S = 240


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    return build_job(tmp_path_factory.mktemp("job"))


def _start(config: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*EVR, "train", "--config", str(config)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _finish(config: Path) -> str:
    process = _start(config)
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, output
    return output


def _kill_in(config: Path, run_dir: Path, *, step: int, phase: str) -> list[psutil.Process]:
    """Start the command and SIGKILL its process once it says that it is in that phase of that step.

    Its workers must be gone soon; returned are Ray's own agents, which take a minute to notice.
    """
    process = _start(config)
    deadline = time.monotonic() + LIMIT_S
    status: dict[str, object] = {}
    try:
        while (status.get("step"), status.get("phase")) != (step, phase):
            assert process.poll() is None, f"ended before {phase} of step {step}: {process.communicate()[0]}"
            assert time.monotonic() < deadline, f"never reached {phase} of step {step}; last seen {status}"
            time.sleep(0.002)
            file = run_dir / "status.json"
            status = json.loads(file.read_text()) if file.exists() else {}
            if status.get("pid") != process.pid:  # what an earlier, killed process left
                status = {}
        family = psutil.Process(process.pid).children(recursive=True)
        agents = [child for child in family if child.name().endswith("Agent")]
        workers = [child for child in family if child not in agents]
        assert len(workers) > 4, "the cluster's processes and two workers are children of the command"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive, f"left behind by the killed command: {alive}"
    return agents


def _weights(run_dir: Path, step: int) -> dict[str, torch.Tensor]:
    folder = run_dir / f"global_step_{step}" / "actor"
    files = sorted([*(folder / "model").glob("*.safetensors"), *(folder / "optimizer").glob("*.safetensors")])
    assert len(files) == 4  # two ranks, weights and moments
    return {f"{f.parent.name}/{f.name}/{key}": value for f in files for key, value in load_file(f).items()}


def _rows(run_dir: Path) -> list[dict[str, float]]:
    return [deterministic(json.loads(line)) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.timeout(900)
def test_killed_in_four_phases_and_resumed_equals_uninterrupted(job: TrainJob, tmp_path: Path) -> None:
    calm_dir, killed_dir = tmp_path / "calm", tmp_path / "killed"
    settings = {"trainer.max_steps": STEPS, "trainer.save_freq": 2}
    _finish(job.write_config("calm", calm_dir, **settings))

    config = job.write_config("killed", killed_dir, **settings)
    agents = _kill_in(config, killed_dir, step=3, phase="rollout")  # behind the checkpoint of step 2
    agents += _kill_in(config, killed_dir, step=4, phase="update")
    agents += _kill_in(config, killed_dir, step=4, phase="save")
    assert sorted(path.name for path in killed_dir.glob("global_step_*")) == ["global_step_2"]
    agents += _kill_in(config, killed_dir, step=4, phase="commit")  # whichever side of the rename it hits
    output = _finish(config)
    assert "continuing from" in output

    calm, resumed = _weights(calm_dir, STEPS), _weights(killed_dir, STEPS)
    assert calm.keys() == resumed.keys()
    different = [name for name, tensor in calm.items() if not torch.equal(tensor, resumed[name])]
    assert different == []
    assert [row["step"] for row in _rows(killed_dir)] == list(range(1, STEPS + 1))
    assert _rows(killed_dir) == _rows(calm_dir)
    assert any(row["actor/grad_norm"] > 0 for row in _rows(calm_dir)), "nothing was learnt: equality would be empty"

    again = _finish(config)  # a finished run has nothing left to do, and says where it is
    assert _weights(killed_dir, STEPS).keys() == calm.keys()
    assert "global_step_5" in again
    _, alive = psutil.wait_procs(agents, timeout=180)
    assert not alive, f"left behind by the killed commands: {alive}"
