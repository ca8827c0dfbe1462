"""A checkpoint of any number of ranks goes on with any other number, as if nothing had happened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.api import CheckpointException

from evr_trainer.carriers import TrainBatch
from evr_trainer.checkpoint import load_full_weights, load_optimizer, load_weights, save_optimizer, save_weights
from evr_trainer.policy.micro import MicroBatch
from evr_trainer.policy.optim import make_adamw
from evr_trainer.policy.policy import Policy
from support_policy import (
    IMAGE,
    MIXED,
    TEXT,
    VIDEO,
    make_batch,
    make_policy,
    make_share,
    objective_for,
    relative_difference,
)
from support_rank_jobs import ADAMW_LR, Share, checkpoint_jobs, load_and_go_on, moments, save_and_go_on
from support_ranks import run_ranks
from support_rollout import Scene, build_scene

# One rank without a process group is meant here.
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def shares(scene: Scene) -> dict[str, tuple[Share, Share]]:
    """The same two updates for two ranks and for one: without media, and with all kinds in several passes."""
    text = [make_batch(scene, [TEXT], seed=1), make_batch(scene, [TEXT], seed=2)]
    media = [make_batch(scene, [TEXT, VIDEO], seed=3), make_batch(scene, [MIXED, IMAGE], seed=4)]
    return {
        name: (make_share(batches, most), make_share([TrainBatch.concat(batches)], 10**6))
        for name, batches, most in (("text", text, 10**6), ("media", media, 1))
    }


@pytest.fixture(scope="module")
def root(scene: Scene, shares: dict[str, tuple[Share, Share]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``a_to_b``: saved by a ranks, gone on with by b. Text first: the vision tower has no optimizer state yet."""
    out: Path = tmp_path_factory.mktemp("checkpoints")
    for name in ("saved_by_1", "saved_by_2", "saved_by_2_media", "1_to_2", "2_to_1", "2_to_2", "2_media_to_1"):
        (out / name).mkdir()
    model = (scene.model_path, tuple(scene.forbidden))
    (text, one_text), (media, one_media) = shares["text"], shares["media"]
    save_and_go_on(0, *model, one_text, one_media, out / "saved_by_1")
    jobs = [
        (save_and_go_on, (*model, text, media, out / "saved_by_2")),
        (save_and_go_on, (*model, media, text, out / "saved_by_2_media")),
        (load_and_go_on, (*model, out / "saved_by_1", media, out / "1_to_2")),
        (load_and_go_on, (*model, out / "saved_by_2", media, out / "2_to_2")),
    ]
    run_ranks(checkpoint_jobs, 2, out, jobs, timeout_s=200)
    load_and_go_on(0, *model, out / "saved_by_2", one_media, out / "2_to_1")
    load_and_go_on(0, *model, out / "saved_by_2_media", one_text, out / "2_media_to_1")
    return out


JOURNEYS = [
    ("saved_by_1", "1_to_2"),
    ("saved_by_2", "2_to_1"),
    ("saved_by_2", "2_to_2"),
    ("saved_by_2_media", "2_media_to_1"),
]


@pytest.mark.parametrize(("saved", "loaded"), JOURNEYS, ids=[loaded for _, loaded in JOURNEYS])
def test_what_is_loaded_is_what_was_saved(root: Path, saved: str, loaded: str) -> None:
    for of_saved, of_loaded in (("saved", "loaded"), ("saved_moments", "loaded_moments")):
        before = load_file(root / saved / f"{of_saved}.safetensors")
        after = load_file(root / loaded / f"{of_loaded}.safetensors")
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(("saved", "loaded"), JOURNEYS, ids=[loaded for _, loaded in JOURNEYS])
def test_the_next_update_is_that_of_the_run_that_went_on(root: Path, saved: str, loaded: str) -> None:
    start = load_file(root / saved / "saved.safetensors")
    expected, found = (load_file(root / run / "next.safetensors") for run in (saved, loaded))
    assert max(float((expected[name] - start[name]).abs().max()) for name in start) > 0.5 * ADAMW_LR  # there was one
    moments, found_moments = (load_file(root / run / "next_moments.safetensors") for run in (saved, loaded))
    assert moments.keys() == found_moments.keys()
    if saved[-1] == loaded[-1]:  # the same number of ranks: to the bit
        assert all(torch.equal(expected[name], found[name]) for name in start)
        assert all(torch.equal(moments[name], found_moments[name]) for name in moments)
        return
    assert relative_difference(found_moments, moments, part=".exp_avg") <= 1e-5
    off = {name: (expected[name] - found[name]).abs() for name in start}
    # A parameter's very first AdamW step is g / (|g| + 1e-8): where |g| is not far above 1e-8, the last bits of g
    # (they depend on the order of sums) show in the weight. Those few elements are held to 5e-6, the rest to 1e-6.
    sure = {name: moments[f"{name}.exp_avg_sq"].sqrt() > 1e-7 for name in start if f"{name}.exp_avg_sq" in moments}
    assert max(float(off[name].max()) for name in start) <= 5e-6
    assert max(float((off[name] * sure[name]).max()) for name in sure) <= 1e-6
    assert max(float(off[name].max()) for name in off.keys() - sure.keys() | {"lm_head.weight"}) <= 1e-6


