from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evr_eval import EvalConfig, compare_runs, evaluate
from support_eval import SMALL, TableEngine, question, says, write_records

RIGHT, WRONG = says("<answer>yes</answer>"), says("<answer>no</answer>")


def _run(tmp_path: Path, model_path: Path, media_dir: Path, name: str, right: str, **fields: Any) -> Path:
    config = EvalConfig.model_validate(
        {
            "model_path": model_path,
            "output_dir": tmp_path / name,
            "records": tmp_path / "records.jsonl",
            "media_dir": media_dir,
            "cache_dir": media_dir / "frames",
            **SMALL,
            **fields,
        }
    )
    evaluate(config, engine=TableEngine({letter: RIGHT if letter in right else WRONG for letter in "abcdefg"}))
    return config.output_dir


def test_paired_difference_by_hand(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    videos = ["red.mp4", "red.mp4", "blue.mp4", "blue.mp4", None, None]
    write_records(
        tmp_path / "records.jsonl", [question(name, video, "yes") for name, video in zip("abcdef", videos, strict=True)]
    )
    first = _run(tmp_path, model_path, media_dir, "a", "abf")
    second = _run(tmp_path, model_path, media_dir, "b", "acde")
    found = compare_runs(first, second)
    # c, d, e won, b and f lost: (3 - 2) / 6
    assert found.difference.value == pytest.approx(1 / 6)
    assert (found.tally.wins, found.tally.losses, found.tally.ties) == (3, 2, 1)
    assert found.difference.clusters == 4
    # cluster sums of the difference -1, +2, +1, -1 over 2, 2, 1, 1 questions; residuals S - n/6: -4/3, 5/3, 5/6, -7/6
    expected = (4 / 3 * ((4 / 3) ** 2 + (5 / 3) ** 2 + (5 / 6) ** 2 + (7 / 6) ** 2)) ** 0.5 / 6
    assert found.difference.standard_error == pytest.approx(expected)
    assert not found.significant
    assert found.tally_by_problem_type["boolean"] == found.tally
    assert (found.only_in_a, found.only_in_b) == ((), ())


def test_a_clear_gain_is_significant_and_unpaired_questions_are_named(
    tmp_path: Path, model_path: Path, media_dir: Path
) -> None:
    write_records(tmp_path / "records.jsonl", [question(name, None, "yes") for name in "abcdefg"])
    first = _run(tmp_path, model_path, media_dir, "a", "")
    second = _run(tmp_path, model_path, media_dir, "b", "abcdef", max_samples=6)
    found = compare_runs(first, second)
    assert found.significant
    assert (found.difference.value, found.only_in_a) == (1.0, ("g",))


def test_different_questions_are_refused(tmp_path: Path, model_path: Path, media_dir: Path) -> None:
    write_records(tmp_path / "records.jsonl", [question("a", None, "yes")])
    first = _run(tmp_path, model_path, media_dir, "a", "a")
    write_records(tmp_path / "records.jsonl", [question("a", None, "no")])
    second = _run(tmp_path, model_path, media_dir, "b", "a")
    with pytest.raises(ValueError, match="not the same in both runs"):
        compare_runs(first, second)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"summary\.json does not exist"):
        compare_runs(tmp_path, tmp_path)
