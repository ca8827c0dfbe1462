"""Built-in and user-written reward functions."""

from __future__ import annotations

import asyncio
import time

import pytest

from evr_core.schema import ProblemType
from evr_rewards import known_types, load_reward_function, register_scorer
from evr_rewards.registry import canonical_type, get_scorer

RECORD = {
    "response": "<answer>B</answer>",
    "response_length": 3,
    "ground_truth": "B",
    "problem_type": "multiple_choice",
    "data_type": "video",
    "options": ["A. x", "B. y"],
    "prompt": "Which?",
    "colour": "red",
}


def write(folder, text):
    path = folder / "reward.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_built_in_routes_by_problem_type():
    records = [RECORD, {**RECORD, "problem_type": "Numerical", "response": "<answer>3</answer>", "ground_truth": 3}]
    results = load_reward_function()(records)
    assert [(r["overall"], r["accuracy"], r["format"], r["outcome"]) for r in results] == [(1, 1, 1, "correct")] * 2


def test_truth_may_be_a_structure():
    record = {**RECORD, "problem_type": "temporal grounding", "response": "3 to 5", "ground_truth": {"time": [3, 5]}}
    assert load_reward_function()([record])[0]["accuracy"] == 1


def test_built_in_options():
    reward = load_reward_function(None, format_weight=0.3, require_thinking=True)
    assert reward([RECORD])[0]["overall"] == pytest.approx(0.7)
    with pytest.raises(ValueError, match="sum to 1"):
        load_reward_function(None, accuracy_weight=0.9, format_weight=0.3)
    with pytest.raises(ValueError, match=r"allowed: .*timeout_s"):
        load_reward_function(None, time_out=3)


def test_record_sees_every_field_and_kwargs(tmp_path):
    path = write(
        tmp_path, "def main(record, bonus=0):\n    return {'overall': len(record['colour']) + bonus, 'accuracy': 1.0}"
    )
    assert load_reward_function(path, bonus=2)([RECORD]) == [{"overall": 5.0, "accuracy": 1.0, "outcome": "correct"}]


def test_the_predecessors_signature(tmp_path):
    path = write(
        tmp_path,
        "def compute_score(reward_inputs: list[dict], format_weight: float = 0.1) -> list[dict]:\n"
        "    return [{'overall': format_weight, 'format': 1.0, 'accuracy': 0.0} for _ in reward_inputs]",
    )
    results = load_reward_function(f"{path}:compute_score", format_weight=0.5)([RECORD] * 3)
    assert results == [{"outcome": "wrong", "overall": 0.5, "format": 1.0, "accuracy": 0.0}] * 3


