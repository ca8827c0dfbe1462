"""Batches: order, isolation of failures, time-outs that kill, threads."""

from __future__ import annotations

import os
import threading
import time

import pytest

from evr_rewards import BatchOptions, outcome_counts, score_records
from evr_rewards._pool import Task, WorkerPool, shared_pool

HANGING = "<answer>$9^{9^{9^{9}}}$</answer>"


def record(response, truth="B", kind="multiple choice", **fields):
    return {"response": response, "ground_truth": truth, "problem_type": kind, "options": ["A. x", "B. y"], **fields}


def test_one_bad_record_is_counted_and_the_rest_is_scored():
    records = [
        record("<answer>B</answer>"),
        record("<answer>A</answer>"),
        record("<answer>B</answer>", kind="multiple choise"),
        record(None),
        {"response": "<answer>B</answer>"},
        record("nothing"),
        record("<answer>1</answer>", truth="?", kind="numerical"),
    ]
    results = score_records(records)
    assert [str(result.outcome) for result in results] == [
        "correct",
        "wrong",
        "error",
        "error",
        "error",
        "unparsed",
        "error",
    ]
    assert outcome_counts(results) == {"correct": 1, "partial": 0, "wrong": 1, "unparsed": 1, "error": 4, "timeout": 0}
    assert "did you mean 'multiple choice'" in results[2].detail["error"]
    assert "ground_truth" in results[4].detail["error"]


def test_empty_batch():
    assert score_records([]) == []


def test_hanging_math_costs_its_time_out_and_others_finish():
    math = [record(f"<answer>{n}+x</answer>", truth=f"x+{n}", kind="math", options=[]) for n in range(20)]
    score_records(math[:1], BatchOptions(timeout_s=60))  # starts the processes
    records = (
        math[:10] + [record(HANGING, truth="7", kind="math")] * 6 + math[10:] + [record("<answer>B</answer>")] * 100
    )
    started = time.monotonic()
    results = score_records(records, BatchOptions(timeout_s=3))
    took = time.monotonic() - started
    counts = outcome_counts(results)
    assert counts["timeout"] == 6
    assert counts["correct"] == 120
    assert "3 s" in results[10].detail["error"]
    assert took < 12  # six in a row would take 18 s


def test_batch_time_out_covers_everything():
    started = time.monotonic()
    results = score_records(
        [record(HANGING, truth="7", kind="math")] * 3, BatchOptions(timeout_s=60, batch_timeout_s=1)
    )
    assert outcome_counts(results)["timeout"] == 3
    assert time.monotonic() - started < 4


def test_time_outs_work_in_threads():
    results: list = []
    options = BatchOptions(timeout_s=1)
    threads = [
        threading.Thread(target=lambda: results.extend(score_records([record(HANGING, "7", "math")], options)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [str(result.outcome) for result in results] == ["timeout"] * 3


def test_short_answers_start_no_process(monkeypatch):
    monkeypatch.setattr(WorkerPool, "take", lambda self: pytest.fail("a process was asked for"))
    records = [record("<answer>B</answer>")] * 64 + [record("<answer>3/4</answer>", "3/4", "math")] * 64
    assert outcome_counts(score_records(records))["correct"] == 128


def test_a_dying_worker_is_an_error_and_the_pool_goes_on():
    pool = WorkerPool()
    answers = pool.map([Task("os:_exit", 3), Task("os:getpgid", 0), Task("os:no_such", 0)], timeout_s=20)
    assert "died" in str(answers[0])
    assert isinstance(answers[1], int)
    assert "AttributeError" in str(answers[2])
    with pytest.raises(TimeoutError):
        pool.run(Task("time:sleep", 60), 0.3)
    group = pool.run(Task("os:getpgid", 0), 20)
    pool.close()
    time.sleep(0.3)
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_pool_is_shared():
    assert shared_pool("x") is shared_pool("x")


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"workers": -1}, {"batch_timeout_s": 0}])
def test_options_are_checked(wrong):
    with pytest.raises(ValueError, match="must be"):
        BatchOptions(**wrong)
