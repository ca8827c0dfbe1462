"""Checkpoint folders are complete or not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evr_trainer.checkpoint import CheckpointError, CheckpointStore


def _save(store: CheckpointStore, step: int, content: bytes = b"weights") -> Path:
    staging = store.begin(step)
    (staging / "actor" / "model").mkdir()
    (staging / "actor" / "model" / "shard.safetensors").write_bytes(content)
    return store.commit(staging, {"step": step}).path


def test_the_newest_complete_one_is_found(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    assert store.latest() is None
    _save(store, 9)
    _save(store, 10)
    latest = store.latest()
    assert latest is not None
    assert (latest.step, latest.state["step"]) == (10, 10)
    assert latest.actor_dir == tmp_path / "global_step_10" / "actor"


def test_a_staged_one_does_not_count_and_is_cleared(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    _save(store, 1)
    killed = store.begin(2)
    (killed / "actor" / "half").write_bytes(b"x")
    latest = CheckpointStore(tmp_path).latest()
    assert latest is not None
    assert latest.step == 1
    store.begin(3)
    assert not killed.exists()


def _truncate(folder: Path) -> None:
    file = folder / "actor" / "model" / "shard.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def _flip(folder: Path) -> None:
    file = folder / "actor" / "model" / "shard.safetensors"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])


def _remove(folder: Path) -> None:
    (folder / "actor" / "model" / "shard.safetensors").unlink()


def _no_state(folder: Path) -> None:
    (folder / "state.json").unlink()


def _half_state(folder: Path) -> None:
    state = folder / "state.json"
    state.write_text(state.read_text()[:-5])


def _no_manifest(folder: Path) -> None:
    (folder / "state.json").write_text(json.dumps({"step": 2}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_truncate, "6 bytes; 7 were saved"),
        (_flip, "digest differs"),
        (_remove, "is missing"),
        (_no_state, "not written to its end"),
        (_half_state, "damaged"),
        (_no_manifest, "damaged"),
    ],
)
def test_a_damaged_one_is_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: object, said: str
) -> None:
    store = CheckpointStore(tmp_path)
    _save(store, 1)
    newest = _save(store, 2)
    assert callable(damage)
    damage(newest)
    latest = store.latest()
    assert latest is not None
    assert latest.step == 1
    assert said in caplog.text
    with pytest.raises(CheckpointError, match=said):
        store.open(newest)
    assert _save(store, 2, b"again").is_dir()  # and it can be saved once more
    again = store.latest()
    assert again is not None
    assert again.step == 2


def test_pruning_keeps_the_newest_and_the_best(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    for step in range(1, 7):
        _save(store, step)
    assert store.prune(-1, 1, current_step=6) == []
    gone = store.prune(2, best_step=3, current_step=6)
    assert sorted(path.name for path in gone) == ["global_step_1", "global_step_2", "global_step_4"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["global_step_3", "global_step_5", "global_step_6"]


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="global_step_N"):
        CheckpointStore(tmp_path).open(tmp_path)
