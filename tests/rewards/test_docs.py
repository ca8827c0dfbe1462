"""The examples of the documentation give what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evr_rewards.records import score_record

ROOT = Path(__file__).parents[2]
TABLE = (
    (ROOT / "docs" / "rewards.md")
    .read_text(encoding="utf-8")
    .partition("## Problem types")[2]
    .partition("`ocr exact`")[0]
)


def examples() -> list[tuple[str, str, str, str]]:
    rows, kind = [], ""
    for line in TABLE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 5 or not cells[2].startswith("`"):
            continue
        kind = cells[0].partition("(")[0].partition(",")[0].strip() or kind
        rows.append((kind, cells[2].strip("`"), cells[3].strip("`"), cells[4]))
    return rows


@pytest.mark.parametrize(("kind", "truth", "answer", "stated"), examples())
def test_table(kind, truth, answer, stated):
    kind = "html-code" if kind == "svg-code" else kind
    record = {"response": answer, "ground_truth": truth, "problem_type": kind}
    if kind == "multiple choice":
        record["options"] = ["A. Red", "B. Blue", "C. Green"]
    result = score_record(record)
    if stated == "unparsed":
        assert str(result.outcome) == stated
    else:
        assert result.accuracy == pytest.approx(float(stated))


def test_table_is_read():
    assert len(examples()) >= 16


def test_readme_program(capsys):
    text = (ROOT / "packages" / "evr-rewards" / "README.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", text, re.S)[1]
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("[1.0, 0.55] {'correct': 1, 'partial': 1")
