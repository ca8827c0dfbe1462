"""From responses to rewards: the records that reward functions see, and what becomes of their answers in Ray."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from evr_apps.demo.tokenizer import build_tokenizer
from evr_core import DataType, ProblemType, Sample, geometry_for
from evr_rewards import RewardWeights, score
from evr_trainer.carriers import RolloutBatch
from evr_trainer.cluster import payload_bytes, ray_cluster, require_ray
from evr_trainer.config import RewardConfig
from evr_trainer.rollout import Response
from evr_trainer.scoring import Rewards, Scorer, _metric_names, reward_records
from evr_video import encode_prompt

# What it does is told by the response, so that one scorer serves every test.
REWARD_FILE = """
import os, time

def main(record, scale=1.0):
    kind, _, text = record["response"].partition(" ")
    if kind == "raise":
        raise KeyError(text)
    if kind == "hang":
        time.sleep(120)
    if kind == "nothing":
        return {"accuracy": 1.0}
    if kind == "nan":
        return {"overall": float("nan")}
    result = {"overall": scale * float(text), "pid": os.getpid(), "kind": kind}
    return result | {"bonus": 0.5} if kind == "bonus" else result
"""
TIMEOUT_S = 1.0
NAN = math.nan

SAMPLES = (
    Sample(
        "choice-1",
        "Which colour is it?",
        "B",
        ProblemType.MULTIPLE_CHOICE,
        DataType.TEXT,
        options=("A. red", "B. blue"),
        data_source="unit",
        extra={"level": 3, "response": "not this one", "truncated": "nor this"},
    ),
    Sample("count-1", "How many are there?", "4", ProblemType.NUMERICAL, DataType.TEXT),
)
TEXTS = (("<answer>B</answer>", "<answer>A</answer>", "blue, <answer>B"), ("<answer>4</answer>", "", "four or five"))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer([f"{s.problem} {s.answer}" for s in SAMPLES] + [t for g in TEXTS for t in g], vocab_size=320)


@pytest.fixture(scope="module")
def rollouts(tokenizer: Any) -> RolloutBatch:
    """Two prompts with three responses; the third of each was cut off, so that it has no end-of-sequence token."""

    def response(text: str, place: int) -> Response:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = ids if place == 2 else [*ids, tokenizer.eos_token_id]
        return Response(tuple(ids), (-0.5,) * len(ids), "length" if place == 2 else "stop")

    geometry = geometry_for("qwen3-vl")
    prompts = [encode_prompt(sample, tokenizer, media=(), geometry=geometry) for sample in SAMPLES]
    groups = [[response(text, place) for place, text in enumerate(texts)] for texts in TEXTS]
    return RolloutBatch.of(prompts, groups, n=3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with ray_cluster(None, num_cpus=2):
        yield


@pytest.fixture(scope="module")
def scorers(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Scorer]]:
    """The built-in routing in one process, a user's file in two, a function there is not; they start side by side."""
    file = tmp_path_factory.mktemp("reward") / "reward.py"
    file.write_text(REWARD_FILE)
    user = RewardConfig(
        reward_function=str(file), reward_function_kwargs={"scale": 2.0}, num_cpus=2, timeout_s=TIMEOUT_S
    )
    made = {
        "built-in": Scorer(RewardConfig(accuracy_weight=0.7, format_weight=0.3)),
        "user": Scorer(user),
        "missing": Scorer(RewardConfig(reward_function=f"{file}:mian")),
    }
    score_texts(made["user"], ["ok 1", "ok 1"])  # later times are without the start of the processes
    made["user"].take_bytes()
    yield made
    for scorer in made.values():
        scorer.close()


