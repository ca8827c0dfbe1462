"""The demo's generator: the same bytes for the same seed, and truths that the decoded pixels confirm."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from evr_apps.demo.data import CAPTION_TASK, MISLABELLED, DemoData, generate_demo_data
from evr_apps.demo.questions import TASKS
from evr_apps.demo.shapes import COLOURS
from evr_core import Sample, missing_media, read_samples
from evr_rewards import score

COUNTS = {"train": 240, "val": 60, "sft": 80}
QUESTIONS_ONLY = ("train", "val")  # the warm-up holds descriptions and wrong answers too
SMALL = {"num_train": 20, "num_val": 10, "num_sft": 10}


@dataclass(frozen=True)
class Generated:
    """A data set with everything decoded once: ``pixels`` maps a record's id to uint8 [T, H, W, 3]."""

    data: DemoData
    records: dict[str, list[dict[str, Any]]]
    pixels: dict[str, NDArray[np.uint8]]

    def of_task(self, task: str) -> list[tuple[str, dict[str, Any], NDArray[np.uint8]]]:
        found = [r for records in self.records.values() for r in records if r["demo_task"] == task]
        assert len(found) >= len(TASKS[task].answers)
        return [(r.get("true_answer", r["answer"]), r, self.pixels[r["problem_id"]]) for r in found]

    def samples(self, split: str) -> tuple[Sample, ...]:
        return read_samples(record_files(self.data)[split], media_dir=self.data.media_dir).samples


def record_files(data: DemoData) -> dict[str, Path]:
    return {"train": data.train_file, "val": data.val_file, "sft": data.sft_file}


def is_caption(record: dict[str, Any]) -> bool:
    return bool(record["demo_task"] == CAPTION_TASK)


def decode(media_dir: Path, record: dict[str, Any]) -> NDArray[np.uint8]:
    if "images" in record:
        return np.asarray(Image.open(media_dir / record["images"][0]).convert("RGB"))[None]
    with av.open(str(media_dir / record["videos"][0])) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    data = generate_demo_data(
        tmp_path_factory.mktemp("demo"), seed=3, **{f"num_{split}": count for split, count in COUNTS.items()}
    )
    records = {
        split: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for split, file in record_files(data).items()
    }
    with_media = [r for found in records.values() for r in found if r["data_type"] != "text"]
    return Generated(data, records, {r["problem_id"]: decode(data.media_dir, r) for r in with_media})


