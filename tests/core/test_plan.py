"""Video plans against the functions of qwen-vl-utils and the video processors of transformers."""

from __future__ import annotations

import random

import pytest
import torch

from evr_core import VideoBudget, VideoInfo, geometry_for, plan_video
from evr_core.plan import timestamp_texts
from evr_core.sampling import frame_range, spread_indices

QWEN3 = geometry_for("Qwen3-VL")
QWEN25 = geometry_for("Qwen2.5-VL")
FPS = [30.0, 29.97, 24000 / 1001, 25.0, 59.94, 15.0, 10.0, 7.5]


def test_indices_equal_torch_linspace():
    rng = random.Random(0)
    for _ in range(1500):
        frames = rng.randint(2, 20000)
        count = 2 * rng.randint(1, min(frames // 2, 768))
        start = rng.choice([0, rng.randint(0, 5000)])
        end = start + frames - 1
        assert list(spread_indices(start, end, count)) == torch.linspace(start, end, count).round().long().tolist()


def _reference(info, ele, patch_size):
    """What qwen-vl-utils does for a decoded file: its range, its indices, and the size that fetch_video gives."""
    from qwen_vl_utils import vision_process as reference

    start, end, available = reference.calculate_video_frame_range(ele, info.num_frames, info.fps)
    count = reference.smart_nframes(ele, available, info.fps)
    indices = torch.linspace(start, end, count).round().long().tolist()
    metadata = {"fps": info.fps, "frames_indices": indices, "total_num_frames": available}
    clip = torch.zeros(1, 1, 1, 1).expand(count, 3, info.height, info.width)
    reader = {"stub": lambda _: (clip, metadata, count / max(available, 1e-6) * info.fps)}
    sizes = []

    def resize(video, size, **_):
        sizes.append(tuple(size))
        return torch.zeros(1)

    patch = pytest.MonkeyPatch()
    with patch.context() as m:
        # The decoder and the resampling kernel are left out: only the decisions are compared here.
        m.setattr(reference, "VIDEO_READER_BACKENDS", reader)
        m.setattr(reference, "get_video_reader_backend", lambda: "stub")
        m.setattr(reference.transforms.functional, "resize", resize)
        _, sample_fps = reference.fetch_video({**ele, "video": "x"}, patch_size, return_video_sample_fps=True)
    return indices, sizes[0], sample_fps


def _random_case(rng, geometry):
    fps = rng.choice(FPS)
    info = VideoInfo(
        num_frames=rng.randint(40, 12000),
        fps=fps,
        height=rng.randint(120, 1200),
        width=rng.randint(120, 1200),
        duration_s=1.0,
    )
    area = geometry.factor**2
    low = rng.randint(4, 140) * area
    fields = {
        "min_pixels": low,
        "max_pixels": low + rng.randint(20, 900) * area,
        "total_pixels": rng.randint(2000, 128_000) * area,
    }
    if rng.random() < 0.3:
        fields["num_frames"] = rng.randint(2, 38)
    else:
        fields |= {"fps": rng.choice([0.5, 1.0, 2.0, 4.0]), "min_frames": rng.randint(1, 8)}
        fields["max_frames"] = rng.randint(8, 800)
    span = {}
    if rng.random() < 0.4:
        span["start_s"] = rng.uniform(0, info.num_frames / fps * 0.4)
    if rng.random() < 0.4:
        span["end_s"] = rng.uniform(info.num_frames / fps * 0.7, info.num_frames / fps * 1.2)
    return info, VideoBudget(**fields), fields, span


@pytest.mark.parametrize("geometry", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
def test_plan_equals_qwen_vl_utils(geometry):
    rng = random.Random(2)
    compared = 0
    while compared < 250:
        info, budget, fields, span = _random_case(rng, geometry)
        ele = {("nframes" if key == "num_frames" else key): value for key, value in fields.items()}
        ele |= {f"video_{key[:-2]}": value for key, value in span.items()}
        try:
            indices, size, sample_fps = _reference(info, ele, geometry.patch_size)
        except ValueError:
            with pytest.raises(ValueError, match="video"):
                plan_video(info, budget, geometry, **span)
            continue
        plan = plan_video(info, budget, geometry, **span)
        assert list(plan.frame_indices) == indices
        assert (plan.height, plan.width) == size
        assert plan.sample_fps == pytest.approx(sample_fps, rel=1e-12)
        assert plan.num_frames == len(indices)
        first, last = frame_range(info, start_s=span.get("start_s"), end_s=span.get("end_s"))
        assert plan.range_num_frames == last - first + 1
        compared += 1


def test_default_budget_is_that_of_qwen_vl_utils():
    info = VideoInfo(num_frames=9000, fps=30.0, height=720, width=1280, duration_s=300.0)
    indices, size, _ = _reference(info, {}, 16)
    plan = plan_video(info, VideoBudget(), QWEN3)
    assert list(plan.frame_indices) == indices
    assert (plan.height, plan.width) == size


def test_grid_and_tokens_equal_the_video_processor():
    from transformers import Qwen2VLVideoProcessor, Qwen3VLVideoProcessor

    rng = random.Random(3)
    for _ in range(12):
        for geometry, kind in ((QWEN3, Qwen3VLVideoProcessor), (QWEN25, Qwen2VLVideoProcessor)):
            info = VideoInfo(rng.randint(8, 60), 25.0, rng.randint(64, 300), rng.randint(64, 300), 1.0)
            budget = VideoBudget(num_frames=rng.randint(2, 8), min_pixels=4096, max_pixels=60_000)
            plan = plan_video(info, budget, geometry)
            frames = torch.zeros(plan.num_frames, 3, plan.height, plan.width, dtype=torch.uint8)
            out = kind()(videos=[frames], do_resize=False, do_sample_frames=False, return_tensors="pt")
            assert out["video_grid_thw"].tolist() == [list(plan.grid_thw)]
            assert out["pixel_values_videos"].shape[0] == plan.visual_tokens * 4


def test_timestamp_texts_pad_an_incomplete_patch():
    assert timestamp_texts((0, 15, 30), 30.0, QWEN3) == ("<0.2 seconds>", "<1.0 seconds>")
    assert timestamp_texts((0, 15), 30.0, QWEN25) == ()


@pytest.mark.parametrize(
    "info, budget, span, message",
    [
        (VideoInfo(1, 25.0, 64, 64, 0.04), VideoBudget(), {}, "pass a single frame as an image"),
        (VideoInfo(10, 25.0, 64, 64, 0.4), VideoBudget(num_frames=40), {}, r"num_frames=40 gives 40 frames.* 2 to 10"),
        (VideoInfo(10, 0.0, 64, 64, 0.4), VideoBudget(), {}, "both must be positive"),
        (VideoInfo(100, 25.0, 64, 64, 4.0), VideoBudget(), {"start_s": 9.0}, "widen the range"),
        (VideoInfo(100, 25.0, 64, 64, 4.0), VideoBudget(max_pixels=100), {}, "min_pixels 131072 is more than"),
    ],
)
def test_refusals(info, budget, span, message):
    with pytest.raises(ValueError, match=message):
        plan_video(info, budget, QWEN3, **span)


def test_timestamp_tokens_count_digits_and_marks():
    plan = plan_video(VideoInfo(600, 30.0, 64, 64, 20.0), VideoBudget(num_frames=4, min_pixels=1024), QWEN3)
    assert plan.timestamp_texts == ("<3.3 seconds>", "<16.6 seconds>")
    assert plan.timestamp_tokens == (6 + 2) + (7 + 2)
    assert plan_video(VideoInfo(600, 30.0, 64, 64, 20.0), VideoBudget(), QWEN25).timestamp_tokens == 0


@pytest.mark.parametrize("field", ["fps", "min_frames", "max_frames", "num_frames", "min_pixels", "total_pixels"])
def test_a_budget_is_positive(field):
    with pytest.raises(ValueError, match=rf"VideoBudget\.{field} is 0; it must be positive"):
        VideoBudget(**{field: 0})
