from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evr_eval import (
    EvalConfig,
    EvalProgress,
    EvalSummary,
    Generation,
    Outcome,
    evaluate,
    evaluate_async,
    load_summary,
    read_results,
)
from support_eval import COLOURS, SMALL, TableEngine, question, says, write_records

RIGHT = says("<answer>yes</answer>")
WRONG = says("<answer>no</answer>")
SILENT = says("I saw a dog.")
CUT = says("It might be that the", "length")


def _config(tmp_path: Path, model_path: Path, media_dir: Path, records: Path, **fields: Any) -> EvalConfig:
    return EvalConfig.model_validate(
        {
            "model_path": model_path,
            "output_dir": tmp_path / "out",
            "cache_dir": media_dir / "frames",
            "records": records,
            "media_dir": media_dir,
            **SMALL,
            **fields,
        }
    )


def _two_hundred(tmp_path: Path) -> tuple[Path, dict[str, Generation | str]]:
    """200 questions: 10 broken videos, 5 cut off, 5 engine errors, 100 right, 60 wrong, 20 without an answer."""
    records, table = [], {}
    responses = [CUT] * 5 + ["out of memory"] * 5 + [RIGHT] * 100 + [WRONG] * 60 + [SILENT] * 20
    for index, response in enumerate(responses):
        records.append(question(f"q{index:03}", f"{COLOURS[index % 4]}.mp4", "yes"))
        table[f"q{index:03}"] = response
    broken = ["empty.mp4", "text.mp4", "missing.mp4"]
    records += [question(f"x{index}", broken[index % 3], "yes") for index in range(10)]
    return write_records(tmp_path / "records.jsonl", records), table