def test_text_only_training_keeps_no_state_for_the_vision_tower(root: Path) -> None:
    text = load_file(root / "saved_by_2" / "saved_moments.safetensors")
    assert text
    assert not any("visual" in name for name in text)
    steps = json.loads((root / "saved_by_2" / "optimizer.json").read_text())["steps"]
    assert {f"{name}.step" for name in steps} == {name for name in text if name.endswith(".step")}
    assert set(steps.values()) == {1.0}
    weights = load_file(root / "saved_by_2" / "saved.safetensors")
    assert any("visual" in name for name in weights)  # its weights are there all the same
    media = load_file(root / "saved_by_2_media" / "saved_moments.safetensors")
    assert any("visual" in name for name in media)


def test_files_hold_no_pickle_and_each_rank_writes_its_own(root: Path) -> None:
    for folder in ("model", "optimizer"):
        files = [file for file in (root / "saved_by_2" / folder).rglob("*") if file.is_file()]
        assert {file.suffix for file in files} <= {".safetensors", ".json"}
        assert sum(file.suffix == ".safetensors" for file in files) == 2


def test_sharded_weights_fill_an_unsharded_model(scene: Scene, root: Path) -> None:
    model = make_policy(scene).model
    expected = load_file(root / "saved_by_2_media" / "saved.safetensors")
    assert not torch.equal(model.get_parameter("lm_head.weight"), expected["lm_head.weight"])
    load_full_weights(model, root / "saved_by_2_media" / "model")
    assert all(torch.equal(expected[name], p) for name, p in model.named_parameters())
    assert all(p.requires_grad for p in model.parameters())


def test_a_missing_parameter_is_an_error_that_names_it(scene: Scene, tmp_path: Path) -> None:
    headless = make_policy(scene).model
    del headless.lm_head
    save_weights(headless, tmp_path / "model")
    with pytest.raises(CheckpointException, match=r"lm_head\.weight"):
        load_weights(make_policy(scene).model, tmp_path / "model")


def _adamw_policy(scene: Scene) -> Policy:
    return make_policy(scene, optimizer=lambda model: make_adamw(model, lr=0.0, betas=(0.9, 0.99), weight_decay=0.0))


def test_an_optimizer_that_never_stepped(scene: Scene, tmp_path: Path) -> None:
    fresh, stepped = _adamw_policy(scene), _adamw_policy(scene)
    batch = make_batch(scene, [TEXT])
    stepped.update(batch, [MicroBatch((0,))], objective_for(batch), lr=1e-3, max_grad_norm=1.0)
    assert fresh.optimizer is not None
    assert stepped.optimizer is not None
    save_optimizer(fresh.model, fresh.optimizer, tmp_path / "optimizer")
    assert dict(moments(stepped))
    load_optimizer(stepped.model, stepped.optimizer, tmp_path / "optimizer")
    assert not dict(moments(stepped))


def test_optimizer_state_of_another_model_is_refused(scene: Scene, tmp_path: Path) -> None:
    policy = _adamw_policy(scene)
    assert policy.optimizer is not None
    (tmp_path / "optimizer.json").write_text(json.dumps({"steps": {"model.of.another": 3.0}}))
    with pytest.raises(ValueError, match=r"model\.of\.another"):
        load_optimizer(policy.model, policy.optimizer, tmp_path / "optimizer")