def file_digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def shown(frame: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Pixels of shapes: noise takes the dark background to 90 at most, the darkest shape's brightest channel is 175."""
    return frame.max(axis=-1) > 130


def is_visible(frame: NDArray[np.uint8]) -> bool:
    return bool(shown(frame).sum() > 30)


def nearest_colour(frames: NDArray[np.uint8]) -> str:
    """Name of the palette's colour next to the shape's median colour in the first frame."""
    median = np.median(frames[0][shown(frames[0])], axis=0)
    return min(COLOURS, key=lambda name: float(np.abs(median - COLOURS[name]).sum()))


def count_components(mask: NDArray[np.bool_], *, least_pixels: int = 20) -> int:
    """Connected parts of a mask, by flood fill over the four neighbours; specks are not counted."""
    left = set(zip(*(axis.tolist() for axis in np.nonzero(mask)), strict=True))
    sizes = []
    while left:
        todo = [left.pop()]
        size = 0
        while todo:
            row, column = todo.pop()
            size += 1
            for near in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if near in left:
                    left.remove(near)
                    todo.append(near)
        sizes.append(size)
    return sum(size >= least_pixels for size in sizes)


def displacement(frames: NDArray[np.uint8]) -> tuple[float, float]:
    """Pixels that the shape's centre goes to the right and down between the first and the last frame."""
    rows_columns = [np.argwhere(shown(frame)).mean(axis=0) for frame in (frames[0], frames[-1])]
    down, right = rows_columns[1] - rows_columns[0]
    return float(right), float(down)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    generate_demo_data(tmp_path / "a", seed=5, **SMALL)
    generate_demo_data(tmp_path / "b", seed=5, **SMALL)
    first = file_digests(tmp_path / "a")
    assert first == file_digests(tmp_path / "b")
    assert {Path(name).suffix for name in first} == {".jsonl", ".mp4", ".png"}
    generate_demo_data(tmp_path / "a", seed=5, **SMALL)
    assert file_digests(tmp_path / "a") == first


def test_another_seed_gives_other_records_and_other_media(tmp_path: Path) -> None:
    generate_demo_data(tmp_path / "a", seed=5, **SMALL)
    generate_demo_data(tmp_path / "b", seed=6, **SMALL)
    first, second = (file_digests(tmp_path / name) for name in "ab")
    for name in ("train.jsonl", "val.jsonl", "sft.jsonl"):
        assert first[name] != second[name]
    of_media = [{d for name, d in digests.items() if name.startswith("media")} for digests in (first, second)]
    assert not of_media[0] & of_media[1]


def test_clips_are_h264_of_the_stated_size_and_length(generated: Generated) -> None:
    files = sorted((generated.data.media_dir / "videos").iterdir())
    assert len(files) == sum(r["data_type"] == "video" for found in generated.records.values() for r in found)
    for path in files:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            assert "mp4" in container.format.name
            assert (stream.codec_context.name, stream.width, stream.height) == ("h264", 64, 64)
            assert (stream.frames, stream.average_rate) == (8, 2)
            assert container.duration == 4 * av.time_base
            assert [float(frame.time) for frame in container.decode(stream)] == [i / 2 for i in range(8)]
    assert all(p.shape in ((8, 64, 64, 3), (1, 64, 64, 3)) for p in generated.pixels.values())


@pytest.mark.parametrize("task", ["colour", "image_colour"])
def test_the_shape_has_the_colour_of_the_truth(generated: Generated, task: str) -> None:
    for answer, record, frames in generated.of_task(task):
        assert nearest_colour(frames) == answer, record["problem_id"]


def test_the_option_of_the_truth_names_the_colour(generated: Generated) -> None:
    for answer, record, frames in generated.of_task("choice"):
        options = dict(option.split(". ") for option in record["options"])
        assert list(options) == list("ABCD")
        assert options[answer] == nearest_colour(frames), record["problem_id"]


def test_the_shape_moves_the_way_the_truth_says(generated: Generated) -> None:
    for answer, record, frames in generated.of_task("direction"):
        right, down = displacement(frames)
        ways = {"left": (-right, down), "right": (right, down), "up": (-down, right), "down": (down, right)}
        along, across = ways[answer]
        assert along > 20, record["problem_id"]
        assert abs(across) < 2, record["problem_id"]


@pytest.mark.parametrize("task", ["count", "image_count"])
def test_there_are_as_many_shapes_as_the_truth_says(generated: Generated, task: str) -> None:
    for answer, record, frames in generated.of_task(task):
        for frame in (frames[0], frames[-1]):
            assert count_components(shown(frame)) == int(answer), record["problem_id"]


def test_the_shape_is_visible_in_the_interval_of_the_truth_alone(generated: Generated) -> None:
    for answer, record, frames in generated.of_task("time"):
        start_s, end_s = json.loads(answer)["time"]
        times = [index / 2 for index, frame in enumerate(frames) if is_visible(frame)]
        assert times == np.arange(start_s, end_s, 0.5).tolist(), record["problem_id"]


def test_the_shape_vanishes_when_the_truth_is_yes(generated: Generated) -> None:
    for answer, record, frames in generated.of_task("boolean"):
        visible = [is_visible(frame) for frame in frames]
        assert visible[0], record["problem_id"]
        assert visible == sorted(visible, reverse=True), record["problem_id"]  # it does not come back
        assert visible[-1] == (answer == "no"), record["problem_id"]


def test_the_box_of_the_truth_bounds_the_shape(generated: Generated) -> None:
    for answer, record, frames in generated.of_task("box"):
        rows, columns = np.nonzero(shown(frames[0]))
        box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert box == json.loads(answer)["boxes"], record["problem_id"]


def test_the_sum_of_the_truth_is_right(generated: Generated) -> None:
    sums = [r for found in generated.records.values() for r in found if r["demo_task"] == "sum"]
    assert sums
    for record in sums:
        words = record["problem"].rstrip("?").split()
        assert int(words[2]) + int(words[4]) == int(record["answer"])


def test_no_clip_or_picture_occurs_twice(generated: Generated) -> None:
    digests = Counter(hashlib.sha256(pixels.tobytes()).hexdigest() for pixels in generated.pixels.values())
    assert max(digests.values()) == 1
    assert {name.split("_")[0] for name in generated.pixels} == {"train", "val", "sft"}


@pytest.mark.parametrize("split", QUESTIONS_ONLY)
def test_every_answer_of_a_task_is_asked_equally_often(generated: Generated, split: str) -> None:
    for name, task in TASKS.items():
        found = Counter(r["answer"] for r in generated.records[split] if r["demo_task"] == name)
        asked = [found[answer] for answer in task.answers]
        assert found.keys() <= set(task.answers)
        assert max(asked) - min(asked) <= 1


@pytest.mark.parametrize("split", QUESTIONS_ONLY)
def test_tasks_and_media_have_their_shares(generated: Generated, split: str) -> None:
    count = COUNTS[split]
    assert len(generated.records[split]) == count
    tasks = Counter(r["demo_task"] for r in generated.records[split])
    assert all(abs(tasks[name] - task.share * count) <= 1 for name, task in TASKS.items())
    media = Counter(r["data_type"] for r in generated.records[split])
    expected = {"video": 0.73, "image": 0.17, "text": 0.10}
    assert all(media[kind] / count == pytest.approx(share, abs=0.02) for kind, share in expected.items())


def test_records_of_a_kind_do_not_lie_together(generated: Generated) -> None:
    """A first batch in file order shows nearly every task."""
    assert len({r["demo_task"] for r in generated.records["train"][:32]}) >= 8


@pytest.mark.parametrize("split", COUNTS)
def test_every_record_is_read_and_its_media_are_there(generated: Generated, split: str) -> None:
    found = read_samples(record_files(generated.data)[split], media_dir=generated.data.media_dir)
    assert not found.rejected
    assert [s.problem_id for s in found.samples] == [r["problem_id"] for r in generated.records[split]]
    assert not missing_media(found.samples)
    assert {len(s.videos) + len(s.images) for s in found.samples if s.data_type != "text"} == {1}


@pytest.mark.parametrize("split", COUNTS)
def test_the_truth_scores_one(generated: Generated, split: str) -> None:
    for sample in generated.samples(split):
        result = score(f"<answer>{sample.answer}</answer>", sample)
        assert (result.overall, result.accuracy, result.format) == (pytest.approx(1.0), 1.0, 1.0), sample.problem_id


def test_a_constant_answer_per_problem_type_scores_low(generated: Generated) -> None:
    by_type: dict[str, list[Sample]] = {}
    for sample in generated.samples("train"):
        by_type.setdefault(sample.problem_type, []).append(sample)
    assert len(by_type) == 6
    best = {
        kind: max(
            sum(score(f"<answer>{answer}</answer>", sample).accuracy for sample in samples)
            for answer in {sample.answer for sample in samples}
        )
        for kind, samples in by_type.items()
    }
    assert sum(best.values()) / COUNTS["train"] < 0.3
    assert all(best[kind] / len(samples) <= 0.55 for kind, samples in by_type.items())


@pytest.mark.parametrize("split", COUNTS)
def test_fewer_records_than_tasks_are_refused(tmp_path: Path, split: str) -> None:
    counts = {"num_train": 10, "num_val": 10, "num_sft": 10} | {f"num_{split}": 9}
    with pytest.raises(ValueError, match=rf"num_{split}=9: give at least 10 records"):
        generate_demo_data(tmp_path / "out", seed=1, **counts)
    assert not (tmp_path / "out").exists()


def test_a_negative_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seed=-1: give a seed of at least 0"):
        generate_demo_data(tmp_path / "out", seed=-1, **SMALL)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", [10, 11, 12, 19])
def test_a_small_set_still_holds_every_task(tmp_path: Path, count: int) -> None:
    data = generate_demo_data(tmp_path, seed=2, num_train=count, num_val=count, num_sft=count)
    for split, file in record_files(data).items():
        lines = file.read_text(encoding="utf-8").splitlines()
        assert len(lines) == count
        if split in QUESTIONS_ONLY:
            assert {json.loads(line)["demo_task"] for line in lines} == TASKS.keys()


def test_descriptions_say_what_the_pixels_show(generated: Generated) -> None:
    described = [(r["answer"], generated.pixels[r["problem_id"]]) for r in generated.records["sft"] if is_caption(r)]
    assert len(described) > 20
    for text, frames in described:
        words = text.split()
        if words[1] == "shapes":
            assert count_components(shown(frames[0])) == int(words[0])
            continue
        first = next(i for i, frame in enumerate(frames) if is_visible(frame))
        assert nearest_colour(frames[first:]) == words[0]
        if words[2] == "moves":
            right, down = displacement(frames)
            assert (
                max({"left": -right, "right": right, "up": -down, "down": down}.items(), key=lambda x: x[1])[0]
                == (words[3])
            )
        elif words[2] == "from":
            times = [index / 2 for index, frame in enumerate(frames) if is_visible(frame)]
            assert times == np.arange(float(words[3]), float(words[5]), 0.5).tolist()
        else:
            rows, columns = np.nonzero(shown(frames[0]))
            assert (columns.min(), rows.min()) == pytest.approx((int(words[3].rstrip(",")), int(words[4])), abs=1)


def test_the_warm_up_alone_is_mislabelled_and_says_where(tmp_path: Path) -> None:
    data = generate_demo_data(tmp_path, seed=4, num_train=30, num_val=30, num_sft=400)
    for split in QUESTIONS_ONLY:
        assert "true_answer" not in record_files(data)[split].read_text(encoding="utf-8")
    records = [json.loads(line) for line in data.sft_file.read_text(encoding="utf-8").splitlines()]
    questions = [r for r in records if not is_caption(r)]
    careless = [r for r in questions if TASKS[r["demo_task"]].often_mislabelled]
    wrong = [r for r in questions if "true_answer" in r]
    assert all(r in careless for r in wrong)
    assert all(r["answer"] == TASKS[r["demo_task"]].neighbour(r["true_answer"]) != r["true_answer"] for r in wrong)
    assert abs(len(wrong) / len(careless) - MISLABELLED) < 0.2