def test_two_hundred_rows_are_counted_exactly(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    records, table = _two_hundred(tmp_path)
    seen: list[EvalProgress] = []
    summary = evaluate(
        _config(tmp_path, model_path, media_dir, records), engine=TableEngine(table), on_progress=seen.append
    )
    assert summary.outcomes == {
        "correct": 100,
        "partial": 0,
        "wrong": 60,
        "unparsed": 20,
        "truncated": 5,
        "media_error": 10,
        "engine_error": 5,
        "judge_error": 0,
    }
    assert (summary.num_expected, summary.num_rows, summary.num_missing) == (200, 200, 0)
    assert summary.accuracy == pytest.approx(0.5)
    assert summary.interval[0] is not None
    # four good clips, three broken ones: seven independent units
    assert summary.overall.clusters == 7
    assert [progress.done for progress in seen] == list(range(201))
    assert seen[-1].outcomes["media_error"] == 10
    assert summary.media["cache_hits"] + summary.media["cache_misses"] == 190
    rows = {row.sample_id: row for row in read_results(tmp_path / "out")}
    assert "empty.mp4" in rows["x0"].detail
    assert "text.mp4" in rows["x1"].detail
    assert "missing.mp4" in rows["x2"].detail
    assert rows["q005"].detail == "out of memory"
    assert rows["q010"].media[0].path == "blue.mp4"
    assert rows["q010"].visual_tokens == sum(use.visual_tokens for use in rows["q010"].media) > 0
    assert len(rows["q010"].media[0].frame_indices) == 4


def test_summary_and_results_are_written(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    records = write_records(tmp_path / "r.jsonl", [question("a", "red.mp4", "yes"), question("b", None, "no")])
    config = _config(tmp_path, model_path, media_dir, records)
    summary = evaluate(config, engine=TableEngine({"a": RIGHT, "b": WRONG}))
    assert load_summary(config.output_dir) == EvalSummary(**{**summary.__dict__})
    raw = json.loads((config.output_dir / "summary.json").read_text())
    assert raw["accuracy"] == 1.0
    assert str(media_dir) not in (config.output_dir / "results.jsonl").read_text()


def test_same_video_questions_reach_the_engine_together(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    records = [question(f"q{index}", f"{COLOURS[index % 4]}.mp4", "yes") for index in range(16)]
    engine = TableEngine({record["problem_id"]: RIGHT for record in records}, max_concurrency=1)
    path = write_records(tmp_path / "r.jsonl", records)
    evaluate(_config(tmp_path, model_path, media_dir, path, load_workers=1), engine=engine)
    assert [int(name[1:]) % 4 for name in engine.seen] == sorted(index % 4 for index in range(16))


@pytest.mark.parametrize("limits", [(1, 1, 1), (4, 3, 2), (2, 2, 500)])
def test_rows_do_not_depend_on_queues_or_workers(
    tmp_path: Path, model_path: Path, media_dir: Path, limits: tuple[int, int, int]
) -> None:
    records, table = _two_hundred(tmp_path)
    load, score, queue = limits
    config = _config(tmp_path, model_path, media_dir, records, load_workers=load, score_workers=score, queue_size=queue)
    summary = evaluate(config, engine=TableEngine(table, max_concurrency=load))
    rows = read_results(config.output_dir)
    assert [row.outcome for row in rows[:5]] == [Outcome.TRUNCATED] * 5
    assert (summary.accuracy, len(rows)) == (0.5, 200)
    # right: 25 of 48, 48, 47, 47 on the good clips, 0 of 4, 3, 3 on the broken; the squared residuals sum to 15
    assert summary.overall.standard_error == pytest.approx((7 / 6 * 15) ** 0.5 / 200)


def test_an_answer_given_before_the_cut_counts(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    records = write_records(tmp_path / "r.jsonl", [question("a", None, "yes"), question("b", None, "yes")])
    table = {"a": says("<answer>yes</answer> and moreover", "length"), "b": says("The answer is yes", "length")}
    summary = evaluate(_config(tmp_path, model_path, media_dir, records), engine=TableEngine(table))
    assert (summary.outcomes["correct"], summary.outcomes["truncated"]) == (1, 1)
    assert (summary.accuracy, summary.lenient.value) == (0.5, 1.0)


def test_missing_and_malformed_records_stay_in_the_denominator(
    tmp_path: Path, model_path: Path, media_dir: Path
) -> None:
    records = [question(name, None, "yes") for name in "abc"] + [{"problem": "no answer", "problem_type": "boolean"}]
    write_records(tmp_path / "r.jsonl", records)
    definition = {"name": "own", "version": 1, "record_file": "r.jsonl", "media_dir": ".", "expected_count": 10}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(definition))
    config = EvalConfig(
        model_path=model_path,
        output_dir=tmp_path / "out",
        benchmark=str(tmp_path / "own.yaml"),
        data_dir=tmp_path,
        skip_bad_records=True,
    )
    summary = evaluate(config, engine=TableEngine(dict.fromkeys("abc", RIGHT)))
    assert (summary.num_expected, summary.num_rows, summary.num_missing) == (10, 3, 7)
    assert summary.accuracy == pytest.approx(0.3)
    assert summary.count_note == "own@1 has 10 questions, the record file holds 4"
    assert len(summary.rejected) == 1
    assert "r.jsonl:4" in summary.rejected[0]
    with pytest.raises(ValueError, match=r"r\.jsonl:4"):
        evaluate(config.model_copy(update={"skip_bad_records": False}), engine=TableEngine({}))


def test_records_with_one_id_are_all_asked(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    records = [question("a", None, "yes"), {**question("a", None, "no"), "problem": "Is it blue?"}]
    config = _config(tmp_path, model_path, media_dir, write_records(tmp_path / "r.jsonl", records))
    summary = evaluate(config, engine=TableEngine({"a": RIGHT, "a#2": RIGHT}))
    assert (summary.num_expected, summary.num_rows, summary.accuracy) == (2, 2, 0.5)


def test_groups_and_problem_types_have_tables(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    records = [
        question("a", "red.mp4", "yes", task="colour"),
        question("b", "red.mp4", "yes", task="colour"),
        question("c", None, "yes", task="shape"),
        {**question("d", None, "3", task="shape"), "problem_type": "numerical"},
    ]
    write_records(tmp_path / "r.jsonl", records)
    definition = {
        "name": "own",
        "version": 1,
        "record_file": str(tmp_path / "r.jsonl"),
        "media_dir": str(media_dir),
        "group_keys": [{"name": "task", "fields": ["task"]}, {"name": "level", "fields": ["level"]}],
        "aggregation": "mean_of_groups",
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(definition))
    config = EvalConfig(
        model_path=model_path, output_dir=tmp_path / "out", benchmark=str(tmp_path / "own.yaml"), **SMALL
    )
    table = {"a": RIGHT, "b": RIGHT, "c": RIGHT, "d": says("<answer>4</answer>")}
    summary = evaluate(config, engine=TableEngine(table))
    assert {name: entry.value for name, entry in summary.by_group["task"].items()} == {"colour": 1.0, "shape": 0.5}
    assert list(summary.by_group["level"]) == ["(none)"]
    assert {name: (entry.value, entry.count) for name, entry in summary.by_problem_type.items()} == {
        "boolean": (1.0, 3),
        "numerical": (0.0, 1),
    }
    assert summary.native.value == pytest.approx(0.75)
    assert summary.accuracy == pytest.approx(0.75)


def test_inside_an_event_loop_the_async_form_is_named(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    records = write_records(tmp_path / "r.jsonl", [question("a", None, "yes")])
    config = _config(tmp_path, model_path, media_dir, records)

    async def both() -> EvalSummary:
        with pytest.raises(ValueError, match="await evaluate_async"):
            evaluate(config, engine=TableEngine({"a": RIGHT}))
        return await evaluate_async(config, engine=TableEngine({"a": RIGHT}))

    assert asyncio.run(both()).accuracy == 1.0