def score_texts(scorer: Scorer, texts: list[str], n: int = 1) -> Rewards:
    return scorer.collect(scorer.submit([{"response": text} for text in texts]), len(texts) // n, n)


def test_records_hold_every_field_in_the_order_of_the_responses(rollouts: RolloutBatch, tokenizer: Any) -> None:
    records = reward_records(rollouts, SAMPLES, tokenizer, skip_special_tokens=True)
    assert [record["response"] for record in records] == [text for group in TEXTS for text in group]
    assert [record["problem_id"] for record in records] == ["choice-1"] * 3 + ["count-1"] * 3
    assert [record["truncated"] for record in records] == [False, False, True] * 2
    assert records[2] == {
        "level": 3,
        "response": "blue, <answer>B",
        "response_length": len(tokenizer("blue, <answer>B")["input_ids"]),
        "truncated": True,
        "ground_truth": "B",
        "problem_type": "multiple choice",
        "data_type": "text",
        "options": ["A. red", "B. blue"],
        "prompt": "Which colour is it?",
        "problem_id": "choice-1",
        "data_source": "unit",
    }
    assert records[4]["response_length"] == 1  # the end-of-sequence token alone
    assert [type(records[3][key]) for key in ("problem_type", "data_type", "truncated", "response_length")] == [
        str,
        str,
        bool,
        int,
    ]


def test_special_tokens_are_in_the_text_when_they_are_asked_for(rollouts: RolloutBatch, tokenizer: Any) -> None:
    records = reward_records(rollouts, SAMPLES, tokenizer, skip_special_tokens=False)
    end = ["<|im_end|>", "<|im_end|>", ""]
    assert [r["response"] for r in records] == [text + end[i] for group in TEXTS for i, text in enumerate(group)]


def test_padding_is_in_no_record(rollouts: RolloutBatch, tokenizer: Any) -> None:
    """The same responses in a batch with a longer one of another prompt make the same records."""
    whole = reward_records(rollouts, SAMPLES, tokenizer, skip_special_tokens=False)
    parts = [
        record
        for g, sample in enumerate(SAMPLES)
        for record in reward_records(rollouts.select([g]), [sample], tokenizer, skip_special_tokens=False)
    ]
    assert whole == parts


def rewards_of(metrics: dict[str, list[list[float]]], outcomes: list[list[str]]) -> Rewards:
    return Rewards({name: torch.tensor(rows) for name, rows in metrics.items()}, outcomes, [[""] * 2] * len(outcomes))


def test_summary_by_hand() -> None:
    metrics = {
        "overall": [[1.0, NAN], [0.5, 0.25]],
        "iou": [[NAN, NAN], [0.2, 0.6]],
        "none": [[NAN, NAN], [NAN, NAN]],
    }
    summary = rewards_of(metrics, [["correct", "timeout"], ["partial", ""]]).summary()
    assert math.isnan(summary.pop("reward/none"))
    assert summary == pytest.approx(
        {
            "reward/overall": 1.75 / 3,  # of those that could be scored
            "reward/iou": 0.4,  # of those that have one
            "reward/outcome/correct": 1 / 3,  # of those that name an outcome
            "reward/outcome/partial": 1 / 3,
            "reward/outcome/timeout": 1 / 3,
            "reward/outcome/error": 0.0,  # failures are always there to see
        }
    )


def test_summary_without_outcomes_still_counts_failures() -> None:
    summary = rewards_of({"overall": [[0.5, 1.0]]}, [["", ""]]).summary()
    assert summary == {"reward/overall": 0.75, "reward/outcome/error": 0.0, "reward/outcome/timeout": 0.0}


def test_where_scoring_failed_the_reward_is_the_mean_of_the_groups_others() -> None:
    """So that its own advantage is zero."""
    rewards = rewards_of({"overall": [[1.0, 0.0, NAN], [NAN, 0.75, NAN], [NAN, NAN, NAN]]}, [])
    assert rewards.overall.tolist() == [[1.0, 0.0, 0.5], [0.75, 0.75, 0.75], [0.0, 0.0, 0.0]]


def test_metrics_are_the_keys_that_are_numbers_wherever_they_are() -> None:
    rows = [
        {"overall": 1, "format": 0.5, "passed": True, "note": "x", "mixed": 1.0, "outcome": 1, "extracted": 4},
        {"overall": 0.0, "iou": math.nan, "passed": False, "mixed": "1", "error": 7, "detail": 2, "null": None},
    ]
    assert _metric_names(rows) == ["format", "iou", "overall"]
    assert _metric_names([]) == []


def test_built_in_routing_scores_each_record_by_its_type(
    scorers: dict[str, Scorer], rollouts: RolloutBatch, tokenizer: Any
) -> None:
    records = reward_records(rollouts, SAMPLES, tokenizer, skip_special_tokens=True)
    rewards = scorers["built-in"].collect(scorers["built-in"].submit(records), 2, 3)
    weights = RewardWeights(0.7, 0.3)
    expected = [
        [score(text, sample, weights=weights, truncated=i == 2) for i, text in enumerate(texts)]
        for sample, texts in zip(SAMPLES, TEXTS, strict=True)
    ]
    for name in ("overall", "accuracy", "format"):
        values = torch.tensor([[getattr(result, name) for result in group] for group in expected])
        assert torch.equal(rewards.metrics[name], values), name
    assert rewards.outcomes == [[str(result.outcome) for result in group] for group in expected]
    assert rewards.overall[:, 0].tolist() == [1.0, 1.0]
    assert rewards.overall[0, 1].item() == pytest.approx(0.3)  # wrong, but in the right form
    assert rewards.outcomes[0][:2] == ["correct", "wrong"]


def test_a_users_file_scores_in_order_over_all_processes(scorers: dict[str, Scorer]) -> None:
    rewards = score_texts(scorers["user"], [f"ok {i}" for i in range(8)], n=2)
    assert rewards.overall.dtype == torch.float32
    assert rewards.overall.tolist() == [[0.0, 2.0], [4.0, 6.0], [8.0, 10.0], [12.0, 14.0]]
    assert len(rewards.metrics["pid"].unique()) == 2
    assert rewards.metrics.keys() == {"overall", "pid"}  # "kind" is no number


def test_fewer_records_than_processes(scorers: dict[str, Scorer]) -> None:
    assert score_texts(scorers["user"], ["ok 3"]).overall.tolist() == [[6.0]]


def test_a_metric_that_only_some_have_is_nan_elsewhere(scorers: dict[str, Scorer]) -> None:
    rewards = score_texts(scorers["user"], ["ok 1", "bonus 1", "bonus 2", "ok 2"], n=2)
    assert torch.equal(rewards.metrics["bonus"].nan_to_num(nan=-1.0), torch.tensor([[-1.0, 0.5], [0.5, -1.0]]))
    assert rewards.summary()["reward/bonus"] == 0.5


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        ("raise missing", "error: KeyError: 'missing'"),
        ("nothing", "error: the reward function gave \"{'accuracy': 1.0}\"; it must give a dict with a finite number"),
        ("nan", "error: the reward function gave \"{'overall': nan}\"; it must give a dict with a finite number"),
    ],
)
def test_a_record_that_fails_is_counted_and_the_others_are_scored(
    scorers: dict[str, Scorer], failing: str, reason: str
) -> None:
    rewards = score_texts(scorers["user"], ["ok 1", failing, "ok 0", "ok 0.5"], n=2)
    assert rewards.metrics["overall"].nan_to_num(nan=-1.0).tolist() == [[2.0, -1.0], [0.0, 1.0]]
    assert rewards.outcomes == [["correct", "error"], ["wrong", "correct"]]
    assert rewards.errors[0][1].startswith(reason)
    assert [rewards.errors[0][0], *rewards.errors[1]] == ["", "", ""]
    summary = rewards.summary()
    assert (summary["reward/outcome/error"], summary["reward/outcome/timeout"]) == (0.25, 0.0)
    assert summary["reward/overall"] == 1.0


