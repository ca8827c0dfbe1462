from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evr_eval import MediaUse, Outcome, ResultRow
from evr_eval._store import ResultStore, read_rows

ROW = ResultRow(
    sample_id="a",
    config_hash="c",
    record_digest="r",
    benchmark="b@1",
    problem_type="boolean",
    cluster="a.mp4",
    groups={"task": "x"},
    outcome=Outcome.CORRECT,
    score=1.0,
    lenient_score=1.0,
    media=(MediaUse("a.mp4", "video", 4, 64, 64, (0, 8), (0.0, 1.0), "ff"),),
    response="<answer>ja\u2028\n</answer>",
)


def test_rows_come_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultStore(path) as store:
        store.append(ROW)
    assert list(read_rows(path)) == [ROW]
    assert ResultRow.from_json(ROW.to_json()) == ROW


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_torn_last_line_is_cut_off_at_every_byte(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "results.jsonl"
    whole = ROW.to_json().encode() + b"\n"
    for cut in (1, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole * kept + whole[:cut])
        with ResultStore(path) as store:
            assert store.torn_lines == 1
            store.append(dataclasses.replace(ROW, sample_id="b"))
        assert [row.sample_id for row in read_rows(path)] == ["a"] * kept + ["b"]


def test_a_torn_line_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(ROW.to_json().encode() + b"\n" + b"x" * 200_000)
    with ResultStore(path) as store:
        assert (store.torn_lines, len(store.rows)) == (1, 1)


def test_damage_before_the_last_line_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(f"{ROW.to_json()}\nnonsense\n{ROW.to_json()}\n")
    with pytest.raises(ValueError, match=r"results\.jsonl:2: damaged row"):
        ResultStore(path)


def test_two_writers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultStore(path), pytest.raises(ValueError, match="another evaluation is writing"):
        ResultStore(path)
