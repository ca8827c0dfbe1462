"""Frames against qwen-vl-utils and against decoding everything."""

from __future__ import annotations

import av
import numpy as np
import pytest
import torch
from qwen_vl_utils import vision_process

from evr_core import ModelGeometry, VideoBudget
from evr_video import load_image, load_video, probe
from evr_video._decode import resize
from video.media_files import all_frames, rotate_track, write_image, write_video

QWEN25 = ModelGeometry(patch_size=14, timestamped_frames=False)


def qwen_fetch(monkeypatch, path, patch_size, **arguments):
    """qwen-vl-utils' own result; only its reader is replaced, since the libraries it knows may not be installed."""

    def read(ele):
        frames, _ = all_frames(ele["video"])
        fps = probe(path).fps
        start, end, count = vision_process.calculate_video_frame_range(ele, len(frames), fps)
        number = vision_process.smart_nframes(ele, total_frames=count, video_fps=fps)
        indices = torch.linspace(start, end, number).round().long().tolist()
        metadata = {"fps": fps, "frames_indices": indices, "total_num_frames": count, "video_backend": "reference"}
        return torch.tensor(frames[indices]).permute(0, 3, 1, 2), metadata, number / count * fps

    monkeypatch.setitem(vision_process.VIDEO_READER_BACKENDS, "reference", read)
    monkeypatch.setattr(vision_process, "get_video_reader_backend", lambda: "reference")
    element = {"video": str(path), **arguments}
    return vision_process.fetch_video(element, image_patch_size=patch_size, return_video_metadata=True)


@pytest.mark.parametrize("name", ["plain.mp4", "odd.mp4"])
@pytest.mark.parametrize("model", [ModelGeometry(), QWEN25], ids=["patch16", "patch14"])
@pytest.mark.parametrize(
    "budget, arguments, span",
    [
        (VideoBudget(min_pixels=1024, max_pixels=9216), {"fps": 2.0, "min_pixels": 1024, "max_pixels": 9216}, {}),
        (VideoBudget(num_frames=6, min_pixels=40_000), {"nframes": 6, "min_pixels": 40_000}, {}),
        (
            VideoBudget(fps=8.0, max_frames=8, min_pixels=1024, total_pixels=60_000),
            {"fps": 8.0, "max_frames": 8, "min_pixels": 1024, "total_pixels": 60_000},
            {"start_s": 0.3, "end_s": 1.4},
        ),
    ],
    ids=["fps", "count", "span"],
)
def test_frames_equal_those_of_qwen_vl_utils(monkeypatch, media, name, model, budget, arguments, span):
    path = media / name
    clip = load_video(path, budget, model, **span)
    times = {f"video_{name.removesuffix('_s')}": seconds for name, seconds in span.items()}
    frames, metadata = qwen_fetch(monkeypatch, path, model.patch_size, **arguments, **times)
    assert clip.frame_indices.tolist() == metadata["frames_indices"]
    # fetch_video gives float32, but of values that were rounded to uint8 before: equality is exact
    assert torch.equal(clip.frames.float(), frames)


def test_resize_is_torchvisions(media):
    from torchvision.transforms import InterpolationMode, functional

    frames = torch.from_numpy(all_frames(media / "odd.mp4")[0][:3]).permute(0, 3, 1, 2)
    for size in ([64, 96], [224, 352], [118, 186], [32, 512]):
        expected = functional.resize(frames, size, interpolation=InterpolationMode.BICUBIC, antialias=True)
        assert torch.equal(resize(frames, *size), expected)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA"])
def test_images_equal_those_of_qwen_vl_utils(tmp_path, mode):
    path = write_image(tmp_path / "x.png", height=75, width=131, mode=mode)
    arguments = {"min_pixels": 1024, "max_pixels": 8192}
    expected = vision_process.fetch_image({"image": str(path), **arguments}, image_patch_size=16)
    clip = load_image(path, ModelGeometry(), **arguments)
    assert np.array_equal(clip.for_vllm(), np.asarray(expected))
    assert np.array_equal(clip.for_transformers().permute(1, 2, 0).numpy(), np.asarray(expected))