def test_a_record_that_hangs_is_given_up_and_counted(scorers: dict[str, Scorer]) -> None:
    """Each process waits for its own hanging record alone; what follows in the same process is still scored."""
    started = time.monotonic()
    rewards = score_texts(scorers["user"], ["hang", "ok 1", "hang", "ok 2"], n=2)
    wall_s = time.monotonic() - started
    assert rewards.outcomes == [["timeout", "correct"], ["timeout", "correct"]]
    assert rewards.errors == [["timeout: no result after 1 s", ""]] * 2
    assert rewards.overall.tolist() == [[2.0, 2.0], [4.0, 4.0]]
    assert rewards.summary()["reward/outcome/timeout"] == 0.5
    assert TIMEOUT_S <= wall_s < 10 * TIMEOUT_S


def test_submitting_does_not_wait(scorers: dict[str, Scorer]) -> None:
    started = time.monotonic()
    pending = scorers["user"].submit([{"response": "hang"}, {"response": "ok 1"}])
    submitted_s = time.monotonic() - started
    assert scorers["user"].collect(pending, 1, 2).outcomes == [["timeout", "correct"]]
    assert submitted_s < TIMEOUT_S < time.monotonic() - started


def test_a_function_that_always_fails_is_refused_with_the_reason(scorers: dict[str, Scorer]) -> None:
    reason = r"^worker\.reward: no response could be scored; the first failed with: error: KeyError: 'first'$"
    with pytest.raises(ValueError, match=reason):
        score_texts(scorers["user"], ["raise first", "raise second"], n=2)


def test_bytes_that_crossed_are_counted_once(scorers: dict[str, Scorer]) -> None:
    scorer = scorers["built-in"]
    scorer.take_bytes()
    records = [{"response": "<answer>4</answer>", "ground_truth": "4", "problem_type": "numerical"}]
    pending = scorer.submit(records)
    assert scorer.bytes_crossed == payload_bytes(records)
    scorer.collect(pending, 1, 1)
    assert scorer.take_bytes() > payload_bytes(records)
    assert scorer.take_bytes() == 0


@pytest.mark.parametrize("row", [{"accuracy": 1.0}, {"overall": NAN}, {"overall": math.inf}])
def test_a_result_without_a_finite_overall_is_refused(scorers: dict[str, Scorer], row: dict[str, Any]) -> None:
    """evr_rewards makes an error of such a result; this guards against reward functions that come another way."""
    pending = [require_ray().put([{"overall": 0.25}]), require_ray().put([row])]
    with pytest.raises(ValueError, match="every result needs a finite number 'overall'") as refusal:
        scorers["user"].collect(pending, 1, 2)
    assert f"the reward function returned {row!r}: " in str(refusal.value)


def test_a_function_that_the_file_does_not_have_is_a_value_error(scorers: dict[str, Scorer]) -> None:
    with pytest.raises(ValueError, match=r"no function 'mian'.*it has main"):
        score_texts(scorers["missing"], ["ok 1"])