@pytest.mark.parametrize(
    ("head", "batch"),
    [
        ("def main(records)", True),
        ("def main(x: list)", True),
        ("from typing import List, Any\ndef main(x: List[Any])", True),
        ("from collections.abc import Sequence\ndef main(x: Sequence[dict])", True),
        ("def main(records: dict)", False),
        ("def main(record)", False),
        ("REWARD_TYPE = 'batch'\ndef main(x)", True),
        ("REWARD_TYPE = 'sequential'\ndef main(reward_inputs)", False),
        ("async def main(batch)", True),
        ("async def main(record)", False),
    ],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_batch_or_single_sync_or_async(tmp_path, head, batch, workers):
    first = head.rpartition("(")[2].partition(":")[0].partition(")")[0]
    body = f"    return [dict(overall=1.0) for _ in {first}]" if batch else "    return dict(overall=1.0)"
    reward = load_reward_function(write(tmp_path, f"{head}:\n{body}"), workers=workers)
    assert reward.takes_batch is batch
    assert reward([RECORD] * 3) == [{"outcome": "correct", "overall": 1.0}] * 3


def test_async_records_run_together(tmp_path):
    path = write(
        tmp_path, "import asyncio\nasync def main(record):\n    await asyncio.sleep(0.3)\n    return {'overall': 1.0}"
    )
    started = time.monotonic()
    results = load_reward_function(path)([RECORD] * 20)
    assert time.monotonic() - started < 2
    assert len(results) == 20


def test_inside_a_running_loop(tmp_path):
    path = write(tmp_path, "async def main(record):\n    return {'overall': 1.0}")

    async def step():
        return load_reward_function(path)([RECORD])

    assert asyncio.run(step())[0]["overall"] == 1


@pytest.mark.parametrize("head", ["def", "async def"])
@pytest.mark.parametrize("workers", [0, 1])
def test_failures_become_outcomes(tmp_path, head, workers):
    path = write(
        tmp_path,
        f"import asyncio, time\n{head} main(record):\n"
        "    what = record['colour']\n"
        "    if what == 'raise': raise KeyError('oops')\n"
        f"    if what == 'hang': {'await asyncio.sleep(9)' if 'async' in head else 'time.sleep(9)'}\n"
        "    return {'none': None, 'text': 'good', 'nan': {'overall': float('nan')}, 'number': 0.5}.get(what)",
    )
    reward = load_reward_function(path, timeout_s=1.0, workers=workers)
    kinds = ["raise", "hang", "none", "text", "nan", "number"]
    results = reward([{**RECORD, "colour": kind} for kind in kinds])
    assert [r["outcome"] for r in results] == ["error", "timeout", "error", "error", "error", "partial"]
    assert "KeyError" in results[0]["error"]
    assert all(r["error"] for r in results[:5])


def test_wrong_number_of_results(tmp_path):
    reward = load_reward_function(write(tmp_path, "def main(records):\n    return [{'overall': 1.0}]"))
    results = reward([RECORD, RECORD])
    assert [r["outcome"] for r in results] == ["error", "error"]
    assert "1 results for 2 records" in results[0]["error"]


def test_missing_file_and_function(tmp_path):
    with pytest.raises(ValueError, match="no Python file"):
        load_reward_function(tmp_path / "none.py")
    path = write(tmp_path, "def score(record): return 1.0")
    with pytest.raises(ValueError, match=r"no function 'main'.*it has score"):
        load_reward_function(path)
    (tmp_path / "none").mkdir()
    nothing = write(tmp_path / "none", "def other(): pass")
    with pytest.raises(ValueError, match="takes no argument"):
        load_reward_function(f"{nothing}:other")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("multiple_choice", "multiple choice"),
        ("Multiple-Choice", "multiple choice"),
        ("free-form", "open-ended"),
        ("video qa", "open-ended"),
        ("video_description", "open-ended"),
        ("Binary Classification", "boolean"),
        ("llava", "preference"),
        ("critic", "preference"),
        ("svg_code", "svg-code"),
        ("spatial temporal grounding", "spatial-temporal grounding"),
    ],
)
def test_aliases(given, meant):
    assert canonical_type(given) == meant


def test_every_type_of_the_schema_has_a_scorer():
    for kind in ProblemType:
        assert get_scorer(kind) is not None


def test_unknown_type_lists_known_and_nearest():
    with pytest.raises(ValueError, match=r"did you mean 'temporal grounding'.*Known types: boolean, code"):
        get_scorer("temporal groundin")


class Length:
    """A scorer of another package."""

    def extract(self, response, sample, *, truncated=False):
        from evr_rewards import Extraction, Source

        return Extraction(len(response), Source.TEXT, 1.0, response)

    def grade(self, value, sample):
        from evr_rewards import Grade

        return Grade(float(value == int(sample.answer)))


def test_registering_a_type():
    register_scorer("length_of_text", Length())
    assert "length of text" in known_types()
    record = {**RECORD, "problem_type": "Length-of-Text", "response": "four", "ground_truth": "4"}
    assert load_reward_function()([record])[0]["accuracy"] == 1
    with pytest.raises(ValueError, match="has a scorer already"):
        register_scorer("multiple-choice", Length())


def test_entry_points_of_other_packages(tmp_path):
    """A package that is only unpacked beside this one offers a type; seen from a fresh process."""
    import subprocess
    import sys

    (tmp_path / "other_scorers.py").write_text(
        "class Anything:\n"
        "    def extract(self, response, sample, *, truncated=False):\n"
        "        from evr_rewards import Extraction\n"
        "        return Extraction('x')\n"
        "    def grade(self, value, sample):\n"
        "        from evr_rewards import Grade\n"
        "        return Grade(1.0)\n"
    )
    info = tmp_path / "other_scorers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-scorers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[evr_rewards.scorers]\nanything = other_scorers:Anything\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from evr_rewards import load_reward_function\n"
        "print(load_reward_function()([dict(response='', ground_truth='y', problem_type='Anything')])[0]['accuracy'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "1.0"
