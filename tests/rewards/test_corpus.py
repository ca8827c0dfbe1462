"""Every line of data/corpus states a response, its reward and the reason for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evr_rewards import BatchOptions, score_records

CORPUS = sorted((Path(__file__).parent / "data" / "corpus").glob("*.jsonl"))
OWN = {"type", "reason", "response", "answer", "accuracy", "outcome", "format"}


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus(path):
    rows = rows_of(path)
    records = [
        {
            "response": row["response"],
            "ground_truth": row["answer"],
            "problem_type": row["type"],
            **{key: value for key, value in row.items() if key not in OWN},
        }
        for row in rows
    ]
    wrong = []
    for row, result in zip(rows, score_records(records, BatchOptions(timeout_s=60)), strict=True):
        ok = result.accuracy == pytest.approx(row["accuracy"], abs=1e-9)
        ok = ok and row.get("outcome", str(result.outcome)) == str(result.outcome)
        ok = ok and row.get("format", result.format) == result.format
        if not ok:
            wrong.append(
                f"{row['reason']}: {row['response'][-120:]!r} for {row['answer'][:80]!r} gives {result}, stated {row}"
            )
    assert not wrong, f"{len(wrong)} of {len(rows)}:\n" + "\n".join(wrong)


def test_corpus_is_large():
    assert sum(len(rows_of(path)) for path in CORPUS) >= 300
