from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evr_eval import EvalConfig, ResultRow, Timing, evaluate, read_results
from support_eval import COLOURS, SMALL, TableEngine, question, says, write_records

CHILD = """
import json, os, signal, sys
from evr_eval import EvalConfig, evaluate

config, rows = EvalConfig.model_validate_json(sys.argv[1]), int(sys.argv[2])

def stop(progress):
    if progress.done == rows:
        os.kill(os.getpid(), signal.SIGKILL)

evaluate(config, on_progress=stop)
"""


def _records(tmp_path: Path) -> Path:
    records = [question(f"q{index}", f"{COLOURS[index % 4]}.mp4", "yes") for index in range(12)]
    records += [question("x0", "empty.mp4", "yes"), question("x1", "missing.mp4", "no"), question("t", None, "no")]
    return write_records(tmp_path / "records.jsonl", records)


def _config(tmp_path: Path, model_path: Path, media_dir: Path, name: str, **fields: Any) -> EvalConfig:
    return EvalConfig.model_validate(
        {
            "model_path": model_path,
            "output_dir": tmp_path / name,
            "records": tmp_path / "records.jsonl",
            "media_dir": media_dir,
            "max_tokens": 6,
            **SMALL,
            **fields,
        }
    )


def _content(output_dir: Path) -> list[ResultRow]:
    return [dataclasses.replace(row, timing=Timing()) for row in read_results(output_dir)]


def test_killed_and_continued_equals_uninterrupted(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    _records(tmp_path)
    drawn = {"temperature": 1.0, "seed": 5}
    whole = evaluate(_config(tmp_path, model_path, media_dir, "whole", **drawn))
    config = _config(tmp_path, model_path, media_dir, "killed", **drawn)
    child = subprocess.run([sys.executable, "-c", CHILD, config.model_dump_json(), "7"], timeout=120, check=False)
    assert child.returncode == -signal.SIGKILL
    results = config.output_dir / "results.jsonl"
    stored = results.read_bytes()
    assert stored.count(b"\n") == 7
    results.write_bytes(stored + stored[:100])  # what a kill inside a write leaves
    resumed = evaluate(config)
    assert (resumed.resumed_rows, resumed.torn_lines) == (7, 1)
    assert _content(config.output_dir) == _content(tmp_path / "whole")
    lines = results.read_text().splitlines()
    assert len({json.loads(line)["sample_id"] for line in lines}) == len(lines) == 15
    assert resumed.accuracy == whole.accuracy
    assert resumed.outcomes == whole.outcomes
    assert resumed.outcomes["media_error"] == 2


def test_a_finished_run_answers_nothing_again(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    _records(tmp_path)
    config = _config(tmp_path, model_path, media_dir, "out")
    names = [*(f"q{index}" for index in range(12)), "t"]
    first = TableEngine(dict.fromkeys(names, says("<answer>yes</answer>")))
    before = evaluate(config, engine=first)
    second = TableEngine({})
    after = evaluate(config, engine=second)
    assert second.seen == []
    assert (after.overall, after.resumed_rows) == (before.overall, 15)


def test_errors_are_retried_on_request(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    write_records(tmp_path / "records.jsonl", [question("a", None, "yes"), question("b", None, "yes")])
    config = _config(tmp_path, model_path, media_dir, "out")
    right = says("<answer>yes</answer>")
    assert evaluate(config, engine=TableEngine({"a": right, "b": "server gone"})).outcomes["engine_error"] == 1
    engine = TableEngine({"b": right})
    again = evaluate(config.model_copy(update={"retry_errors": True}), engine=engine)
    assert (again.accuracy, engine.seen) == (1.0, ["b"])


@pytest.mark.parametrize(
    "change",
    [{"max_tokens": 7}, {"max_frames": 6}, {"temperature": 0.5}],
    ids=lambda change: next(iter(change)),
)
def test_another_configuration_starts_anew_beside_the_old_rows(
    tmp_path: Path, model_path: Path, media_dir: Path, change: dict[str, Any]
) -> None:
    write_records(tmp_path / "records.jsonl", [question("a", None, "yes")])
    table = {"a": says("<answer>yes</answer>")}
    evaluate(_config(tmp_path, model_path, media_dir, "out"), engine=TableEngine(table))
    again = evaluate(_config(tmp_path, model_path, media_dir, "out", **change), engine=TableEngine(table))
    assert again.resumed_rows == 0
    assert (tmp_path / "out" / "results.jsonl").read_text().count("\n") == 2
    assert len(read_results(tmp_path / "out")) == 1


def test_a_changed_record_is_asked_again(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    table = {"a": says("<answer>yes</answer>")}
    config = _config(tmp_path, model_path, media_dir, "out")
    for answer, expected in (("yes", 1.0), ("no", 0.0)):
        write_records(tmp_path / "records.jsonl", [question("a", None, answer)])
        summary = evaluate(config, engine=TableEngine(table))
        assert (summary.accuracy, summary.resumed_rows) == (expected, 0)


def test_a_crash_keeps_what_was_written(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    records = [question(name, None, "yes") for name in "abcd"]
    write_records(tmp_path / "records.jsonl", records)
    config = _config(tmp_path, model_path, media_dir, "out", load_workers=1)
    table = dict.fromkeys("ab", says("<answer>yes</answer>"))
    with pytest.raises(KeyError):
        evaluate(config, engine=TableEngine(table, max_concurrency=1))
    engine = TableEngine(dict.fromkeys("abcd", says("<answer>yes</answer>")))
    summary = evaluate(config, engine=engine)
    assert summary.accuracy == 1.0
    assert set(engine.seen) >= {"c", "d"}


def test_no_model_folder_is_a_clear_error(tmp_path: Path, media_dir: Path) -> None:
    write_records(tmp_path / "records.jsonl", [question("a", None, "yes")])
    with pytest.raises(ValueError, match="no local Hugging Face folder"):
        evaluate(_config(tmp_path, tmp_path / "nothing", media_dir, "out"))
