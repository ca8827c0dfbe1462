"""The transformers engine against transformers' own forward pass and its own generate()."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from evr_trainer.rollout import RolloutEngine, SamplingParams, make_engine
from support_rollout import Scene, build_scene, perturb

SEEDS = [11, 12, 13, 14]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def engine(scene: Scene) -> RolloutEngine:
    return make_engine("transformers", scene.model_path, max_model_len=1024, max_num_seqs=64)


def test_engine_is_a_rollout_engine(engine: RolloutEngine) -> None:
    assert isinstance(engine, RolloutEngine)


def test_prompts_differ_in_length_and_equal_those_of_the_processor(scene: Scene) -> None:
    assert len({len(prompt.token_ids) for prompt in scene.prompts}) == 4
    for prompt in scene.prompts:
        assert prompt.token_ids.tolist() == scene.inputs(prompt)["input_ids"][0].tolist()


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(n=3, max_tokens=12),
        SamplingParams(n=3, max_tokens=12, temperature=0.6),
        SamplingParams(n=3, max_tokens=12, temperature=1.3, top_p=0.8, top_k=40),
        SamplingParams(n=1, max_tokens=12, temperature=0.0),
    ],
    ids=["plain", "cold", "truncated", "greedy"],
)
def test_log_probs_equal_one_plain_forward_pass(scene: Scene, engine: RolloutEngine, sampling: SamplingParams) -> None:
    responses = engine.generate(scene.prompts, sampling, SEEDS)
    assert [len(group) for group in responses] == [sampling.n] * 4
    assert max(scene.largest_difference(responses, sampling.temperature or 1.0)) <= 1e-5


def test_what_the_model_sees_matters_to_the_comparison(scene: Scene) -> None:
    """Guards the test above: without its frames a video prompt would have other log-probs."""
    prompt = scene.prompts[2]
    seen = scene.log_probs(prompt, [40, 50, 60])
    inputs = {**scene.inputs(prompt)}
    inputs["pixel_values_videos"] = torch.zeros_like(inputs["pixel_values_videos"])
    blind = scene.model(**inputs).logits[0, -1].detach()
    blind[scene.forbidden] = -torch.inf
    assert abs(blind.log_softmax(-1)[40].item() - seen[0].item()) > 1e-2


def test_greedy_equals_generate(scene: Scene, engine: RolloutEngine) -> None:
    responses = engine.generate(scene.prompts, SamplingParams(n=1, max_tokens=16, temperature=0.0), SEEDS)
    for prompt, (response,) in zip(scene.prompts, responses, strict=True):
        inputs = scene.inputs(prompt)
        expected = scene.model.generate(**inputs, max_new_tokens=16, do_sample=False, suppress_tokens=scene.forbidden)[
            0, inputs["input_ids"].shape[1] :
        ]
        assert list(response.token_ids) == expected.tolist()


def test_a_response_does_not_depend_on_its_batch_mates(scene: Scene, engine: RolloutEngine) -> None:
    sampling = SamplingParams(n=4, max_tokens=12)
    together = engine.generate(scene.prompts, sampling, SEEDS)
    alone = [engine.generate([p], sampling, [seed])[0] for p, seed in zip(scene.prompts, SEEDS, strict=True)]
    reversed_ = engine.generate(scene.prompts[::-1], sampling, SEEDS[::-1])[::-1]
    small = make_engine("transformers", scene.model_path, max_model_len=1024, max_num_seqs=3)
    few_at_a_time = small.generate(scene.prompts, sampling, SEEDS)

    def tokens(responses: list) -> list:
        return [[one.token_ids for one in group] for group in responses]

    assert tokens(together) == tokens(alone) == tokens(reversed_) == tokens(few_at_a_time)


def test_the_responses_to_one_prompt_differ_and_the_seed_decides(scene: Scene, engine: RolloutEngine) -> None:
    sampling = SamplingParams(n=8, max_tokens=12)
    first, other = engine.generate([scene.prompts[0]] * 2, sampling, [1, 2])
    assert len({one.token_ids for one in first + other}) == 16
    (again,) = engine.generate(scene.prompts[:1], sampling, [1])
    assert [one.token_ids for one in again] == [one.token_ids for one in first]
    # A smaller n gives the first of the same responses.
    (fewer,) = engine.generate(scene.prompts[:1], SamplingParams(n=3, max_tokens=12), [1])
    assert [one.token_ids for one in fewer] == [one.token_ids for one in first[:3]]


def test_forbidden_tokens_are_not_sampled_even_as_the_likeliest(scene: Scene) -> None:
    engine = make_engine("transformers", scene.model_path, max_model_len=1024)
    weights = dict(scene.model.named_parameters())
    head = weights["lm_head.weight"].detach().clone()
    head[scene.forbidden] *= 100
    engine.load_weights((name, head if name == "lm_head.weight" else tensor) for name, tensor in weights.items())
    for temperature in (0.0, 1.0):
        groups = engine.generate(
            scene.prompts, SamplingParams(n=4, max_tokens=16, temperature=temperature, ignore_eos=True), SEEDS
        )
        assert not {token for group in groups for one in group for token in one.token_ids} & set(scene.forbidden)


def test_a_response_stops_at_end_of_sequence_and_holds_it(scene: Scene) -> None:
    engine = make_engine("transformers", scene.model_path, max_model_len=1024)
    end = scene.processor.tokenizer.eos_token_id
    uniform = torch.zeros_like(scene.model.lm_head.weight)
    weights = {**dict(scene.model.named_parameters()), "lm_head.weight": uniform}
    engine.load_weights(weights.items())
    sampling = SamplingParams(n=64, max_tokens=60)
    (group,) = engine.generate(scene.prompts[:1], sampling, [5])
    reasons = {one.finish_reason for one in group}
    assert reasons == {"stop", "length"}
    for one in group:
        assert (end in one.token_ids) == (one.finish_reason == "stop")
        assert end not in one.token_ids[:-1]
        assert len(one.token_ids) == 60 or one.finish_reason == "stop"
    (endless,) = engine.generate(scene.prompts[:1], SamplingParams(n=64, max_tokens=60, ignore_eos=True), [5])
    assert {len(one.token_ids) for one in endless} == {60}
    for one, longer in zip(group, endless, strict=True):
        assert longer.token_ids[: len(one.token_ids)] == one.token_ids


def test_new_weights_are_used(scene: Scene, tmp_path: Path) -> None:
    other = build_scene(tmp_path)
    engine = make_engine("transformers", other.model_path, max_model_len=1024)
    perturb(other.model, seed=7, scale=0.3)
    engine.load_weights((name, tensor.detach()) for name, tensor in other.model.named_parameters())
    responses = engine.generate(other.prompts, SamplingParams(n=2, max_tokens=8), SEEDS)
    assert max(other.largest_difference(responses)) <= 1e-5
    with pytest.raises(ValueError, match="lacks"):
        engine.load_weights(list(other.model.named_parameters())[:3])


def test_requests_that_cannot_be_served_are_refused(scene: Scene, engine: RolloutEngine) -> None:
    with pytest.raises(ValueError, match="1 seeds for 4 prompts"):
        engine.generate(scene.prompts, SamplingParams(n=1, max_tokens=4), [1])
    with pytest.raises(ValueError, match="more than max_model_len = 1024"):
        engine.generate(scene.prompts[:1], SamplingParams(n=1, max_tokens=1024), [1])


def test_a_sleeping_engine_refuses_and_wakes_unchanged(scene: Scene) -> None:
    engine = make_engine("transformers", scene.model_path, max_model_len=1024)
    sampling = SamplingParams(n=2, max_tokens=6)
    before = engine.generate(scene.prompts, sampling, SEEDS)
    engine.sleep()
    with pytest.raises(RuntimeError, match="wake"):
        engine.generate(scene.prompts, sampling, SEEDS)
    engine.wake()
    assert engine.generate(scene.prompts, sampling, SEEDS) == before
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.wake()


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"name": "sglang"}, "allowed: transformers, vllm"), ({"dtype": "int8"}, "dtype is int8; allowed: one of")],
)
def test_unknown_names_are_refused_with_the_known_ones(scene: Scene, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_engine(**{"name": "transformers", "model_path": scene.model_path, **settings})


def test_without_vllm_the_message_names_the_extra(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ImportError, match=r"evr-trainer\[gpu\].*evr-trainer\[cpu\]"):
        make_engine("vllm", scene.model_path)


def test_tensor_parallel_needs_the_group_of_the_workers(scene: Scene) -> None:
    with pytest.raises(ValueError, match=r"torch\.distributed group"):
        make_engine("vllm", scene.model_path, tensor_parallel_size=2)
