"""A real vLLM engine in this process against transformers' plain forward pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch.distributed as dist

from evr_trainer.rollout import RolloutEngine, SamplingParams, make_engine
from evr_trainer.rollout._vllm_prompt import check_prompt_ids
from evr_video import ContractError
from support_rollout import Scene, build_scene, perturb

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]

SEEDS = [11, 12, 13, 14]
PLAIN = SamplingParams(n=4, max_tokens=12, temperature=0.8)
TRUNCATED = SamplingParams(n=4, max_tokens=12, top_p=0.7, top_k=50)
GREEDY = SamplingParams(n=1, max_tokens=12, temperature=0.0)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def engine(scene: Scene) -> Iterator[RolloutEngine]:
    """An engine inside a process group of one, as in a worker actor; the group must outlive it."""
    pytest.importorskip("vllm", reason="vLLM is not installed: evr-trainer[cpu] or evr-trainer[gpu]")
    from vllm.distributed.parallel_state import destroy_distributed_environment

    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
            patch.setenv(name, value)
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        engine = make_engine("vllm", scene.model_path, max_model_len=1024, max_num_seqs=16)
        yield engine
        engine.close()
        dist.barrier()
        destroy_distributed_environment()


@pytest.mark.parametrize("sampling", [PLAIN, TRUNCATED, GREEDY], ids=["plain", "truncated", "greedy"])
def test_log_probs_equal_one_plain_forward_pass(scene: Scene, engine: RolloutEngine, sampling: SamplingParams) -> None:
    responses = engine.generate(scene.prompts, sampling, SEEDS)
    assert [len(group) for group in responses] == [sampling.n] * 4
    assert max(scene.largest_difference(responses, sampling.temperature or 1.0)) <= 1e-4


def test_greedy_equals_the_transformers_engine(scene: Scene, engine: RolloutEngine) -> None:
    plain = make_engine("transformers", scene.model_path, max_model_len=1024)
    ours, theirs = plain.generate(scene.prompts, GREEDY, SEEDS), engine.generate(scene.prompts, GREEDY, SEEDS)
    assert [one.token_ids for (one,) in ours] == [one.token_ids for (one,) in theirs]
    assert [one.finish_reason for (one,) in ours] == [one.finish_reason for (one,) in theirs]


def test_the_seed_decides_and_the_responses_differ(scene: Scene, engine: RolloutEngine) -> None:
    first = engine.generate(scene.prompts, PLAIN, SEEDS)
    alone = [engine.generate([p], PLAIN, [seed])[0] for p, seed in zip(scene.prompts, SEEDS, strict=True)]

    def tokens(responses: list) -> list:
        return [[one.token_ids for one in group] for group in responses]

    assert tokens(engine.generate(scene.prompts, PLAIN, SEEDS)) == tokens(first) == tokens(alone)
    assert tokens(engine.generate(scene.prompts, PLAIN, [seed + 1 for seed in SEEDS])) != tokens(first)
    assert all(len(set(group)) == PLAIN.n for group in tokens(first))


def test_weight_syncs_are_exact_and_leave_nothing_of_the_old_weights(scene: Scene, engine: RolloutEngine) -> None:
    before = engine.generate(scene.prompts, PLAIN, SEEDS)
    for seed in (1, 2):
        perturb(scene.model, seed, scale=0.2)
        engine.load_weights((name, tensor.detach()) for name, tensor in scene.model.named_parameters())
        after = engine.generate(scene.prompts, PLAIN, SEEDS)
        assert max(scene.largest_difference(after, PLAIN.temperature)) <= 1e-4
        assert after != before
        before = after


def test_an_incomplete_weight_sync_is_refused_and_a_full_one_mends_it(scene: Scene, engine: RolloutEngine) -> None:
    before = engine.generate(scene.prompts, PLAIN, SEEDS)
    with pytest.raises(ValueError, match="lacks"):
        engine.load_weights(list(scene.model.named_parameters())[:3])
    engine.load_weights((name, tensor.detach()) for name, tensor in scene.model.named_parameters())
    assert engine.generate(scene.prompts, PLAIN, SEEDS) == before


def test_forbidden_tokens_are_not_sampled_even_as_the_likeliest(scene: Scene, engine: RolloutEngine) -> None:
    weights = dict(scene.model.named_parameters())
    head = weights["lm_head.weight"].detach().clone()
    head[scene.forbidden] *= 100
    engine.load_weights((name, head if name == "lm_head.weight" else t.detach()) for name, t in weights.items())
    for temperature in (0.0, 1.0):
        sampling = SamplingParams(n=4, max_tokens=16, temperature=temperature, ignore_eos=True)
        groups = engine.generate(scene.prompts, sampling, SEEDS)
        assert not {token for group in groups for one in group for token in one.token_ids} & set(scene.forbidden)
        assert {len(one.token_ids) for group in groups for one in group} == {16}
    engine.load_weights((name, tensor.detach()) for name, tensor in weights.items())


def test_sleep_and_wake(scene: Scene, engine: RolloutEngine) -> None:
    before = engine.generate(scene.prompts, PLAIN, SEEDS)
    engine.sleep()
    with pytest.raises(RuntimeError, match="wake"):
        engine.generate(scene.prompts, PLAIN, SEEDS)
    engine.wake()
    assert engine.generate(scene.prompts, PLAIN, SEEDS) == before


def test_other_prompt_ids_than_those_encoded_are_refused(scene: Scene) -> None:
    prompt = scene.prompts[2]
    check_prompt_ids(prompt, prompt.token_ids.tolist())
    with pytest.raises(ContractError, match=r"Which way.*rollout.*from token 3 on"):
        check_prompt_ids(prompt, [*prompt.token_ids[:3].tolist(), 0, *prompt.token_ids[4:].tolist()])
    with pytest.raises(ContractError, match=r"from token 5 on"):
        check_prompt_ids(prompt, prompt.token_ids[:5].tolist())
