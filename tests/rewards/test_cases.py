"""The shared examples, and values worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evr_core.schema import DataType, ProblemType, Sample
from evr_rewards import Outcome, RewardWeights, Source, extract_choice, score

DATA = Path(__file__).parent / "data"


def sample(problem_type: str, answer: str, **fields) -> Sample:
    return Sample("s1", "What?", answer, ProblemType(problem_type), DataType.TEXT, **fields)


def cases(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", cases("choice.jsonl"), ids=lambda case: case["response"][:40])
def test_choice_cases(case):
    assert extract_choice(case["response"], case["options"]).value == case["expected"]


@pytest.mark.parametrize("case", cases("numerical.jsonl"), ids=lambda case: case["response"][:40])
def test_numerical_cases(case):
    assert score(case["response"], sample("numerical", case["answer"])).accuracy == case["accuracy"]


def test_extraction_says_where_and_how_sure():
    found = {
        text: (extraction.source, extraction.confidence)
        for text in ("<answer>B</answer>", "\\boxed{B}", "The answer is B.", "B", "I looked.\nB", "I saw a dog")
        for extraction in [extract_choice(text, ["x", "y"])]
    }
    assert found == {
        "<answer>B</answer>": (Source.TAG, 1.0),
        "\\boxed{B}": (Source.BOXED, 0.95),
        "The answer is B.": (Source.STATEMENT, 0.85),
        "B": (Source.TEXT, 0.6),
        "I looked.\nB": (Source.LAST_LINE, 0.5),
        "I saw a dog": (None, 0.0),
    }


def test_overall_is_the_weighted_sum():
    right_without_tag = score("The answer is B", sample("multiple choice", "B", options=("x", "y")))
    assert (right_without_tag.overall, right_without_tag.accuracy, right_without_tag.format) == (0.9, 1.0, 0.0)
    half = score("<answer>14</answer>", sample("regression", "10"), weights=RewardWeights(accuracy=0.5, format=0.5))
    assert half.overall == pytest.approx(0.5 * 0.3 + 0.5)
    wrong_kind = score("<answer>far</answer>", sample("regression", "10"))
    assert (wrong_kind.overall, wrong_kind.outcome) == (pytest.approx(0.05), Outcome.UNPARSED)


@pytest.mark.parametrize(("accuracy", "form"), [(0.9, 0.2), (1.1, -0.1), (0.0, 0.0)])
def test_weights_must_sum_to_one(accuracy, form):
    with pytest.raises(ValueError, match="sum to 1"):
        RewardWeights(accuracy, form)


def test_thinking_can_be_required_for_the_format():
    question = sample("multiple choice", "B", options=("x", "y"))
    assert score("<answer>B</answer>", question, require_thinking=True).format == 0
    assert score("<think>hm</think><answer>B</answer>", question, require_thinking=True).format == 1


def test_unusable_truth_is_an_error_that_names_the_sample():
    result = score("<answer>3</answer>", sample("numerical", "many"))
    assert result.outcome is Outcome.ERROR
    assert result.overall == 0
    assert "s1" in result.detail["error"]
    assert "many" in result.detail["error"]
