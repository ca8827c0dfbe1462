"""The policy against separate sequences: same log-probs, same gradient, whatever is packed with what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from evr_trainer.carriers import TrainBatch
from evr_trainer.metrics import MetricSums
from evr_trainer.policy.micro import MicroBatch
from evr_trainer.policy.objective import PolicyGradient, Supervised, TokenView
from evr_trainer.policy.policy import Policy
from evr_video import ContractError
from support_policy import (
    IMAGE,
    MIXED,
    TEXT,
    VIDEO,
    gradients_of_update,
    largest,
    make_batch,
    make_policy,
    objective_for,
    relative_difference,
    separate_gradients,
    separate_log_probs,
)
from support_rollout import Scene, build_scene

ONE_ROW = [MicroBatch((0, 1, 2, 3))]
DUMMIES = ("image", "video")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def batch(scene: Scene) -> TrainBatch:
    return make_batch(scene)


@pytest.fixture(scope="module")
def policy(scene: Scene) -> Policy:
    """Its optimizer has learning rate 0 in every test that shares it, so its weights stay."""
    return make_policy(scene)


def expected_log_probs(scene: Scene, batch: TrainBatch, temperature: float = 1.0) -> torch.Tensor:
    expected = torch.zeros(batch["response_ids"].shape)
    for g, prompt in enumerate(batch.prompts):
        for i, length in enumerate(batch["response_lengths"][g].tolist()):
            if length:
                ids = batch["response_ids"][g, i, :length].tolist()
                expected[g, i, :length] = scene.log_probs(prompt, ids, temperature)
    return expected


def test_log_probs_equal_separate_sequences(scene: Scene, policy: Policy, batch: TrainBatch) -> None:
    """Text, image, video and mixed prompts in one row; nine tokens, one token and no token in a response."""
    found = policy.log_probs(batch, ONE_ROW, stage="log-prob")
    assert found.shape == batch["response_ids"].shape
    assert not found.requires_grad
    torch.testing.assert_close(found, expected_log_probs(scene, batch), rtol=0, atol=1e-5)
    assert found[~batch.response_mask].abs().max() == 0


def test_order_of_groups_in_the_row_does_not_matter(policy: Policy, batch: TrainBatch) -> None:
    expected = policy.log_probs(batch, ONE_ROW, stage="log-prob")
    for rows in ([(3, 1), (2, 0)], [(2,), (0, 3, 1)], [(3, 2, 1, 0)]):
        found = policy.log_probs(batch, [MicroBatch(row) for row in rows], stage="log-prob")
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    backwards = batch.select([3, 2, 1, 0])
    torch.testing.assert_close(
        policy.log_probs(backwards, ONE_ROW, stage="log-prob"), expected.flip(0), rtol=0, atol=1e-5
    )


def test_a_response_that_saw_its_neighbour_would_be_noticed(scene: Scene, policy: Policy, batch: TrainBatch) -> None:
    """Guards the tests above: a plain causal row gives log-probs far outside their bounds."""
    first, last = (batch["response_ids"][VIDEO, i, : (1, 6, 2)[i]].tolist() for i in (1, 2))
    alone = policy.log_probs(batch, ONE_ROW, stage="log-prob")[VIDEO, 2, :2]
    leaked = scene.log_probs(batch.prompts[VIDEO], first + last)[-2:]
    assert float((alone - leaked).abs().max()) > 1e-2


@pytest.mark.parametrize("temperature", [0.5, 1.7])
def test_temperature_divides_the_logits(scene: Scene, batch: TrainBatch, temperature: float) -> None:
    found = make_policy(scene, temperature=temperature).log_probs(batch, ONE_ROW, stage="log-prob")
    torch.testing.assert_close(found, expected_log_probs(scene, batch, temperature), rtol=0, atol=1e-5)


def test_forbidden_tokens_have_no_part_in_the_distribution(scene: Scene, policy: Policy, batch: TrainBatch) -> None:
    """log p(token) - log p(allowed), worked out from the policy without forbidden tokens."""
    free = make_policy(scene, forbid=False)
    every = free.log_probs(batch, ONE_ROW, stage="log-prob")
    prompt, ids = batch.prompts[TEXT], batch["response_ids"][TEXT, 0, :5]
    inputs = scene.inputs(prompt)
    sequence = torch.cat([inputs["input_ids"], ids[None]], 1)
    with torch.no_grad():
        distribution = scene.model(input_ids=sequence).logits[0, inputs["input_ids"].shape[1] - 1 : -1].softmax(-1)
    forbidden = distribution[:, scene.forbidden].sum(-1)
    assert forbidden.min() > 1e-5  # else nothing is tested
    found = policy.log_probs(batch, ONE_ROW, stage="log-prob")[TEXT, 0, :5]
    torch.testing.assert_close(found, every[TEXT, 0, :5] - torch.log1p(-forbidden), rtol=0, atol=1e-5)


@pytest.mark.parametrize("avg_mode", ["token", "seq"])
def test_gradient_equals_separate_sequences(scene: Scene, policy: Policy, batch: TrainBatch, avg_mode: str) -> None:
    expected = separate_gradients(scene, scene.model, batch, avg_mode=avg_mode, kl_coef=0.1)
    found, metrics = gradients_of_update(policy, batch, ONE_ROW, objective_for(batch, avg_mode=avg_mode))
    assert set(found) == set(expected) == {name for name, _ in policy.model.named_parameters()}
    assert relative_difference(found, expected) <= 1e-5
    assert relative_difference(found, expected, part="visual") <= 1e-5
    result = metrics.result()
    assert result["actor/pg_clipfrac_higher"] > 0  # the bounds take part
    norm = float(torch.cat([g.flatten() for g in expected.values()]).double().norm())
    assert result["actor/grad_norm"] == pytest.approx(norm, rel=1e-5)


@pytest.mark.parametrize("kind", [TEXT, IMAGE, VIDEO, MIXED], ids=["text", "image", "video", "mixed"])
def test_gradient_of_each_kind_of_prompt(scene: Scene, policy: Policy, batch: TrainBatch, kind: int) -> None:
    one = batch.select([kind])
    expected = separate_gradients(scene, scene.model, one, avg_mode="token", kl_coef=0.1)
    found, _ = gradients_of_update(policy, one, [MicroBatch((0,))], objective_for(one))
    assert set(found) == set(expected)
    assert any("visual" in name for name in found) == (kind != TEXT)
    assert relative_difference(found, expected) <= 1e-5


def test_gradient_at_another_temperature(scene: Scene, batch: TrainBatch) -> None:
    two = batch.select([VIDEO, TEXT])
    expected = separate_gradients(scene, scene.model, two, avg_mode="token", kl_coef=0.1, temperature=0.7)
    policy = make_policy(scene, temperature=0.7)
    found, _ = gradients_of_update(policy, two, [MicroBatch((0, 1))], objective_for(two))
    assert relative_difference(found, expected) <= 1e-5


def test_on_policy_update_needs_no_old_log_probs(scene: Scene, policy: Policy, batch: TrainBatch) -> None:
    """Without old log-probs the ratio is exp(0): the gradient is that of -advantage x log-prob."""
    plain = TrainBatch(batch.prompts, batch.tensors.exclude("old_log_probs", "ref_log_probs"))
    scene.model.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for g, prompt in enumerate(plain.prompts):
        for i, length in enumerate(plain["response_lengths"][g].tolist()):
            if length:
                log_probs = separate_log_probs(scene, scene.model, prompt, plain["response_ids"][g, i, :length])
                total = total - (plain["advantages"][g, i, :length] * log_probs).sum()
    (total / int(plain["response_lengths"].sum())).backward()
    expected = {name: p.grad for name, p in scene.model.named_parameters() if p.grad is not None}
    found, metrics = gradients_of_update(policy, plain, ONE_ROW, objective_for(plain))
    assert relative_difference(found, expected) <= 1e-5
    result = metrics.result()
    assert result["actor/ppo_kl"] == 0
    assert "actor/kl_loss" not in result
    assert result["mismatch/max"] <= 1e-5  # the rollout's log-probs were the model's own


@pytest.mark.parametrize(
    "rows",
    [[(0,), (1,), (2,), (3,)], [(0, 3), (1, 2)], [(2, 1, 0), (3,)], [(0, 1, 2, 3), ()]],
    ids=["four", "two", "uneven", "one and none"],
)
def test_any_split_into_micro_batches_gives_the_same_update(
    policy: Policy, batch: TrainBatch, rows: list[tuple[int, ...]]
) -> None:
    for avg_mode in ("token", "seq"):
        objective = objective_for(batch, avg_mode=avg_mode)
        whole, whole_metrics = gradients_of_update(policy, batch, ONE_ROW, objective)
        split, split_metrics = gradients_of_update(policy, batch, [MicroBatch(row) for row in rows], objective)
        assert relative_difference(split, whole) <= 1e-5
        assert split_metrics.result() == pytest.approx(whole_metrics.result(), rel=1e-4, abs=1e-6)


def test_dummies_change_nothing(policy: Policy, batch: TrainBatch) -> None:
    text = batch.select([TEXT])
    plain, with_dummies = [MicroBatch((0,))], [MicroBatch((0,), DUMMIES)]
    torch.testing.assert_close(
        policy.log_probs(text, with_dummies, stage="log-prob"),
        policy.log_probs(text, plain, stage="log-prob"),
        rtol=0,
        atol=1e-6,
    )
    found, _ = gradients_of_update(policy, text, with_dummies, objective_for(text))
    expected, _ = gradients_of_update(policy, text, plain, objective_for(text))
    vision = {name: gradient for name, gradient in found.items() if "visual" in name}
    assert len(vision) > 10  # the tower ran, and its backward pass too
    assert largest(vision) == 0.0
    assert not any("visual" in name for name in expected)
    assert relative_difference(found, expected) <= 1e-6


@pytest.mark.parametrize(("kind", "dummy"), [(IMAGE, "video"), (VIDEO, "image")])
def test_a_dummy_beside_real_media_changes_nothing(policy: Policy, batch: TrainBatch, kind: int, dummy: str) -> None:
    one = batch.select([kind])
    found, _ = gradients_of_update(policy, one, [MicroBatch((0,), (dummy,))], objective_for(one))
    expected, _ = gradients_of_update(policy, one, [MicroBatch((0,))], objective_for(one))
    assert relative_difference(found, expected) <= 1e-6
    assert relative_difference(found, expected, part="visual") <= 1e-6


@pytest.mark.parametrize("dummies", [(), DUMMIES], ids=["nothing", "dummies"])
def test_an_empty_micro_batch_gives_a_zero_gradient_to_all(
    policy: Policy, batch: TrainBatch, dummies: tuple[str, ...]
) -> None:
    nothing = batch.select([])
    found, metrics = gradients_of_update(policy, nothing, [MicroBatch((), dummies)], objective_for(batch))
    language = {name for name, _ in policy.model.named_parameters() if "visual" not in name}
    assert language <= set(found)
    assert any("visual" in name for name in found) == bool(dummies)
    assert largest(found) == 0.0
    assert metrics.result()["actor/grad_norm"] == 0.0
    assert policy.log_probs(nothing, [MicroBatch((), dummies)], stage="log-prob").shape[:2] == (0, 3)


class Poisoned:
    """The real objective, multiplied by something that is no number."""

    def __init__(self, inner: PolicyGradient, factor: float) -> None:
        self.inner, self.factor = inner, factor

    def __call__(self, tokens: TokenView, metrics: MetricSums) -> torch.Tensor:
        return self.inner(tokens, metrics) * self.factor


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_not_applied(scene: Scene, batch: TrainBatch, factor: float) -> None:
    policy = make_policy(scene, optimizer=lambda model: torch.optim.AdamW(model.parameters(), weight_decay=0.1))
    before = {name: p.detach().clone() for name, p in policy.model.named_parameters()}
    text = batch.select([TEXT])
    bad = policy.update(
        text, [MicroBatch((0,))], Poisoned(objective_for(text), factor), lr=0.1, max_grad_norm=1.0
    ).result()
    assert bad["actor/skipped_updates"] == 1.0
    assert all(torch.equal(before[name], p) for name, p in policy.model.named_parameters())
    assert policy.optimizer is not None
    assert not policy.optimizer.state
    good = policy.update(text, [MicroBatch((0,))], objective_for(text), lr=0.1, max_grad_norm=1.0).result()
    assert good["actor/skipped_updates"] == 0.0
    assert good["actor/lr"] == 0.1
    assert not torch.equal(before["lm_head.weight"], policy.model.get_parameter("lm_head.weight"))


def test_gradients_are_clipped_to_the_norm(scene: Scene, batch: TrainBatch) -> None:
    """Plain SGD with learning rate 1 moves the weights by exactly the clipped norm."""
    policy = make_policy(scene)
    before = {name: p.detach().clone() for name, p in policy.model.named_parameters()}
    metrics = policy.update(batch, ONE_ROW, objective_for(batch), lr=1.0, max_grad_norm=0.25).result()
    assert metrics["actor/grad_norm"] > 0.25
    moved = torch.cat([(p.detach() - before[name]).flatten() for name, p in policy.model.named_parameters()])
    assert float(moved.norm()) == pytest.approx(0.25, rel=1e-3)


def test_supervised_gradient_is_that_of_the_mean_negative_log_likelihood(
    scene: Scene, policy: Policy, batch: TrainBatch
) -> None:
    one = batch.select([VIDEO])
    scene.model.zero_grad(set_to_none=True)
    parts = [
        separate_log_probs(scene, scene.model, one.prompts[0], one["response_ids"][0, i, :length])
        for i, length in enumerate(one["response_lengths"][0].tolist())
    ]
    loss = -torch.cat(parts).mean()
    loss.backward()
    expected = {name: p.grad for name, p in scene.model.named_parameters() if p.grad is not None}
    found, metrics = gradients_of_update(policy, one, [MicroBatch((0,))], Supervised(sum(map(len, parts))))
    assert relative_difference(found, expected) <= 1e-5
    assert metrics.result()["sft/loss"] == pytest.approx(float(loss.detach()), abs=1e-5)


def test_entropy_is_that_of_the_allowed_tokens(scene: Scene, policy: Policy, batch: TrainBatch) -> None:
    one = batch.select([TEXT])
    _, metrics = gradients_of_update(policy, one, [MicroBatch((0,))], objective_for(one))
    prompt = scene.inputs(one.prompts[0])["input_ids"]
    entropies = []
    for i, length in enumerate(one["response_lengths"][0].tolist()):
        with torch.no_grad():
            sequence = torch.cat([prompt, one["response_ids"][0, i, :length][None]], 1)
            logits = scene.model(input_ids=sequence).logits[0, prompt.shape[1] - 1 :]
        for position in range(length):
            logits[position, scene.forbidden] = -torch.inf
            entropies.append(torch.distributions.Categorical(logits=logits[position]).entropy())
    assert metrics.result()["actor/entropy_loss"] == pytest.approx(float(torch.stack(entropies).mean()), abs=1e-5)


def test_a_reference_model_cannot_be_updated(scene: Scene, policy: Policy, batch: TrainBatch) -> None:
    reference = Policy(policy.model, scene.processor, sampling=policy.sampling)
    with pytest.raises(ValueError, match="without optimizer"):
        reference.update(batch, ONE_ROW, objective_for(batch), lr=0.1, max_grad_norm=1.0)


def test_an_objective_without_advantages_is_refused(batch: TrainBatch) -> None:
    tokens = TokenView(torch.zeros(2), torch.zeros(2), torch.tensor([2]))
    with pytest.raises(ValueError, match="needs advantages"):
        objective_for(batch)(tokens, MetricSums())


def _tampered(batch: TrainBatch) -> dict[str, TrainBatch]:
    prompt, other = batch.prompts[VIDEO], batch.prompts[MIXED].media[0]
    ids = np.delete(prompt.token_ids, np.flatnonzero(prompt.token_types() == 2)[0])
    prompts = {
        "another clip": replace(prompt, media=(other,)),
        "other frames": replace(prompt, media=(replace(prompt.media[0], digest="0" * 64),)),
        "a placeholder lost": replace(prompt, token_ids=ids),
        "a text token lost": replace(prompt, token_ids=prompt.token_ids[1:]),
    }
    return {name: TrainBatch((bad,), batch.tensors[[VIDEO]]) for name, bad in prompts.items()}


@pytest.mark.parametrize("how", ["another clip", "other frames", "a placeholder lost", "a text token lost"])
def test_a_broken_contract_stops_every_phase(policy: Policy, batch: TrainBatch, how: str) -> None:
    bad, row = _tampered(batch)[how], [MicroBatch((0,))]
    with pytest.raises(ContractError) as error:
        policy.log_probs(bad, row, stage="log-prob")
    assert (error.value.stage, error.value.sample_id) == ("log-prob", batch.prompts[VIDEO].sample_id)
    with pytest.raises(ContractError) as error:
        policy.update(bad, row, objective_for(bad), lr=0.0, max_grad_norm=1.0)
    assert (error.value.stage, error.value.sample_id) == ("update", batch.prompts[VIDEO].sample_id)