@pytest.mark.parametrize("wanted", [[0], [23], [7, 8, 9], [0, 5, 22], [3, 20], list(range(24))])
def test_any_frames_equal_those_of_decoding_everything(tmp_path, wanted):
    from evr_video._pyav import read_pyav
    from evr_video._scan import scan_video

    path = write_video(tmp_path / "x.mp4", gop=3)
    scan = scan_video(str(path))
    got = np.stack(list(read_pyav(str(path), scan, wanted, threads=1)))
    assert np.array_equal(got, all_frames(path)[0][wanted])


def test_a_seek_across_many_key_frames_is_exact(tmp_path):
    from evr_video._pyav import _groups, read_pyav
    from evr_video._scan import scan_video

    path = write_video(tmp_path / "long.mp4", frames=120, height=32, width=48, gop=10)
    scan = scan_video(str(path))
    wanted = [2, 45, 46, 99, 119]
    assert list(_groups(scan, wanted)) == [[2], [45, 46], [99, 119]]
    for threads in (1, 3):
        got = np.stack(list(read_pyav(str(path), scan, wanted, threads)))
        assert np.array_equal(got, all_frames(path)[0][wanted])


def test_variable_frame_rate_keeps_the_containers_times(tmp_path, geometry):
    steps = [40, 80, 160, 20, 300, 60] * 4
    pts = np.cumsum([0, *steps[:-1]]).tolist()
    path = write_video(tmp_path / "vfr.mp4", frames=24, fps=30, pts=pts)
    info = probe(path)
    clip = load_video(path, VideoBudget(num_frames=8, min_pixels=1024), geometry)
    frames, times = all_frames(path)
    assert times == pytest.approx([p / 600 for p in pts])
    assert info.num_frames == 24
    assert info.fps == pytest.approx(24 / info.duration_s)
    assert clip.timestamps_s.tolist() == pytest.approx([pts[i] / 600 for i in clip.frame_indices])
    source = torch.from_numpy(frames[clip.frame_indices]).permute(0, 3, 1, 2)
    assert torch.equal(clip.frames, resize(source, clip.plan.height, clip.plan.width))


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_rotation_is_applied(tmp_path, geometry, degrees):
    path = rotate_track(write_video(tmp_path / "turned.mp4", frames=8, height=64, width=96), degrees)
    clip = load_video(path, VideoBudget(num_frames=4, min_pixels=1024, max_pixels=96 * 64), geometry)
    upright = np.rot90(all_frames(path)[0], -degrees // 90, axes=(1, 2))[clip.frame_indices]
    info = probe(path)
    assert (info.height, info.width) == upright.shape[1:3] == tuple(clip.frames.shape[2:])
    assert np.array_equal(clip.frames.permute(0, 2, 3, 1).numpy(), upright)


@pytest.mark.parametrize("suffix", ["h264", "avi", "mkv", "mov", "ts"])
def test_frames_are_exact_in_every_container(tmp_path, geometry, suffix):
    path = write_video(tmp_path / f"x.{suffix}")
    info = probe(path)
    clip = load_video(path, VideoBudget(num_frames=6, min_pixels=1024, max_pixels=96 * 128), geometry)
    with av.open(str(path)) as container:
        frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    assert info.num_frames == len(frames) == 24
    assert np.array_equal(clip.frames.permute(0, 2, 3, 1).numpy(), frames[clip.frame_indices])
    assert clip.timestamps_s.tolist() == pytest.approx([i / info.fps for i in clip.frame_indices.tolist()], abs=1e-3)


def test_what_the_clip_gives_to_each_side(media, geometry, budget):
    clip = load_video(media / "plain.mp4", budget, geometry)
    frames, metadata = clip.for_transformers()
    assert frames is clip.frames
    assert metadata["frames_indices"] == clip.frame_indices.tolist()
    thwc, vllm = clip.for_vllm()
    assert thwc.dtype == np.uint8
    assert np.array_equal(thwc, clip.frames.permute(0, 2, 3, 1).numpy())
    assert vllm == {
        "fps": 8.0,
        "frames_indices": clip.frame_indices.tolist(),
        "total_num_frames": 24,
        "duration": 3.0,
        "video_backend": "pyav",
        "do_sample_frames": False,
    }
    assert "uint8 [6, 3, 64, 96]" in repr(clip)
