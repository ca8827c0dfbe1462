"""Expanded chat texts against the processors of transformers."""

from __future__ import annotations

import random

import pytest
import torch

from core.processors import processor_for
from evr_core import VideoBudget, VideoInfo, expand_placeholders, geometry_for, plan_image, plan_video

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"
SMALL = VideoBudget(fps=2.0, max_frames=10, min_pixels=4096, max_pixels=30_000)


@pytest.fixture(scope="module", params=["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def family(request):
    return request.param, processor_for(request.param), geometry_for(request.param)


def _random_media(rng, geometry):
    images = [
        plan_image(rng.randint(60, 200), rng.randint(60, 200), geometry, min_pixels=4096, max_pixels=30_000)
        for _ in range(rng.randint(0, 2))
    ]
    videos = []
    for _ in range(rng.randint(0, 2)):
        info = VideoInfo(rng.randint(12, 400), rng.choice([25.0, 29.97, 10.0]), rng.randint(60, 200), 100, 1.0)
        videos.append(plan_video(info, SMALL, geometry))
    return images, videos


def _reference_ids(processor, text, images, videos):
    pixels = [torch.zeros(3, plan.height, plan.width, dtype=torch.uint8) for plan in images]
    clips = [torch.zeros(plan.num_frames, 3, plan.height, plan.width, dtype=torch.uint8) for plan in videos]
    metadata = [
        {"fps": plan.source_fps, "frames_indices": list(plan.frame_indices), "total_num_frames": plan.source_num_frames}
        for plan in videos
    ]
    out = processor(
        text=[text],
        images=pixels or None,
        videos=clips or None,
        videos_kwargs={"video_metadata": metadata, "do_resize": False, "do_sample_frames": False} if clips else {},
        images_kwargs={"do_resize": False} if pixels else {},
    )
    return out["input_ids"][0]


def test_expansion_equals_the_processor(family):
    _, processor, geometry = family
    rng = random.Random(5)
    for _ in range(20):
        images, videos = _random_media(rng, geometry)
        marks = [IMAGE] * len(images) + [VIDEO] * len(videos)
        rng.shuffle(marks)
        text = "<|im_start|>user\n" + " and ".join(marks) + "\nWhy <1.0 seconds>?<|im_end|>\n"
        expanded = expand_placeholders(text, images, videos, geometry)
        ids = _reference_ids(processor, text, images, videos)
        assert processor.tokenizer.decode(ids) == expanded
        assert processor.tokenizer(expanded)["input_ids"] == ids
        assert expanded.count("<|image_pad|>") == sum(plan.visual_tokens for plan in images)
        assert expanded.count("<|video_pad|>") == sum(plan.visual_tokens for plan in videos)


def test_hand_written_qwen3_expansion():
    geometry = geometry_for("Qwen3-VL")
    plan = plan_video(VideoInfo(60, 30.0, 64, 32, 2.0), VideoBudget(min_pixels=1024, max_pixels=2048), geometry)
    assert plan.frame_indices == (0, 20, 39, 59)
    segment = "<|vision_start|><|video_pad|><|video_pad|><|vision_end|>"
    assert expand_placeholders("<|video_pad|>", [], [plan], geometry) == (
        f"<0.3 seconds>{segment}<1.6 seconds>{segment}"
    )


@pytest.mark.parametrize("text, token", [("", r"0 <\|video_pad\|>"), ("<|video_pad|>" * 2, r"2 <\|video_pad\|>")])
def test_counts_must_agree(text, token):
    geometry = geometry_for("Qwen3-VL")
    plan = plan_video(VideoInfo(60, 30.0, 64, 64, 2.0), SMALL, geometry)
    with pytest.raises(ValueError, match=f"the chat text holds {token} but there are 1"):
        expand_placeholders(text, [], [plan], geometry)


def test_a_plan_of_another_family_is_refused():
    plan = plan_video(VideoInfo(60, 30.0, 64, 64, 2.0), SMALL, geometry_for("Qwen2.5-VL"))
    with pytest.raises(ValueError, match="plan the video with the geometry of this model"):
        expand_placeholders("<|video_pad|>", [], [plan], geometry_for("Qwen3-VL"))
