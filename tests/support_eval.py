"""Real clips, records and a tiny model for the evaluation tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from evr_apps.demo.tiny_model import build_tiny_model
from evr_eval import EngineError, Generation, SamplingSettings

if TYPE_CHECKING:
    from evr_video import EncodedPrompt

SMALL: dict[str, Any] = {"fps": 2.0, "max_frames": 4, "min_pixels": 1024, "max_pixels": 4096, "total_pixels": 65536}
_COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
COLOURS = tuple(_COLOURS)


def make_clip(path: Path, colour: str, *, seconds: int = 2, fps: int = 8, size: int = 64) -> Path:
    """An H.264 file with a square of one colour that moves to the right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        for index in range(seconds * fps):
            pixels = np.zeros((size, size, 3), np.uint8)
            pixels[24:40, index : index + 16] = _COLOURS[colour]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def make_media(folder: Path) -> list[str]:
    """One clip per colour; their names."""
    names = [f"{colour}.mp4" for colour in COLOURS]
    for colour, name in zip(COLOURS, names, strict=True):
        make_clip(folder / name, colour)
    return names


def make_broken(folder: Path) -> list[str]:
    """A video of each kind that cannot be read: empty, text, missing; their names."""
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "text.mp4").write_text("this is no video\n" * 20)
    return ["empty.mp4", "text.mp4", "missing.mp4"]


def question(problem_id: str, video: str | None, answer: str, **fields: Any) -> dict[str, Any]:
    """A boolean question, on a video or as text only."""
    record = {"problem_id": problem_id, "problem": f"Is it red? ({problem_id})", "problem_type": "boolean"}
    media = {"videos": [video], "data_type": "video"} if video else {"data_type": "text"}
    return {**record, **media, "answer": answer, **fields}


def write_records(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def tiny_model(folder: Path) -> Path:
    """A random Qwen3-VL of about a million parameters."""
    corpus = ["Is it red? <answer>yes</answer> <answer>no</answer>", "Watch the video and answer the question."]
    return build_tiny_model(folder, seed=0, corpus=corpus)


@dataclass
class TableEngine:
    """Answers from a table: the response of each sample, or the error it ends in."""

    table: Mapping[str, Generation | str]
    max_concurrency: int = 4
    fingerprint: Mapping[str, str] = field(default_factory=lambda: {"name": "table"})
    seen: list[str] = field(default_factory=list)

    async def generate(self, prompt: EncodedPrompt, sampling: SamplingSettings) -> Generation:
        self.seen.append(prompt.sample_id)
        entry = self.table[prompt.sample_id]
        if isinstance(entry, str):
            raise EngineError(entry)
        return entry

    def close(self) -> None:
        pass


def says(text: str, finish_reason: str = "stop") -> Generation:
    return Generation(text, tuple(range(len(text.split()))), finish_reason)
