"""Bad input: one clear error before anything is trained, and nothing that was there is lost."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evr_apps.cli import main
from support_train import TrainJob, build_job


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    return build_job(tmp_path_factory.mktemp("job"))


def _rows(job: TrainJob) -> list[dict[str, object]]:
    return [json.loads(line) for line in job.records.read_text().splitlines()]


def _write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _video_row(rows: list[dict[str, object]]) -> dict[str, object]:
    return next(row for row in rows if row.get("videos"))


def _evr(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["evr", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def _tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _missing(video: Path) -> None:
    video.unlink(missing_ok=True)


def _empty(video: Path) -> None:
    video.write_bytes(b"")


def _text(video: Path) -> None:
    video.write_text("this is no video\n" * 50)


def _cut(video: Path) -> None:
    video.write_bytes(video.read_bytes()[:40])


BAD_VIDEOS: dict[str, Callable[[Path], None]] = {"missing": _missing, "empty": _empty, "text": _text, "cut": _cut}


@pytest.mark.parametrize("kind", sorted(BAD_VIDEOS))
def test_a_bad_video_is_named(
    kind: str, job: TrainJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = _rows(job)
    row = _video_row(rows)
    bad = tmp_path / f"{kind}.mp4"
    (source,) = row["videos"]  # type: ignore[misc]
    bad.write_bytes((job.media / source).read_bytes())
    BAD_VIDEOS[kind](bad)
    row["videos"] = [str(bad)]
    records = _write(tmp_path / "bad.jsonl", rows)
    run_dir = tmp_path / "run"
    (run_dir / "global_step_7").mkdir(parents=True)
    (run_dir / "metrics.jsonl").write_text('{"step": 7}\n')
    before = _tree(run_dir)

    config = job.write_config("bad", run_dir, **{"data.train_files": str(records)})
    assert _evr("train", "--config", str(config), monkeypatch=monkeypatch) == 2

    said = capfd.readouterr()
    message = said.out + said.err
    assert bad.name in message.replace("\n", "")
    assert "Traceback" not in message
    assert "skip_bad_records" in message
    assert _tree(run_dir) == before


def test_a_record_without_answer_is_named(
    job: TrainJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = _rows(job)
    del rows[4]["answer"]
    records = _write(tmp_path / "unanswered.jsonl", rows)
    config = job.write_config("unanswered", tmp_path / "run", **{"data.train_files": str(records)})
    assert _evr("train", "--config", str(config), monkeypatch=monkeypatch) == 2
    message = "".join(capfd.readouterr()).replace("\n", "")
    assert "unanswered.jsonl:5" in message
    assert "answer" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"worker.rollout.nn": 4}, "worker.rollout.n"),  # an unknown key: the nearest known one
        ({"data.rollout_batch_size": 5}, "rollout_batch_size"),  # does not divide over two workers
        ({"worker.actor.global_batch_size": 3}, "global_batch_size"),  # does not divide the rollout batch
        ({"worker.rollout.n": 1}, "grpo"),  # no group to compare with
        ({"worker.rollout.n": "many"}, "worker.rollout.n"),
        ({"data.train_files": "/nowhere/train.jsonl"}, "/nowhere/train.jsonl"),
        ({"data.max_prompt_length": 20}, "max_prompt_length"),  # no room for text beside the clip
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_a_bad_configuration_is_refused(
    changes: dict[str, object],
    said: str,
    check: bool,
    job: TrainJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    config = job.write_config("wrong", tmp_path / "run", **changes)
    flags = ["--check"] if check else []
    assert _evr("train", "--config", str(config), *flags, monkeypatch=monkeypatch) == 2
    message = "".join(capfd.readouterr())
    assert said in message.replace("\n", "")
    assert "Traceback" not in message
    assert not (tmp_path / "run").exists()


def test_bad_records_are_skipped_and_counted_when_asked(job: TrainJob, tmp_path: Path) -> None:
    """Three bad records of 24: training goes on with 21, and every row of the metrics says so."""
    from evr_trainer import load_config, train

    rows = _rows(job)
    del rows[0]["answer"]
    videos = [row for row in rows[1:] if row.get("videos")][:2]
    for row, spoil in zip(videos, (_missing, _text), strict=True):
        bad = tmp_path / f"{row['problem_id']}.mp4"
        spoil(bad)
        row["videos"] = [str(bad)]
    records = _write(tmp_path / "partly.jsonl", rows)
    changes = {"data.train_files": str(records), "data.skip_bad_records": True, "trainer.max_steps": 1}
    summary = train(load_config(job.write_config("partly", tmp_path / "run", **changes), []))
    (line,) = (summary.run_dir / "metrics.jsonl").read_text().splitlines()
    metrics = json.loads(line)
    assert metrics["media/skipped_records"] == 3
    assert metrics["media/bytes_per_sample"] < 100_000
    assert summary.last_checkpoint is not None
    assert json.loads((summary.last_checkpoint / "state.json").read_text())["dataset_size"] == len(rows) - 3
