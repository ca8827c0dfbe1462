"""Groups are never torn: laws of selecting, splitting and joining, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from evr_trainer.carriers import GroupBatch, PromptBatch, ResponseBatch, RolloutBatch, TrainBatch
from evr_trainer.rollout import Response
from support_policy import make_batch
from support_rollout import Scene, build_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_scene(tmp_path_factory.mktemp("scene"))


def response(length: int, start: int = 1, finish_reason: str = "stop") -> Response:
    ids = tuple(range(start, start + length))
    return Response(ids, tuple(-0.5 * i for i in ids), finish_reason)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def rollouts(scene: Scene) -> RolloutBatch:
    """Two groups of two: lengths 2 and 0, 3 and 1; the third was cut off."""
    groups = [[response(2, 10), response(0)], [response(3, 20, "length"), response(1, 30)]]
    return RolloutBatch.of([scene.prompts[0], scene.prompts[2]], groups, n=2)


class Named:
    """Stands where a prompt stands; carriers only pass it on."""

    def __init__(self, name: int) -> None:
        self.name = name


def batch_of(lengths: list[int], longest: int = 3) -> GroupBatch:
    """Group g holds g everywhere, so that tensors and prompts can be compared after any journey."""
    names = list(range(len(lengths)))
    tensors = {
        "flat": torch.tensor(names, dtype=torch.int64),
        "wide": torch.tensor(names, dtype=torch.int64).reshape(-1, 1, 1).expand(-1, 2, longest).clone(),
    }
    return GroupBatch(tuple(Named(name) for name in names), TensorDict(tensors, [len(names)]))  # type: ignore[arg-type]


def names_of(batch: GroupBatch) -> list[int]:
    """The groups' names, after a check that prompts and tensors still belong together."""
    names = [prompt.name for prompt in batch.prompts]  # type: ignore[attr-defined]
    assert batch["flat"].tolist() == names
    assert batch["wide"][:, 1, 0].tolist() == names
    assert len(batch) == len(names)
    return names


sizes = st.integers(0, 9).map(lambda size: batch_of([1] * size))


@settings(max_examples=60, deadline=None)
@given(sizes, st.data())
def test_select_gives_these_groups_in_this_order(batch: GroupBatch, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=12) if len(batch) else st.just([]))
    assert names_of(batch.select(places)) == places


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 12))
def test_chunks_joined_again_are_the_batch(batch: GroupBatch, num_chunks: int) -> None:
    chunks = batch.chunk(num_chunks)
    assert len(chunks) == num_chunks
    counts = [len(chunk) for chunk in chunks]
    assert max(counts) - min(counts) <= 1
    assert [name for chunk in chunks for name in names_of(chunk)] == list(range(len(batch)))
    joined = GroupBatch.concat(chunks)
    assert names_of(joined) == names_of(batch)
    assert all(torch.equal(joined[key], batch[key]) for key in ("flat", "wide"))


@settings(max_examples=30, deadline=None)
@given(sizes, st.integers(0, 4))
def test_repeat_lays_copies_side_by_side(batch: GroupBatch, times: int) -> None:
    repeated = names_of(batch.repeat(times))
    assert repeated == [name for name in range(len(batch)) for _ in range(times)]


@settings(max_examples=30, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=4))
def test_concat_keeps_all_groups_in_order(batches: list[GroupBatch]) -> None:
    assert names_of(GroupBatch.concat(batches)) == [name for batch in batches for name in range(len(batch))]


def test_concat_pads_responses_to_the_longest(rollouts: RolloutBatch, scene: Scene) -> None:
    short = RolloutBatch.of([scene.prompts[1]], [[response(1, 40), response(1, 50)]], n=2)
    joined = RolloutBatch.concat([short, rollouts])
    assert joined["response_ids"].tolist() == [
        [[40, 0, 0], [50, 0, 0]],
        [[10, 11, 0], [0, 0, 0]],
        [[20, 21, 22], [30, 0, 0]],
    ]
    assert joined["response_lengths"].tolist() == [[1, 1], [2, 0], [3, 1]]
    assert joined.response_mask.sum(-1).tolist() == [[1, 1], [2, 0], [3, 1]]
    assert joined.prompts == (scene.prompts[1], *rollouts.prompts)


def test_rollouts_by_hand(rollouts: RolloutBatch) -> None:
    assert rollouts.num_responses == 2
    assert rollouts["truncated"].tolist() == [[False, False], [True, False]]
    assert rollouts["rollout_log_probs"].tolist() == [
        [[-5.0, -5.5, 0.0], [0.0, 0.0, 0.0]],
        [[-10.0, -10.5, -11.0], [-15.0, 0.0, 0.0]],
    ]
    assert rollouts.response_mask.tolist() == [
        [[True, True, False], [False] * 3],
        [[True] * 3, [True, False, False]],
    ]


def test_group_tokens_hold_the_prompt_once(rollouts: RolloutBatch, scene: Scene) -> None:
    lengths = [len(scene.prompts[0].token_ids), len(scene.prompts[2].token_ids)]
    assert rollouts.group_tokens() == [lengths[0] + 2, lengths[1] + 4]


