"""Two ranks with FSDP2 against one without: the same update for every mix of media over the ranks, and no hang."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from evr_trainer.carriers import TrainBatch
from evr_trainer.metrics import MetricSums
from evr_trainer.policy.micro import MicroBatch
from evr_trainer.policy.model import vision_tower
from support_policy import IMAGE, MIXED, TEXT, VIDEO, make_batch, make_policy, make_share
from support_rank_jobs import Composition, update_on_ranks
from support_ranks import run_ranks
from support_rollout import Scene, build_scene

ONE_PASS = 10**6  # tokens of a micro-batch: everything goes into one
ONE_GROUP = 1  # every group goes alone


@dataclass(frozen=True)
class Mix:
    """Kinds of the groups on each rank, and how the model is set up."""

    kinds: tuple[Sequence[int], Sequence[int]]
    max_tokens: int = ONE_PASS
    freeze_vision: bool = False
    checkpointing: bool = False


MIXES = {
    "text and video": Mix(([TEXT], [VIDEO])),
    "image and video": Mix(([IMAGE], [VIDEO])),
    "video and mixed": Mix(([VIDEO], [MIXED])),
    "mixed and nothing": Mix(([MIXED], [])),
    "nothing and text": Mix(([], [TEXT])),
    "all text": Mix(([TEXT], [TEXT])),
    "several passes": Mix(([TEXT, VIDEO, IMAGE], [MIXED, TEXT]), max_tokens=ONE_GROUP),
    "uneven passes": Mix(([MIXED], [TEXT, IMAGE, VIDEO]), max_tokens=ONE_GROUP),
    "frozen tower": Mix(([TEXT], [VIDEO]), freeze_vision=True),
    "recomputed activations": Mix(([TEXT, IMAGE], [VIDEO]), checkpointing=True),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def batches(scene: Scene) -> dict[str, list[TrainBatch]]:
    """Each rank's groups, by mix."""
    return {
        name: [make_batch(scene, kinds, seed=10 * number + rank) for rank, kinds in enumerate(mix.kinds)]
        for number, (name, mix) in enumerate(MIXES.items())
    }


@pytest.fixture(scope="module")
def results(scene: Scene, batches: dict[str, list[TrainBatch]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes work through all mixes, each from the model's own weights."""
    out = tmp_path_factory.mktemp("ranks")
    compositions = [
        Composition(name, make_share(batches[name], mix.max_tokens), mix.freeze_vision, mix.checkpointing)
        for name, mix in MIXES.items()
    ]
    run_ranks(update_on_ranks, 2, out, scene.model_path, tuple(scene.forbidden), compositions, out, timeout_s=200)
    return out


@pytest.mark.parametrize("name", MIXES)
def test_update_equals_one_rank_without_sharding(
    scene: Scene, batches: dict[str, list[TrainBatch]], results: Path, name: str
) -> None:
    whole = TrainBatch.concat(batches[name])
    policy = make_policy(scene)
    if MIXES[name].freeze_vision:
        vision_tower(policy.model).requires_grad_(False)
    before = {key: p.detach().clone() for key, p in policy.model.named_parameters()}
    everything = [MicroBatch(tuple(range(len(whole))))]
    objective = make_share(batches[name], ONE_PASS).objective
    metrics = policy.update(whole, everything, objective, lr=1.0, max_grad_norm=1.0)

    after = {key: p.detach() for key, p in policy.model.named_parameters()}
    sharded = load_file(results / name / "weights.safetensors")
    assert sharded.keys() == after.keys()
    assert max(float((sharded[key] - after[key]).abs().max()) for key in after) <= 1e-6
    for part, frozen in (("language", False), ("visual", MIXES[name].freeze_vision or not _has_media(whole))):
        moved = max(float((after[key] - before[key]).abs().max()) for key in after if part in key)
        assert moved == 0.0 if frozen else moved > 1e-3  # what is compared is not nothing
    merged = MetricSums.merge(_metrics(results / name / f"metrics_{rank}.json") for rank in range(2))
    assert merged.result() == pytest.approx(metrics.result(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", MIXES)
def test_log_probs_equal_one_rank_without_sharding(
    scene: Scene, batches: dict[str, list[TrainBatch]], results: Path, name: str
) -> None:
    policy = make_policy(scene)
    for rank, batch in enumerate(batches[name]):
        found: Tensor = load_file(results / name / f"log_probs_{rank}.safetensors")["log_probs"]
        expected = policy.log_probs(batch, [MicroBatch(tuple(range(len(batch))))], stage="log-prob")
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def _has_media(batch: TrainBatch) -> bool:
    return any(prompt.media for prompt in batch.prompts)


def _metrics(path: Path) -> MetricSums:
    stored = json.loads(path.read_text())
    return MetricSums({name: (total, weight) for name, (total, weight) in stored["sums"].items()}, stored["maxima"])
