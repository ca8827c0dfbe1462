"""The token budget: the numbers of the specification, and bounds that real plans never pass."""

from __future__ import annotations

import itertools
import re

import pytest

from evr_core import ModelGeometry, VideoBudget, VideoInfo, plan_video
from evr_trainer.config import DataConfig, check_token_budget, max_video_tokens

QWEN3 = ModelGeometry()
QWEN2_5 = ModelGeometry(patch_size=14, timestamped_frames=False)


@pytest.mark.parametrize(
    ("pixels", "frames", "tokens"),
    [(512 * 512, 128, 16_384), (480 * 320, 60, 4_500), (256 * 480, 36, 2_160)],
)
def test_largest_video_of_the_specification(pixels: int, frames: int, tokens: int) -> None:
    budget = VideoBudget(max_frames=frames, min_pixels=1024, max_pixels=pixels)
    assert max_video_tokens(budget, QWEN3) == tokens


@pytest.mark.parametrize("geometry", [QWEN3, QWEN2_5])
@pytest.mark.parametrize("total", [117_964_800, 3_000_000])
def test_no_plan_takes_more(geometry: ModelGeometry, total: int) -> None:
    budget = VideoBudget(max_frames=32, min_pixels=4 * 1024, max_pixels=200_000, total_pixels=total)
    most = max_video_tokens(budget, geometry)
    shapes = itertools.product((90, 240, 431, 720, 1080), (160, 320, 555, 1280, 1920), (10, 100, 1000, 5000))
    taken = [
        plan_video(VideoInfo(count, 30.0, height, width, count / 30), budget, geometry).visual_tokens
        for height, width, count in shapes
    ]
    assert max(taken) <= most
    assert max(taken) >= 0.9 * most


def data(**values: object) -> DataConfig:
    return DataConfig.model_validate({"min_pixels": 3136, "video_max_pixels": 262_144, **values})


def test_16384_visual_tokens_in_a_prompt_of_16384_are_refused_with_three_ways_out() -> None:
    (problem,) = check_token_budget(data(max_prompt_length=16_384), QWEN3)
    assert problem.path == "data.video_max_pixels"
    assert "128 frames takes up to 16384 visual tokens" in problem.reason
    assert "data.max_prompt_length 16384" in problem.reason
    pixels = int(re.findall(r"data.video_max_pixels <= (\d+)", problem.reason)[0])
    frames = int(re.findall(r"data.video_max_frames <= (\d+)", problem.reason)[0])
    length = int(re.findall(r"data.max_prompt_length >= (\d+)", problem.reason)[0])
    for way in ({"video_max_pixels": pixels}, {"video_max_frames": frames}, {"max_prompt_length": length}):
        assert check_token_budget(data(**{"max_prompt_length": 16_384, **way}), QWEN3) == []
    tighter = ({"video_max_pixels": pixels + 1024}, {"video_max_frames": frames + 2}, {"max_prompt_length": length - 1})
    for too_much in tighter:
        assert check_token_budget(data(**{"max_prompt_length": 16_384, **too_much}), QWEN3)


def test_families_without_timestamps_need_none() -> None:
    budget = {"video_max_pixels": 28 * 28 * 10, "video_max_frames": 8, "min_pixels": 784}
    assert check_token_budget(data(**budget, max_prompt_length=56), QWEN2_5) == []
    (problem,) = check_token_budget(data(**budget, max_prompt_length=55), QWEN2_5)
    assert "timestamps" not in problem.reason


def test_pixels_alone_are_not_enough() -> None:
    (problem,) = check_token_budget(data(max_prompt_length=500), QWEN3)
    assert "not enough by itself: 128 frames" in problem.reason


def test_validation_has_a_budget_of_its_own() -> None:
    own = data(max_prompt_length=17_000, val_files="val.jsonl", val_video_max_frames=256)
    (problem,) = check_token_budget(own, QWEN3)
    assert problem.path == "data.val_video_max_pixels"
    assert check_token_budget(data(max_prompt_length=17_000, val_video_max_frames=256), QWEN3) == []


def test_images_are_looked_at_where_there_are_some() -> None:
    images = data(max_prompt_length=1039, image_max_pixels=1_048_576)
    assert check_token_budget(images, QWEN3, media=()) == []
    (problem,) = check_token_budget(images, QWEN3, media=("image",))
    assert "1024 visual tokens" in problem.reason
    longer = data(max_prompt_length=1040, image_max_pixels=1_048_576)
    assert check_token_budget(longer, QWEN3, media=("image",)) == []
