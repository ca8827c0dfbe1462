"""Synthetic video questions with known truth: clips, pictures and record files, the same bytes for the same seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evr_apps.demo.questions import TASKS, Question, caption
from evr_apps.demo.shapes import FPS, SIDE, render

CAPTION_TASK = "caption"
_SPLITS = ("train", "val", "sft")
# Share of the warm-up's clips and pictures that come with a description in place of a question: one description teaches
# the policy several things about what it sees.
CAPTIONED = 0.6
# How often the warm-up's annotator mislabels the tasks that are hard on them. Well above one half, so that a policy
# that learnt the warm-up perfectly is mostly wrong there: what lifts it afterwards can only be the reward.
MISLABELLED = 0.75


@dataclass(frozen=True)
class DemoData:
    """The files of one generated data set.

    Attributes:
        train_file: Records for reinforcement learning (JSON lines).
        val_file: Held-out records; their clips occur nowhere else.
        sft_file: Records for the supervised warm-up, with clips of their own. Its answers come from a careless
            annotator; a record whose answer is wrong holds the right one as ``true_answer``. Most of its clips come
            with a description instead.
        media_dir: Folder that the records' media paths are relative to.
    """

    train_file: Path
    val_file: Path
    sft_file: Path
    media_dir: Path


def generate_demo_data(out_dir: Path, *, seed: int, num_train: int, num_val: int, num_sft: int) -> DemoData:
    """Write clips (H.264 in MP4, 64x64 pixels, 8 frames, 2 fps), pictures (PNG) and three record files.

    Records of every task come in fixed shares (``questions.TASKS``) and each task asks for each of its answers
    equally often, so that a constant answer scores low.

    Args:
        out_dir: Folder to write to; files of the same names are replaced.
        seed: Decides every pixel and every record; at least 0.
        num_train: Records for reinforcement learning.
        num_val: Held-out records.
        num_sft: Records for the warm-up.

    Raises:
        ValueError: The seed is negative, or a number of records is below one per task.
    """
    if seed < 0:
        raise ValueError(f"seed={seed}: give a seed of at least 0")
    counts = dict(zip(_SPLITS, (num_train, num_val, num_sft), strict=True))
    for split, count in counts.items():
        if count < len(TASKS):
            raise ValueError(f"num_{split}={count}: give at least {len(TASKS)} records, one for each task")
    media_dir = out_dir / "media"
    for folder in ("videos", "images"):
        (media_dir / folder).mkdir(parents=True, exist_ok=True)
    files = {}
    for split, count in counts.items():
        records = [
            _write_record(media_dir, split, index, task, answer, seed=seed)
            for index, (task, answer) in enumerate(_schedule(split, count, seed=seed))
        ]
        if split == "sft":
            records = [_annotate(record, np.random.default_rng([seed, i])) for i, record in enumerate(records)]
        files[split] = out_dir / f"{split}.jsonl"
        files[split].write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return DemoData(files["train"], files["val"], files["sft"], media_dir)


def _rng(seed: int, split: str, index: int) -> np.random.Generator:
    return np.random.default_rng([seed, _SPLITS.index(split), index])


def _schedule(split: str, count: int, *, seed: int) -> list[tuple[str, str]]:
    """Task and answer of each record: fixed shares, answers in rotation, order shuffled."""
    rng = _rng(seed, split, 0)
    plan: list[tuple[str, str]] = []
    for name, wanted in _task_counts(count).items():
        answers = TASKS[name].answers
        rotation = [answers[i] for i in rng.permutation(len(answers))]
        plan += [(name, rotation[i % len(rotation)]) for i in range(wanted)]
    return [plan[i] for i in rng.permutation(len(plan))]


def _task_counts(count: int) -> dict[str, int]:
    """Records of each task: its share of ``count``, at least one; what that adds, the largest task gives."""
    edges = np.round(np.cumsum([0.0, *(task.share for task in TASKS.values())]) * count).astype(int)
    counts = {name: max(int(size), 1) for name, size in zip(TASKS, np.diff(edges), strict=True)}
    while sum(counts.values()) > count:
        counts[max(counts, key=counts.__getitem__)] -= 1
    return counts


def _write_record(media_dir: Path, split: str, index: int, task: str, answer: str, *, seed: int) -> dict[str, Any]:
    rng = _rng(seed, split, index + 1)
    question = TASKS[task].ask(answer, rng)
    medium = TASKS[task].medium
    name = f"{split}_{index:05d}"
    if split == "sft" and question.scene is not None and rng.random() < CAPTIONED:
        question, task = caption(question), CAPTION_TASK
    record = _record(question, name, task, medium)
    if question.scene is None:
        return record
    frames = render(question.scene, rng, num_frames=1) if medium == "image" else render(question.scene, rng)
    if medium == "image":
        _write_png(media_dir / "images" / f"{name}.png", frames[0])
        return record | {"images": [f"images/{name}.png"]}
    _write_mp4(media_dir / "videos" / f"{name}.mp4", frames)
    return record | {"videos": [f"videos/{name}.mp4"]}


def _annotate(record: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The record as the careless annotator leaves it."""
    task = TASKS.get(record["demo_task"])
    if task is None or not task.often_mislabelled or rng.random() >= MISLABELLED:
        return record
    return record | {"answer": task.neighbour(record["answer"]), "true_answer": record["answer"]}


def _record(question: Question, name: str, task: str, medium: str) -> dict[str, Any]:
    return {
        "problem_id": name,
        "problem": question.problem,
        "answer": question.answer,
        "problem_type": str(question.problem_type),
        "data_type": medium,
        "options": list(question.options),
        "data_source": "evr-demo",
        "demo_task": task,
    }


def _write_png(path: Path, pixels: NDArray[np.uint8]) -> None:
    from PIL import Image

    Image.fromarray(pixels).save(path, format="PNG")


def _write_mp4(path: Path, frames: NDArray[np.uint8]) -> None:
    """Encode [T, H, W, 3] frames; one encoder thread and bit-exact muxing give the same bytes every time."""
    import av

    with av.open(str(path), mode="w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.time_base = Fraction(1, FPS)
        stream.options = {"crf": "14", "preset": "veryfast", "threads": "1", "bf": "0"}
        for index, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
