"""Prompts over real files for a tiny Qwen3-VL, and what one plain forward pass says about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from evr_apps.demo.tiny_model import build_tiny_model
from evr_core import DataType, ProblemType, Sample, VideoBudget, geometry_for
from evr_trainer.rollout import Response, forbidden_token_ids
from evr_video import EncodedPrompt, FrameCache, MediaHandle, encode_prompt

CORPUS = ["What colour is the moving square? <answer>red</answer>", "It moves left, right, up, down. Where to?"] * 4


@dataclass(frozen=True)
class Scene:
    """A model folder, its model and processor, and prompts of every kind: text, image, video, all mixed."""

    model_path: Path
    model: Any
    processor: Any
    prompts: tuple[EncodedPrompt, ...]

    @property
    def forbidden(self) -> list[int]:
        return list(forbidden_token_ids(self.processor.tokenizer))

    def inputs(self, prompt: EncodedPrompt) -> Any:
        """What transformers' own processor makes of the prompt's text and frames."""
        clips = [(handle.kind, handle.open().for_transformers()) for handle in prompt.media]
        images = [clip for kind, clip in clips if kind == "image"]
        videos = [clip for kind, clip in clips if kind == "video"]
        media: dict[str, Any] = {"images": images} if images else {}
        if videos:
            media |= {"videos": [frames for frames, _ in videos], "do_sample_frames": False}
            media["video_metadata"] = [metadata for _, metadata in videos]
        return self.processor(text=[prompt.text], do_resize=False, return_tensors="pt", **media)

    @torch.no_grad()
    def log_probs(self, prompt: EncodedPrompt, token_ids: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
        """Log-probs of a response from one forward pass over prompt and response, without any cache. [R]"""
        inputs = dict(self.inputs(prompt))
        response = torch.tensor([token_ids])
        start = inputs["input_ids"].shape[1]
        inputs["input_ids"] = torch.cat([inputs["input_ids"], response], 1)
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        kinds = inputs["mm_token_type_ids"]
        inputs["mm_token_type_ids"] = torch.cat([kinds, torch.zeros_like(response).to(kinds.dtype)], 1)
        logits = self.model(**inputs).logits[0, start - 1 : -1].float()
        logits[:, self.forbidden] = -torch.inf
        return (logits / temperature).log_softmax(-1).gather(-1, response[0, :, None])[:, 0]

    def largest_difference(self, responses: Sequence[Sequence[Response]], temperature: float = 1.0) -> list[float]:
        """By prompt, how far the engine's log-probs lie from those of the plain forward pass at most."""
        return [
            max(
                (torch.tensor(one.log_probs) - self.log_probs(prompt, one.token_ids, temperature)).abs().max().item()
                for one in group
            )
            for prompt, group in zip(self.prompts, responses, strict=True)
        ]


def build_scene(folder: Path, seed: int = 0) -> Scene:
    """A random model with weights large enough that its answers depend on what it sees, and four prompts."""
    path = build_tiny_model(folder / "model", seed=seed, corpus=CORPUS)
    model = AutoModelForImageTextToText.from_pretrained(path, attn_implementation="sdpa").eval()
    _shrink(model)
    perturb(model, seed, scale=0.5)
    model.save_pretrained(path)
    processor = AutoProcessor.from_pretrained(path)
    return Scene(path, model, processor, _prompts(folder, processor, geometry_for(model.config)))


@torch.no_grad()
def _shrink(model: torch.nn.Module) -> None:
    """From the demo's wide initialisation (0.15) to a usual one (0.05): float32 errors grow with the logits."""
    for parameter in model.parameters():
        if parameter.ndim >= 2:
            parameter.div_(3.0)


@torch.no_grad()
def perturb(model: torch.nn.Module, seed: int, scale: float) -> None:
    """Move every parameter by noise in proportion to its own spread."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        spread = parameter.abs().mean() * scale
        parameter.add_(torch.randn(parameter.shape, generator=generator) * spread)


def _prompts(folder: Path, processor: Any, geometry: Any) -> tuple[EncodedPrompt, ...]:
    cache = FrameCache(folder / "cache")
    budget = VideoBudget(fps=2.0, min_frames=4, max_frames=8, min_pixels=32 * 32, max_pixels=64 * 64)
    long, short = (
        cache.ensure_video(_write_video(folder / f"{name}.mp4", frames, seed), budget, geometry)
        for name, frames, seed in (("long", 40, 1), ("short", 20, 2))
    )
    picture = cache.ensure_image(
        _write_image(folder / "picture.png", seed=3), geometry, min_pixels=32 * 32, max_pixels=96 * 96
    )
    problems: list[tuple[str, list[MediaHandle]]] = [
        ("What colour is it?", []),
        ("<image>Where does it move, left or right?", [picture]),
        ("<video>Which way?", [long]),
        ("<video>First this, <image>then that, <video>and at last this one: what is red?", [short, picture, long]),
    ]
    return tuple(_encode(problem, media, processor.tokenizer, geometry) for problem, media in problems)


def _encode(problem: str, media: list[MediaHandle], tokenizer: Any, geometry: Any) -> EncodedPrompt:
    paths = {kind: tuple(Path(h.source) for h in media if h.kind == kind) for kind in ("image", "video")}
    sample = Sample(
        problem_id=problem[:16],
        problem=problem,
        answer="red",
        problem_type=ProblemType.OPEN_ENDED,
        data_type=DataType.VIDEO if paths["video"] else DataType.IMAGE if paths["image"] else DataType.TEXT,
        images=paths["image"],
        videos=paths["video"],
    )
    return encode_prompt(sample, tokenizer, media=media, geometry=geometry)


def _write_video(path: Path, frames: int, seed: int) -> Path:
    """Ten frames a second of coarse noise, 64 x 96."""
    numbers = np.random.default_rng(seed)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"threads": "1"})
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for _ in range(frames):
            coarse = numbers.integers(0, 256, (8, 12, 3), dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(coarse.repeat(8, 0).repeat(8, 1), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def _write_image(path: Path, seed: int) -> Path:
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (64, 96, 3), dtype=np.uint8)).save(path)
    return path