def test_no_groups_at_all(rollouts: RolloutBatch) -> None:
    """A worker without prompts answers with nothing, and nothing joins with something."""
    nothing = RolloutBatch.of([], [], n=2)
    assert (len(nothing), nothing.num_responses, nothing.group_tokens()) == (0, 2, [])
    joined = RolloutBatch.concat([nothing, rollouts, nothing])
    assert all(torch.equal(joined[key], rollouts[key]) for key in RolloutBatch.required)


def test_union_adds_and_never_replaces(rollouts: RolloutBatch) -> None:
    more = rollouts.union(advantages=torch.ones(2, 2, 3))
    assert more.has("advantages")
    assert not rollouts.has("advantages")
    assert type(more) is RolloutBatch
    with pytest.raises(ValueError, match="response_ids"):
        rollouts.union(response_ids=torch.zeros(2, 2, 3))


def test_what_is_missing_is_named(rollouts: RolloutBatch) -> None:
    with pytest.raises(ValueError, match=r"TrainBatch needs the tensors \['advantages'\]"):
        TrainBatch(rollouts.prompts, rollouts.tensors)
    with pytest.raises(ValueError, match="seeds"):
        PromptBatch(rollouts.prompts, rollouts.tensors)


def test_prompts_and_tensors_that_disagree_are_refused(rollouts: RolloutBatch, scene: Scene) -> None:
    with pytest.raises(ValueError, match="1 prompts but tensors of batch size"):
        RolloutBatch(rollouts.prompts[:1], rollouts.tensors)
    with pytest.raises(ValueError, match="2 prompts but 1 seeds"):
        PromptBatch.of(scene.prompts[:2], [1])


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("response_lengths", (2, 3)),
        ("response_ids", (2, 6)),
        ("rollout_log_probs", (2, 2, 4)),
        ("truncated", (2, 1)),
        ("advantages", (2, 2)),
        ("old_log_probs", (2, 2, 2)),
        ("ref_log_probs", (2, 3, 3)),
    ],
)
def test_torn_shapes_are_refused(rollouts: RolloutBatch, name: str, shape: tuple[int, ...]) -> None:
    good = TrainBatch(rollouts.prompts, rollouts.union(advantages=torch.zeros(2, 2, 3)).tensors)
    dtype = good[name].dtype if good.has(name) else torch.float32
    with pytest.raises(ValueError, match=name):
        replace(good, tensors=TensorDict({**dict(good.tensors.items()), name: torch.zeros(shape, dtype=dtype)}, [2]))


@pytest.mark.parametrize("lengths", [[[4, 0], [0, 0]], [[-1, 0], [0, 0]]])
def test_a_length_that_no_response_can_have_is_refused(rollouts: RolloutBatch, lengths: list[list[int]]) -> None:
    tensors = {"response_ids": rollouts["response_ids"], "response_lengths": torch.tensor(lengths)}
    with pytest.raises(ValueError, match="response_lengths"):
        ResponseBatch(rollouts.prompts, TensorDict(tensors, [2]))


@pytest.mark.parametrize("count", [1, 3])
def test_a_group_with_another_number_of_responses_is_refused(scene: Scene, count: int) -> None:
    groups = [[response(1)] * 2, [response(1)] * count]
    with pytest.raises(ValueError, match=f"{count} responses.*n=2"):
        RolloutBatch.of(scene.prompts[:2], groups, n=2)


def test_answers_to_some_prompts_only_are_refused(scene: Scene) -> None:
    with pytest.raises(ValueError, match=r"2 prompts.*1 groups"):
        RolloutBatch.of(scene.prompts[:2], [[response(1)]], n=1)


def test_batches_of_different_kinds_do_not_join(rollouts: RolloutBatch) -> None:
    more = rollouts.union(old_log_probs=torch.zeros(2, 2, 3))
    for parts in ([rollouts, more], [more, rollouts]):
        with pytest.raises(ValueError, match="old_log_probs"):
            RolloutBatch.concat(parts)
    with pytest.raises(ValueError, match="no batches"):
        RolloutBatch.concat([])
    with pytest.raises(ValueError, match="num_chunks is 0"):
        rollouts.chunk(0)


def test_a_batch_crosses_processes_without_frames(scene: Scene) -> None:
    """A few KiB a group, though a group's frames alone take far more; and it arrives as it left."""
    batch = make_batch(scene)
    frames = sum(handle.path.stat().st_size for prompt in batch.prompts for handle in prompt.media)
    sent = pickle.dumps(batch)
    assert len(sent) < 6 * 1024 * len(batch) < frames
    assert len(pickle.dumps(batch.select([0]))) < len(sent)  # a share carries its own groups only
    back = pickle.loads(sent)  # noqa: S301 (what Ray does with it)
    assert type(back) is TrainBatch
    assert all(torch.equal(back[key], batch[key]) for key in batch.names)
    for prompt, original in zip(back.prompts, batch.prompts, strict=True):
        prompt.check("update")
        assert (prompt.media, prompt.contract) == (original.media, original.contract)
