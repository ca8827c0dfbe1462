"""M-RoPE positions against ``get_rope_index`` of transformers on random layouts."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from evr_core import ModelGeometry, geometry_for, mrope_positions, seconds_per_grid
from evr_core.video import VideoPlan

FAMILIES = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"]


def _reference_model(family):
    import transformers as hf

    kinds = {
        "qwen2_vl": hf.Qwen2VLModel,
        "qwen2_5_vl": hf.Qwen2_5_VLModel,
        "qwen3_vl": hf.Qwen3VLModel,
        "qwen3_5": hf.Qwen3_5Model,
    }
    config = hf.AutoConfig.for_model(family)
    config.text_config.num_hidden_layers = 1
    config.vision_config.depth = 1
    if family == "qwen3_5":
        config.text_config.layer_types = ["full_attention"]
    with torch.device("meta"):
        return kinds[family](config)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    model = _reference_model(request.param)
    return request.param, model, geometry_for(model.config)


def _layout(rng, geometry):
    """A random prompt: texts around images and videos, as the expanded placeholders make it."""
    types, images, videos, seconds = [0] * rng.randint(1, 9), [], [], []
    for _ in range(rng.randint(0, 5)):
        h, w = 2 * rng.randint(1, 6), 2 * rng.randint(1, 6)
        if rng.random() < 0.5:
            images.append((1, h, w))
            types += [1] * (h * w // 4)
        else:
            t = rng.randint(1, 7)
            videos.append((t, h, w))
            seconds.append(rng.choice([1.0, 0.5, 2 / 1.7, 0.033, 3.21]))
            if geometry.timestamped_frames:
                for _ in range(t):
                    types += [0] * rng.randint(3, 9) + [2] * (h * w // 4)
            else:
                types += [2] * (t * h * w // 4)
        types += [0] * rng.randint(1, 9)
    return types, images, videos, seconds


def test_equal_to_get_rope_index(family):
    name, model, geometry = family
    rng = random.Random(11)
    for _ in range(120):
        types, images, videos, seconds = _layout(rng, geometry)
        extra = {"second_per_grid_ts": torch.tensor(seconds)} if name == "qwen2_5_vl" and videos else {}
        expected, delta = model.get_rope_index(
            input_ids=torch.zeros(1, len(types), dtype=torch.long),
            mm_token_type_ids=torch.tensor([types]),
            image_grid_thw=torch.tensor(images) if images else None,
            video_grid_thw=torch.tensor(videos) if videos else None,
            **extra,
        )
        found = mrope_positions(types, images, videos, geometry, seconds_per_grid=seconds)
        assert found.dtype == np.int64
        assert np.array_equal(found, expected[:, 0].numpy())
        assert found.max() + 1 - len(types) == delta.item()


def test_worked_example():
    # 2 text tokens, an image of 2 x 3 tokens, 1 text token; the text goes on at 2 + max(2, 3).
    found = mrope_positions([0, 0, 1, 1, 1, 1, 1, 1, 0], [(1, 4, 6)], [], ModelGeometry())
    assert found.tolist() == [
        [0, 1, 2, 2, 2, 2, 2, 2, 5],
        [0, 1, 2, 2, 2, 3, 3, 3, 5],
        [0, 1, 2, 3, 4, 2, 3, 4, 5],
    ]


def test_text_only_and_empty():
    assert mrope_positions([0, 0, 0], [], [], ModelGeometry()).tolist() == [[0, 1, 2]] * 3
    assert mrope_positions([], [], [], ModelGeometry()).shape == (3, 0)


def test_seconds_per_grid_equal_the_processor():
    from transformers.video_utils import VideoMetadata

    plan = VideoPlan((0, 12, 25, 37), (), 28, 28, (2, 2, 2), 2, (), 4 / 38 * 25.0, 25.0, 38)
    metadata = VideoMetadata(total_num_frames=38, fps=25.0, frames_indices=[0, 12, 25, 37])
    assert seconds_per_grid(plan, geometry_for("Qwen2.5-VL")) == pytest.approx(2 / metadata.sampled_fps, rel=1e-12)


@pytest.mark.parametrize(
    "types, images, videos, name, message",
    [
        ([0, 1], [], [], "Qwen3-VL", "more image segments than there are grids"),
        (
            [0, 1, 0],
            [(1, 4, 4)],
            [],
            "Qwen3-VL",
            r"1 placeholder tokens, but its grid \(1, 4, 4\) makes 4",
        ),
        ([0], [], [(3, 2, 2)], "Qwen3-VL", "3 video segments have no tokens"),
        ([0, 3], [], [], "Qwen3-VL", "token type 3; allowed: 0 text, 1 image, 2 video"),
        ([[0]], [], [], "Qwen3-VL", r"shape \(1, 1\)"),
        ([0, 2], [], [(1, 2, 2)], "Qwen2.5-VL", "0 values for 1 videos; this family's positions follow the clock"),
    ],
)
def test_mismatches_are_errors(types, images, videos, name, message):
    with pytest.raises(ValueError, match=message):
        mrope_positions(types, images, videos, geometry_for(name))
