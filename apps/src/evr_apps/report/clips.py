"""Clips to look at: some of their frames, the question, and what was answered before and after training."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evr_apps.report.jsonl import read_lines
from evr_apps.report.scores import Evaluation
from evr_eval import ResultRow
from evr_rewards import RewardWeights
from evr_video import ImageClip, MediaHandle

_MAX_SIDE = 160  # pixels of a shown frame
_MAX_FRAMES = 8


@dataclass(frozen=True)
class Frame:
    """One picture as a data URI and the second it shows; None for a still image."""

    uri: str
    time_s: float | None


@dataclass(frozen=True)
class Answer:
    """One response and what it was worth."""

    text: str
    outcome: str
    reward: float


@dataclass(frozen=True)
class Clip:
    """A question on its media with the answers given to it."""

    problem_id: str
    problem: str
    problem_type: str
    truth: str
    options: tuple[str, ...]
    frames: tuple[Frame, ...]
    before: Answer | None
    after: Answer | None


@dataclass(frozen=True)
class Group:
    """One training prompt and the n responses sampled for it at one step."""

    step: int
    problem: str
    truth: str
    frames: tuple[Frame, ...]
    responses: tuple[Answer, ...]


def held_out_clips(
    samples_file: Path, before: Evaluation | None, after: Evaluation | None, *, limit: int = 9
) -> list[Clip]:
    """Questions of every problem type in turn: answers that got better first, then those that got worse.

    Args:
        samples_file: One JSON object a line: problem_id, problem, answer, problem_type, options,
            preprocessed_media (handles), as ``evr preprocess`` writes them.
        before: Evaluation before training.
        after: Evaluation after training.
        limit: Most clips.
    """
    by_id = {str(row["problem_id"]): row for row in read_lines(samples_file) if row.get("preprocessed_media")}
    ids = _choose(by_id, before, after, limit)
    return [_clip(by_id[problem_id], before, after) for problem_id in ids]


def training_groups(generations_file: Path, *, limit: int = 3) -> list[Group]:
    """The first logged prompt with media of ``limit`` steps, spread evenly from the first step to the last."""
    first_of: dict[int, dict[str, Any]] = {}
    for row in read_lines(generations_file):
        if row["media"] and row["responses"]:
            first_of.setdefault(int(row["step"]), row)
    steps = sorted(first_of)
    chosen = sorted({steps[round(i * (len(steps) - 1) / max(1, limit - 1))] for i in range(limit)}) if steps else []
    return [_group(step, first_of[step]) for step in chosen]


def frames_of(media: Sequence[Mapping[str, Any]]) -> tuple[Frame, ...]:
    """At most eight evenly spread frames of all the media, read from the frame cache."""
    frames = [frame for handle in media for frame in _open(handle)]
    if len(frames) <= _MAX_FRAMES:
        return tuple(frames)
    return tuple(frames[round(i * (len(frames) - 1) / (_MAX_FRAMES - 1))] for i in range(_MAX_FRAMES))


def _choose(
    by_id: Mapping[str, Mapping[str, Any]], before: Evaluation | None, after: Evaluation | None, limit: int
) -> list[str]:
    def change(problem_id: str) -> float:
        rows = [evaluation.rows.get(problem_id) if evaluation else None for evaluation in (before, after)]
        return 0.0 if rows[0] is None or rows[1] is None else rows[1].score - rows[0].score

    by_type: dict[str, list[str]] = {}
    for problem_id, row in by_id.items():
        by_type.setdefault(str(row["problem_type"]), []).append(problem_id)
    queues = []
    for name in sorted(by_type):
        ids = sorted(by_type[name], key=lambda i: (-change(i), i))
        better, worse = [i for i in ids if change(i) > 0], [i for i in reversed(ids) if change(i) < 0]
        same = [i for i in ids if change(i) == 0]
        queues.append([*better[:1], *worse[:1], *same[:1], *better[1:], *worse[1:], *same[1:]])
    longest = max((len(queue) for queue in queues), default=0)
    in_turn = [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]
    return in_turn[:limit]


def _clip(row: Mapping[str, Any], before: Evaluation | None, after: Evaluation | None) -> Clip:
    problem_id = str(row["problem_id"])
    return Clip(
        problem_id=problem_id,
        problem=str(row["problem"]),
        problem_type=str(row["problem_type"]),
        truth=str(row["answer"]),
        options=tuple(row.get("options") or ()),
        frames=frames_of(row["preprocessed_media"]),
        before=_answer(before.rows.get(problem_id)) if before else None,
        after=_answer(after.rows.get(problem_id)) if after else None,
    )


def _answer(row: ResultRow | None) -> Answer | None:
    if row is None:
        return None
    weights = RewardWeights()
    return Answer(row.response, str(row.outcome), weights.accuracy * row.score + weights.format * row.format)


def _group(step: int, row: Mapping[str, Any]) -> Group:
    responses = tuple(
        Answer(str(response["text"]), str(response["outcome"]), float(response["overall"]))
        for response in row["responses"]
    )
    return Group(step, str(row["problem"]), str(row["answer"]), frames_of(row["media"]), responses)


def _open(handle: Mapping[str, Any]) -> list[Frame]:
    clip = MediaHandle.from_dict(dict(handle)).open()
    if isinstance(clip, ImageClip):
        return [Frame(_png(clip.pixels.numpy()), None)]
    times = [float(time) for time in clip.timestamps_s]
    return [Frame(_png(frame.numpy()), time) for frame, time in zip(clip.frames, times, strict=True)]


def _png(pixels: Any) -> str:  # uint8 [3, H, W]
    from PIL import Image

    image = Image.fromarray(pixels.transpose(1, 2, 0).copy())
    image.thumbnail((_MAX_SIDE, _MAX_SIDE))
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
