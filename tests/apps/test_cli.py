"""The command line as a user meets it: help, messages, exit codes."""

from __future__ import annotations

import errno
import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evr_apps.commands.cache import parse_size
from evr_apps.demo.data import generate_demo_data
from evr_apps.demo.tiny_model import build_tiny_model
from evr_apps.errors import user_message
from evr_core import geometry_for, read_samples
from evr_trainer.config import load_config
from evr_video import FrameCache

EVR = Path(sys.executable).with_name("evr")
COMMANDS = (
    "preprocess", "sft", "train", "eval", "merge", "report", "demo", "demo data", "demo model",
    "config", "config show", "config diff", "config schema", "cache", "cache list", "cache verify", "cache prune",
)  # fmt: skip


def evr(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command without a terminal."""
    return subprocess.run([EVR, *args], capture_output=True, text=True, timeout=120, check=False)


def test_help_takes_under_a_second_of_processor_time() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert evr("--help").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_help_imports_nothing_heavy() -> None:
    heavy = ("torch", "transformers", "ray", "vllm", "numpy")
    code = f"import sys, evr_apps.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = evr(*command.split(), "--help")
    assert done.returncode == 0
    assert "Usage: evr " + command in " ".join(done.stdout.split())
    if command not in ("config", "cache"):
        assert "Example: evr" in done.stdout


def test_unknown_command_suggests_the_nearest() -> None:
    done = evr("trian")
    assert done.returncode == 2
    assert "'train'" in done.stderr


def test_configuration_errors_are_one_message_without_traceback(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("trainer:\n  max_step: 3\nworker:\n  rollout:\n    n: many\n")
    done = evr("train", f"config={config}", "data.rollout_batch_size=7", "--check")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    for expected in (
        "trainer.max_step",
        "did you mean trainer.max_steps",
        "worker.rollout.n=many",
        "rollout_batch_size=7",
    ):
        assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_paths_are_named(tmp_path: Path) -> None:
    assert "there is no such file" in evr("train", "--config", tmp_path / "none.yaml").stderr
    done = evr(
        "eval", "--model-path", tmp_path / "no-model", "--records", tmp_path / "no.jsonl", "--output-dir", tmp_path
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(tmp_path) in done.stderr.replace("\n", "")


def test_unknown_evaluation_setting_suggests_the_nearest(tmp_path: Path) -> None:
    done = evr("eval", "--model-path", tmp_path, "--records", tmp_path, "--output-dir", tmp_path, "max_frame=3")
    assert done.returncode == 2
    assert "did you mean 'max_frames'?" in done.stderr


def test_interrupt_exits_with_130(tmp_path: Path) -> None:
    clips = tmp_path / "clips"
    process = subprocess.Popen(
        [EVR, "demo", "data", "--out-dir", clips, "--num-train", "100000"], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (clips / "media" / "videos").is_dir() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr


def test_config_show_prints_yaml_that_loads_to_the_same(tmp_path: Path) -> None:
    shown = tmp_path / "shown.yaml"
    shown.write_text(evr("config", "show", "trainer.max_steps=3", "worker.actor.optim.lr=3e-4").stdout)
    config = load_config(shown)
    assert (config.trainer.max_steps, config.worker.actor.optim.lr) == (3, 3e-4)
    assert evr("config", "show", "trainer.max_steps=3", "--changed").stdout == "trainer:\n  max_steps: 3\n"


def test_config_diff_names_what_differs(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("trainer:\n  max_steps: 3\n")
    second.write_text("trainer:\n  max_steps: 4\n")
    out = evr("config", "diff", first, second).stdout
    assert "trainer.max_steps" in out
    assert "trainer.seed" not in out
    assert "the same" in evr("config", "diff", first, first).stdout


def test_config_schema_as_json() -> None:
    rows = json.loads(evr("config", "schema", "worker.rollout", "--json").stdout)
    assert {"key": "worker.rollout.name", "default": "vllm"}.items() <= {row["key"]: row for row in rows}[
        "worker.rollout.name"
    ].items()
    assert all(row["key"].startswith("worker.rollout.") and row["meaning"] for row in rows)


def test_preprocess_fills_the_cache_and_lists_what_failed(tmp_path: Path) -> None:
    data = generate_demo_data(tmp_path / "data", seed=0, num_train=12, num_val=10, num_sft=10)
    records = [json.loads(line) for line in data.train_file.read_text().splitlines()]
    with_video = [record for record in records if record.get("videos")]
    (data.media_dir / with_video[0]["videos"][0]).write_bytes(b"")
    (data.media_dir / with_video[1]["videos"][0]).write_text("not a video")
    out = tmp_path / "cache"
    options = ("--image-dir", data.media_dir, "--video-min-pixels", "4096", "--video-max-pixels", "4096")
    refused = evr("preprocess", "--input-file", data.train_file, "--output-dir", out, *options)
    assert refused.returncode == 2
    assert "2 media files cannot be used" in refused.stderr

    done = evr("preprocess", "--input-file", data.train_file, "--output-dir", out, *options, "--skip-errors")
    assert done.returncode == 0, done.stderr
    written = [json.loads(line) for line in (out / "preprocessed.jsonl").read_text().splitlines()]
    failed = [json.loads(line) for line in (out / "preprocessed.failed.jsonl").read_text().splitlines()]
    assert {row["record"] for row in failed} == {record["problem_id"] for record in with_video[:2]}
    assert len(written) == len(records) - 2
    assert all((out / path).is_file() for row in written for path in row["videos"] + row["images"])
    assert all(len(row["preprocessed_media"]) == len(row["videos"]) + len(row["images"]) for row in written)


def test_cache_commands(tmp_path: Path) -> None:
    data = generate_demo_data(tmp_path / "data", seed=0, num_train=10, num_val=10, num_sft=10)
    cache = FrameCache(tmp_path / "cache")
    for picture in sorted((data.media_dir / "images").glob("*.png")):
        cache.ensure_image(picture, geometry_for("qwen3_vl"), min_pixels=4096, max_pixels=4096)
    entries = cache.entries()
    assert f"{len(entries)} entries" in evr("cache", "list", cache.root).stdout
    assert evr("cache", "verify", cache.root).returncode == 0

    path = cache.handle(entries[0].key).path
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.chmod(0o644)
    path.write_bytes(damaged)
    assert evr("cache", "verify", cache.root).returncode == 1
    assert evr("cache", "verify", "--repair", cache.root).returncode == 0
    assert len(cache.entries()) == len(entries) - 1
    assert evr("cache", "prune", "--max-size", "0", cache.root).returncode == 0
    assert cache.entries() == []
    assert "is no size" in evr("cache", "prune", "--max-size", "lots", cache.root).stderr


@pytest.mark.parametrize(("text", "num_bytes"), [("1000", 1000), ("500M", 500_000_000), ("1.5g", 1_500_000_000)])
def test_sizes(text: str, num_bytes: int) -> None:
    assert parse_size(text) == num_bytes


def test_only_our_value_errors_and_refused_paths_are_the_users() -> None:
    def of(raise_it: object) -> str | None:
        try:
            raise_it()  # type: ignore[operator]
        except (ValueError, OSError) as error:
            return user_message(error)
        raise AssertionError("nothing was raised")

    assert of(lambda: int("x")) is None
    assert of(lambda: parse_size("x")) is not None
    assert "disk is full" in str(of(lambda: _raise(OSError(errno.ENOSPC, "no space", "/data"))))
    assert of(lambda: _raise(OSError(errno.EIO, "broken"))) is None

    wrapped = RuntimeError("a worker failed")
    try:
        parse_size("x")
    except ValueError as error:
        wrapped.cause = error  # type: ignore[attr-defined]
    assert user_message(wrapped) is not None


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(("script", "command"), [("train.py", "train"), ("evaluate.py", "eval")])
def test_launch_scripts_are_the_commands(script: str, command: str) -> None:
    path = Path(__file__).parents[2] / "apps" / script
    done = subprocess.run([sys.executable, path, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert f"{script} {command}" in done.stdout


def test_settings_of_the_readme_fit_together(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    config, records = tmp_path / "run.yaml", tmp_path / "records.jsonl"
    config.write_text(readme.split("```yaml\n")[1].split("```")[0])
    records.write_text(readme.split("```json\n")[1].split("```")[0])
    (tmp_path / "clips").mkdir()
    for name in ("0001.mp4", "0002.mp4"):
        (tmp_path / "clips" / name).write_bytes(b"checked for being there, decoded later")
    model = build_tiny_model(tmp_path / "model", seed=0, corpus=["a"])
    done = evr(
        "train", "--check", "--config", config, f"data.train_files={records}", f"data.val_files={records}",
        f"worker.actor.model.model_path={model}", f"data.cache_dir={tmp_path}", f"data.image_dir={tmp_path}",
    )  # fmt: skip
    assert len(read_samples(records).samples) == 2
    assert (done.returncode, done.stderr) == (0, "")
