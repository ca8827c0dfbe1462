"""Metrics, status and generations as their readers find them, also after a kill and a resume."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from evr_apps.demo.tokenizer import build_tokenizer
from evr_core import DataType, ProblemType, Sample, geometry_for
from evr_trainer.tracking import GenerationLog, PhaseClock, log_all, make_trackers, rewind_jsonl
from evr_trainer.tracking.trackers import ConsoleTracker, FileTracker, TensorBoardTracker
from evr_video import FrameCache, MediaHandle, encode_prompt


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows read as strictly as other programs read JSON: NaN and Infinity are none."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{path.name} holds {name}, which is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def scalars(log_dir: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows: (step, value) of every tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(log_dir / "tensorboard")).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_a_rewound_file_keeps_whole_rows_up_to_the_step_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    kept = '{"step": 1, "a": null}\n{"a": 0.10, "step":2}\n'
    path.write_text(kept + '{"step": 3, "a": 1}\n{"step": 4, "a"')
    rewind_jsonl(path, 2)
    assert path.read_text() == kept


def test_a_last_row_that_lacks_only_its_line_end_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}')
    rewind_jsonl(path, 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 6), st.integers(0, 80), st.integers(-1, 8))
def test_wherever_a_write_was_torn_the_rows_before_it_are_kept(
    tmp_path_factory: pytest.TempPathFactory, num_rows: int, cut: int, step: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "metrics.jsonl"
    text = "".join(json.dumps({"step": i, "é": "é"}) + "\n" for i in range(num_rows))
    path.write_text(text[:cut])
    whole = sum(1 for i in range(num_rows) if len("\n".join(text.splitlines()[: i + 1])) <= cut)
    rewind_jsonl(path, step)
    assert [row["step"] for row in rows_of(path)] == list(range(min(whole, step + 1)))


def test_rewinding_is_one_rename_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n')
    before = path.open()  # whoever reads the old file goes on reading all of it
    rewind_jsonl(path, 1)
    assert before.read() == '{"step": 1}\n{"step": 2}\n'
    before.close()
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_rewinding_makes_no_file(tmp_path: Path) -> None:
    rewind_jsonl(tmp_path / "metrics.jsonl", 3)
    assert not list(tmp_path.iterdir())


def test_file_rows_are_json_whatever_the_numbers_are(tmp_path: Path) -> None:
    tracker = FileTracker(tmp_path, resumed_step=0)
    tracker.log(1, {"a": 0.1, "b": math.nan, "c": math.inf, "d": -math.inf, "e": 1e-300})
    tracker.close()
    assert rows_of(tmp_path / "metrics.jsonl") == [{"step": 1, "a": 0.1, "b": None, "c": None, "d": None, "e": 1e-300}]


def test_file_of_a_resumed_run_holds_every_step_once(tmp_path: Path) -> None:
    first = FileTracker(tmp_path, resumed_step=0)
    for step in (1, 2, 3):
        first.log(step, {"run": 1.0})
    with first.path.open("a") as stream:
        stream.write('{"step": 4, "ru')  # killed here; the newest checkpoint is that of step 2
    second = FileTracker(tmp_path, resumed_step=2)
    for step in (3, 4):
        second.log(step, {"run": 2.0})
    assert [(row["step"], row["run"]) for row in rows_of(second.path)] == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)]


def test_file_of_a_run_begun_anew_holds_step_0_once(tmp_path: Path) -> None:
    """A run killed before its first checkpoint validates again before it trains: nothing counts as done then."""
    FileTracker(tmp_path, resumed_step=0).log(0, {"val/overall": 0.5})
    again = FileTracker(tmp_path, resumed_step=-1)
    again.log(0, {"val/overall": 0.5})
    assert rows_of(again.path) == [{"step": 0, "val/overall": 0.5}]


def test_tensorboard_reads_every_metric(tmp_path: Path) -> None:
    tracker = TensorBoardTracker(tmp_path, resumed_step=0)
    tracker.log(0, {"val/overall": 0.25})
    tracker.log(1, {"reward/overall": 0.5, "reward/outcome/error": 0.0})
    tracker.log(2, {"reward/overall": 0.75, "reward/outcome/error": 0.125})
    tracker.close()
    assert scalars(tmp_path) == {
        "val/overall": [(0, 0.25)],
        "reward/overall": [(1, 0.5), (2, 0.75)],
        "reward/outcome/error": [(1, 0.0), (2, 0.125)],
    }


def test_tensorboard_of_a_resumed_run_shows_every_step_once(tmp_path: Path) -> None:
    first = TensorBoardTracker(tmp_path, resumed_step=0)
    for step in (0, 1, 2, 3, 4):
        first.log(step, {"a": 1.0 + step})
    first.close()
    second = TensorBoardTracker(tmp_path, resumed_step=2)
    for step in (3, 4, 5):
        second.log(step, {"a": 11.0 + step})
    second.close()
    assert scalars(tmp_path) == {"a": [(0, 1.0), (1, 2.0), (2, 3.0), (3, 14.0), (4, 15.0), (5, 16.0)]}


def test_tensorboard_shows_a_step_when_it_is_logged(tmp_path: Path) -> None:
    """Nothing is left for close() to write: a killed run never comes to it, and its resume does not log it again."""
    tracker = TensorBoardTracker(tmp_path, resumed_step=0)
    for step in (1, 2, 3):
        tracker.log(step, {"a": float(step)})
    shown: dict[str, list[tuple[int, float]]] = {}
    deadline = time.monotonic() + 20  # a thread writes; a buffer would be flushed after two minutes only
    while len(shown.get("a", [])) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
        shown = scalars(tmp_path)
    tracker.close()
    assert shown == {"a": [(1, 1.0), (2, 2.0), (3, 3.0)]}


def test_console_prints_what_one_looks_at_first_in_a_fixed_order() -> None:
    lines: list[str] = []
    tracker = ConsoleTracker(20, lines.append)
    metrics = {
        "timing_s/step": 12345.6,
        "response_length/mean": 7.0,
        "actor/grad_norm": 0.00012345,
        "reward/overall": 0.61249,
        "actor/pg_loss": -0.0421,
        "perf/throughput": 1.0,
    }
    tracker.log(3, metrics)
    tracker.log(4, {"perf/throughput": 1.0, "reward/overall": math.nan})
    tracker.close()
    assert lines == [
        "step 3/20  reward/overall 0.612  actor/pg_loss -0.042  actor/grad_norm 0.000123  response_length/mean 7.000  "
        "timing_s/step 1.23e+04",
        "step 4/20  reward/overall nan",
    ]


def test_console_writes_one_plain_line_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    ConsoleTracker(2).log(1, {f"{kind}/{name}": 0.5 for kind, name in (("reward", "overall"), ("sft", "loss"))})
    assert capsys.readouterr().out == "step 1/2  reward/overall 0.500  sft/loss 0.500\n"


def test_trackers_by_name_and_the_file_always(tmp_path: Path) -> None:
    lines: list[str] = []
    log_dir = tmp_path / "run" / "logs"
    trackers = make_trackers(
        ["console", "tensorboard", "file"], log_dir, total_steps=2, resumed_step=0, print_line=lines.append
    )
    assert [type(tracker) for tracker in trackers] == [FileTracker, ConsoleTracker, TensorBoardTracker]
    log_all(trackers, 1, {"reward/overall": 0.5})
    for tracker in trackers:
        tracker.close()
    assert rows_of(log_dir / "metrics.jsonl") == [{"step": 1, "reward/overall": 0.5}]
    assert lines == ["step 1/2  reward/overall 0.500"]
    assert scalars(log_dir) == {"reward/overall": [(1, 0.5)]}
    assert [type(tracker) for tracker in make_trackers([], log_dir, total_steps=2, resumed_step=1)] == [FileTracker]


def test_an_unknown_tracker_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^trainer\.logger=wandb is not available; allowed: console, file, tensorb"):
        make_trackers(["wandb"], tmp_path, total_steps=1, resumed_step=0)


def test_status_says_what_is_being_done(tmp_path: Path) -> None:
    clock = PhaseClock(tmp_path)
    clock.start(7)
    before = time.time()
    with clock.phase("rollout"):
        status = json.loads((tmp_path / "status.json").read_text())
        assert before <= status.pop("since") <= time.time()
        assert status == {"step": 7, "phase": "rollout", "pid": os.getpid()}
    with clock.phase("update"):
        assert json.loads((tmp_path / "status.json").read_text())["phase"] == "update"
    assert [file.name for file in tmp_path.iterdir()] == ["status.json"]


def test_status_of_a_failed_run_is_the_phase_that_failed(tmp_path: Path) -> None:
    clock = PhaseClock(tmp_path)
    clock.start(2)

    @clock.phase("reward")
    def fail() -> None:
        time.sleep(0.01)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["step"], status["phase"]) == (2, "reward")
    assert clock.metrics()["timing_s/reward"] >= 0.01


def test_phases_add_up_within_a_step_and_start_anew_with_the_next(tmp_path: Path) -> None:
    clock = PhaseClock(tmp_path)
    clock.start(1)
    started = time.perf_counter()
    for name, seconds in (("reward", 0.03), ("update", 0.02), ("reward", 0.04)):
        with clock.phase(name):
            time.sleep(seconds)
    wall_s = time.perf_counter() - started
    metrics = clock.metrics()
    assert metrics.keys() == {"timing_s/reward", "timing_s/update", "timing_s/step"}
    assert metrics["timing_s/reward"] >= 0.07
    assert metrics["timing_s/update"] >= 0.02
    assert metrics["timing_s/step"] == pytest.approx(metrics["timing_s/reward"] + metrics["timing_s/update"])
    assert metrics["timing_s/step"] <= wall_s
    clock.start(2)
    assert clock.metrics() == {"timing_s/step": 0}


@pytest.fixture
def seen(tmp_path: Path) -> tuple[Sample, Any]:
    """A sample with a picture, and its prompt."""
    picture = tmp_path / "picture.png"
    Image.new("RGB", (96, 64), (200, 30, 30)).save(picture)
    sample = Sample("q-1", "Which colour?", "Grün", ProblemType.OPEN_ENDED, DataType.IMAGE, images=(picture,))
    geometry = geometry_for("qwen3-vl")
    handle = FrameCache(tmp_path / "cache").ensure_image(picture, geometry, min_pixels=1024, max_pixels=4096)
    tokenizer = build_tokenizer(["Which colour is it? red"], vocab_size=300)
    return sample, encode_prompt(sample, tokenizer, media=[handle], geometry=geometry)


def test_a_logged_group_has_question_truth_media_and_responses(tmp_path: Path, seen: tuple[Sample, Any]) -> None:
    sample, prompt = seen
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    responses = [{"text": "a\nbé", "overall": 0.5, "outcome": "partial"}, {"text": "", "overall": 0.0, "outcome": ""}]
    GenerationLog(log_dir, resumed_step=0).log(3, sample, prompt, responses)
    (row,) = rows_of(log_dir / "generations.jsonl")
    media = row.pop("media")
    assert row == {
        "step": 3,
        "problem_id": "q-1",
        "problem": "Which colour?",
        "answer": "Grün",
        "problem_type": "open-ended",
        "responses": responses,
    }
    (handle,) = [MediaHandle.from_dict(fields) for fields in media]
    assert handle == prompt.media[0]
    assert tuple(handle.open().pixels.shape[1:]) == (handle.plan.height, handle.plan.width)


def test_generations_of_a_resumed_run_hold_every_step_once(tmp_path: Path, seen: tuple[Sample, Any]) -> None:
    first = GenerationLog(tmp_path, resumed_step=0)
    for step in (1, 2, 3):
        first.log(step, *seen, [{"text": "first"}])
    second = GenerationLog(tmp_path, resumed_step=1)
    second.log(2, *seen, [{"text": "second"}])
    assert [(row["step"], row["responses"][0]["text"]) for row in rows_of(second.path)] == [(1, "first"), (2, "second")]
