"""Token math against worked examples, qwen-vl-utils and the image processors of transformers."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evr_core import (
    geometry_for,
    image_tokens,
    pixels_for_tokens,
    plan_image,
    smart_resize,
    tokens_per_frame,
    video_tokens,
)

QWEN3 = geometry_for("Qwen3-VL")


@pytest.mark.parametrize(
    "height, width, frames, per_frame, total",
    [(512, 512, 128, 256, 16384), (480, 320, 60, 150, 4500), (256, 480, 36, 120, 2160), (320, 480, 60, 150, 4500)],
)
def test_worked_examples(height, width, frames, per_frame, total):
    assert tokens_per_frame(height, width, QWEN3) == per_frame
    assert image_tokens(height, width, QWEN3) == per_frame
    assert video_tokens(frames, height, width, QWEN3) == total


def test_budget_counts_both_compressions():
    assert pixels_for_tokens(16384, QWEN3) == 16384 * 32 * 32 * 2
    assert pixels_for_tokens(16384, QWEN3) == 128 * 512 * 512


def test_odd_frame_count_fills_the_last_patch():
    assert video_tokens(5, 64, 64, QWEN3) == video_tokens(6, 64, 64, QWEN3) == 12


def test_unaligned_side_is_refused():
    with pytest.raises(ValueError, match=r"width 500 is not a positive multiple of 32.*smart_resize"):
        tokens_per_frame(512, 500, QWEN3)


def test_smart_resize_equals_qwen_vl_utils():
    from qwen_vl_utils.vision_process import smart_resize as reference

    rng = random.Random(0)
    for _ in range(2000):
        height, width = rng.randint(20, 4000), rng.randint(20, 4000)
        factor = rng.choice([28, 32])
        low = rng.randint(4, 300) * factor**2
        high = low + rng.randint(0, 2000) * factor**2
        expected = reference(height, width, factor, low, high)
        if 0 not in expected:  # the reference lets a side vanish; ours keeps one token
            assert smart_resize(height, width, factor=factor, min_pixels=low, max_pixels=high) == expected


def test_smart_resize_equals_the_image_processors_also_for_thin_strips():
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize as reference

    rng = random.Random(4)
    for _ in range(1000):
        height, width = rng.randint(17, 60), rng.randint(100, 2000)
        low = 4 * 32**2
        high = low + rng.randint(0, 40) * 32**2
        expected = reference(height, width, 32, low, high)
        assert smart_resize(height, width, factor=32, min_pixels=low, max_pixels=high) == expected


@given(height=st.integers(30, 3000), width=st.integers(30, 3000), low=st.integers(4, 100), extra=st.integers(0, 5000))
def test_smart_resize_properties(height, width, low, extra):
    low, high = low * 32**2, (2 * low + extra) * 32**2
    new_height, new_width = smart_resize(height, width, factor=32, min_pixels=low, max_pixels=high)
    assert new_height % 32 == new_width % 32 == 0
    assert min(new_height, new_width) >= 32
    thin = min(new_height, new_width) == 32  # a strip of one token cannot shrink further
    assert low <= new_height * new_width
    assert thin or new_height * new_width <= high


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"height": 0}, "at least 1 pixel"),
        ({"min_pixels": 10**7}, "min_pixels 10000000 is more than max_pixels"),
        ({"height": 1, "width": 300}, "200 times longer"),
    ],
)
def test_smart_resize_refuses(arguments, message):
    good = {"height": 100, "width": 100, "factor": 32, "min_pixels": 4096, "max_pixels": 10**6}
    with pytest.raises(ValueError, match=message):
        smart_resize(**{**good, **arguments})


@pytest.mark.parametrize("family, patch", [("qwen3_vl", 16), ("qwen2_5_vl", 14), ("qwen2_vl", 14)])
def test_image_plan_equals_the_image_processor(family, patch):
    from transformers import Qwen2VLImageProcessor

    geometry = geometry_for(family)
    rng = random.Random(1)
    for _ in range(25):
        height, width = rng.randint(20, 700), rng.randint(20, 700)
        low = rng.randint(4, 60) * geometry.factor**2
        high = low + rng.randint(1, 200) * geometry.factor**2
        processor = Qwen2VLImageProcessor(
            patch_size=patch, merge_size=2, size={"shortest_edge": low, "longest_edge": high}
        )
        out = processor(images=[torch.zeros(3, height, width, dtype=torch.uint8)], return_tensors="pt")
        plan = plan_image(height, width, geometry, min_pixels=low, max_pixels=high)
        assert out["image_grid_thw"].tolist() == [list(plan.grid_thw)]
        assert out["pixel_values"].shape[0] == plan.visual_tokens * 4
        assert plan.grid_thw == (1, plan.height // patch, plan.width // patch)


def test_image_plan_defaults_are_those_of_qwen_vl_utils():
    from qwen_vl_utils.vision_process import smart_resize as reference

    for size in [(30, 40), (5000, 9000), (720, 1280)]:
        plan = plan_image(*size, QWEN3)
        assert (plan.height, plan.width) == reference(*size, factor=32)
