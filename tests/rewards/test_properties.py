"""What must hold for any input."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evr_core.schema import DataType, ProblemType, Sample
from evr_rewards import score
from evr_rewards.scorers._boxes import box_iou, mean_matched_iou, track_iou
from evr_rewards.scorers.open_ended import rouge_f1
from evr_rewards.scorers.regression import mean_relative_accuracy
from evr_rewards.scorers.temporal import temporal_iou

settings.register_profile("rewards", deadline=None)
settings.load_profile("rewards")

number = st.floats(0, 1e6, allow_nan=False, width=32)
interval = st.tuples(number, number).map(lambda pair: (min(pair), max(pair)))
intervals = st.lists(interval, min_size=1, max_size=4)
box = st.tuples(number, number, number, number).map(
    lambda n: (min(n[0], n[2]), min(n[1], n[3]), max(n[0], n[2]), max(n[1], n[3]))
)
track = st.dictionaries(st.integers(0, 5).map(float), box, min_size=1, max_size=5)
words = st.lists(st.sampled_from(["a", "b", "c", "d", "猫"]), min_size=1, max_size=12)

# One sample of every type whose answer, given back, must score 1; responses that are wrong or partly right.
EXAMPLES = {
    "multiple choice": ("B", ("C", "nothing")),
    "numerical": ("12", ("13", "12 or 13")),
    "regression": ("12.5", ("13", "far")),
    "boolean": ("yes", ("no", "perhaps")),
    "temporal grounding": ('{"time": [3.0, 7.5]}', ('{"time": [3.0, 5]}', "later")),
    "spatial grounding": ('{"boxes": [1, 2, 30, 40]}', ("[1, 2, 30, 20]", "left")),
    "spatial-temporal grounding": ('{"time": [0, 1], "boxes": {"0": [1, 2, 30, 40]}}', ('{"time": [0, 2]}', "left")),
    "tracking": ('{"boxes": {"0": [1, 2, 30, 40]}}', ('{"0": [1, 2, 30, 20]}', "left")),
    "open-ended": ("a cat jumps", ("a dog jumps", "no")),
    "ocr": ("STOP AHEAD", ("STOP", "GO")),
    "ocr exact": ("STOP AHEAD", ("STOP", "GO")),
    "math": ("\\frac{1}{2}", ("1/2", "3")),
    "code": ("def f(x):\n    return x", ("def f(y):\n    return y", "x =")),
    "svg-code": ('<svg width="9"><rect x="1"/></svg>', ('<svg width="9"/>', "a square")),
    "html-code": ("<div><p>Hi you</p></div>", ("<div>Hi</div>", "Hi")),
    "preference": ("Response 2", ("Response 1", "good")),
}


def sample(kind: str) -> Sample:
    options = ("A. Red", "B. Blue", "C. Green") if kind == "multiple choice" else ()
    problem_type = ProblemType(kind) if kind in list(ProblemType) else kind
    return Sample("s", "q", EXAMPLES[kind][0], problem_type, DataType.TEXT, options=options)


def test_every_type_has_an_example():
    assert set(EXAMPLES) >= set(ProblemType)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_identical_answer_scores_one(kind):
    result = score(f"<answer>{EXAMPLES[kind][0]}</answer>", sample(kind))
    assert (result.accuracy, result.format, result.overall) == (1, 1, 1)


thinking = st.text(st.characters(exclude_characters="<>◁▷", exclude_categories=["Cs"]), max_size=60)
markers = st.sampled_from(["", "<answer>C</answer>", "\\boxed{7}", "The answer is A.", '{"time": [0, 1]}', "\n12\n"])


@pytest.mark.parametrize("kind", EXAMPLES)
@given(thought=thinking, marker=markers, data=st.data())
@settings(max_examples=15, deadline=None)
def test_thinking_never_matters(kind, thought, marker, data):
    answer = data.draw(st.sampled_from([EXAMPLES[kind][0], *EXAMPLES[kind][1]]))
    tagged = data.draw(st.booleans())
    final = f"<answer>{answer}</answer>" if tagged else answer
    plainly = score(final, sample(kind))
    assert score(f"<think>{thought}{marker}</think>{final}", sample(kind)) == plainly


blank = st.text(" \n\t", max_size=4)


@pytest.mark.parametrize("kind", EXAMPLES)
@given(parts=st.tuples(blank, blank, blank, blank), data=st.data())
@settings(max_examples=15, deadline=None)
def test_white_space_never_matters(kind, parts, data):
    answer = data.draw(st.sampled_from([EXAMPLES[kind][0], *EXAMPLES[kind][1]]))
    plainly = score(f"<answer>{answer}</answer>", sample(kind))
    before, inside, behind, after = parts
    moved = score(f"{before}<answer>{inside}{answer}{behind}</answer>{after}", sample(kind))
    assert (moved.overall, moved.accuracy, moved.format, moved.outcome) == (
        plainly.overall,
        plainly.accuracy,
        plainly.format,
        plainly.outcome,
    )


@pytest.mark.parametrize("kind", sorted(set(EXAMPLES) - {"math", "code"}))
@given(response=st.text(max_size=120))
@settings(max_examples=60, deadline=None)
def test_any_text_gets_a_reward_in_range(kind, response):
    result = score(response, sample(kind))
    assert 0 <= result.overall <= 1
    assert 0 <= result.accuracy <= 1
    assert result.format in (0, 0.5, 1)


@given(intervals, intervals)
def test_temporal_iou(first, second):
    value = temporal_iou(first, second)
    assert 0 <= value <= 1
    assert value == pytest.approx(temporal_iou(second, first))
    assert temporal_iou(first, first) == 1


@given(st.sets(st.integers(0, 20), min_size=1), st.sets(st.integers(0, 20), min_size=1))
def test_temporal_iou_counts_seconds(first, second):
    """Against counting whole seconds."""
    slow = len(first & second) / len(first | second)
    assert temporal_iou([(s, s + 1) for s in first], [(s, s + 1) for s in second]) == pytest.approx(slow)


@given(box, box)
def test_box_iou(first, second):
    value = box_iou(first, second)
    assert 0 <= value <= 1
    assert value == pytest.approx(box_iou(second, first))
    assert box_iou(first, first) == 1


small = st.tuples(*[st.integers(0, 6)] * 4).map(
    lambda n: (min(n[0], n[2]), min(n[1], n[3]), max(n[0], n[2]) + 1, max(n[1], n[3]) + 1)
)


@given(small, small)
def test_box_iou_counts_pixels(first, second):
    """Against counting pixels."""
    pixels = [{(x, y) for x in range(b[0], b[2]) for y in range(b[1], b[3])} for b in (first, second)]
    assert box_iou(first, second) == pytest.approx(len(pixels[0] & pixels[1]) / len(pixels[0] | pixels[1]))


@given(st.lists(box, min_size=1, max_size=4), st.lists(box, min_size=1, max_size=4))
def test_matched_boxes(first, second):
    value = mean_matched_iou(first, second)
    assert 0 <= value <= 1
    assert mean_matched_iou(first, first) == pytest.approx(1)


@given(track, track)
def test_track_iou(first, second):
    value = track_iou(first, second)
    assert 0 <= value <= 1
    assert value == pytest.approx(track_iou(second, first))
    assert track_iou(first, first) == 1


@given(words, words)
def test_rouge_equals_the_reference_library(candidate, reference):
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")

    class Split:
        def tokenize(self, text):
            return text.split()

    theirs = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=Split()).score(
        " ".join(reference), " ".join(candidate)
    )
    for name, value in rouge_f1(candidate, reference).items():
        assert value == pytest.approx(theirs[name].fmeasure)


@given(st.integers(1, 400), st.integers(1, 400))
def test_mean_relative_accuracy_is_exact(value, truth):
    """Against whole-number arithmetic: |value - truth| * 20 <= k * truth for k = 1..10."""
    slow = sum(abs(value - truth) * 20 <= k * truth for k in range(1, 11)) / 10
    assert mean_relative_accuracy(value / 8, truth / 8) == slow


json_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-99, 99)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(json_value, max_size=4) | st.dictionaries(st.text(max_size=5), json_value, max_size=4))
def test_lenient_reader_reads_json(value):
    from evr_rewards.scorers._lenient_json import json_values

    written = json.dumps(value, ensure_ascii=False)
    if "\\" not in written:
        assert list(json_values(f"see {written} ok")) == [value]
