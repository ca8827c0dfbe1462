"""The cache: one decode per video, no half entries, no stale hits, no copies."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from evr_core import ModelGeometry, VideoBudget
from evr_video import EntryError, FrameCache, MediaHandle, load_video
from video.media_files import write_image, write_video

BUDGET = VideoBudget(fps=2.0, min_pixels=32 * 32, max_pixels=96 * 96)


def test_a_hit_gives_the_same_frames_as_decoding(media, cache, geometry, budget):
    direct = load_video(media / "plain.mp4", budget, geometry)
    first = cache.ensure_video(media / "plain.mp4", budget, geometry)
    second = cache.ensure_video(media / "plain.mp4", budget, geometry)
    clip = load_video(media / "plain.mp4", budget, geometry, cache=cache)
    assert first == second
    assert (cache.hits, cache.misses) == (2, 1)
    assert cache.decode_s > 0
    assert torch.equal(clip.frames, direct.frames)
    assert torch.equal(clip.timestamps_s, direct.timestamps_s)
    assert (clip.plan, clip.digest, clip.source_digest) == (direct.plan, direct.digest, direct.source_digest)
    assert clip.uuid == direct.uuid


def test_frames_are_mapped_not_copied(media, cache, geometry, budget):
    handle = cache.ensure_video(media / "plain.mp4", budget, geometry)
    clip = handle.open()
    address = clip.frames.data_ptr()
    with open("/proc/self/maps") as maps:
        spans = [line.split() for line in maps if str(handle.path) in line]
    assert any(int(low, 16) <= address < int(high, 16) for low, high in (span[0].split("-") for span in spans))
    clip.frames[0] = 0  # a private page changes, the file does not
    assert torch.equal(handle.open(verify=True).frames[1:], clip.frames[1:])
    assert handle.open().frames[0].any()


def test_images_are_cached_too(media, cache, geometry):
    handle = cache.ensure_image(media / "picture.png", geometry, min_pixels=1024, max_pixels=8192)
    clip = handle.open()
    assert tuple(clip.pixels.shape) == (3, handle.plan.height, handle.plan.width)
    assert cache.ensure_image(media / "picture.png", geometry, min_pixels=1024, max_pixels=8192) == handle
    assert (cache.hits, cache.misses) == (1, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"budget": replace(BUDGET, fps=4.0)},
        {"budget": replace(BUDGET, max_pixels=64 * 64)},
        {"geometry": ModelGeometry(patch_size=14, timestamped_frames=False)},
        {"start_s": 1.0},
        {"end_s": 2.0},
    ],
)
def test_a_changed_parameter_misses(media, cache, geometry, change):
    arguments = {"budget": BUDGET, "geometry": geometry}
    base = cache.ensure_video(media / "plain.mp4", **arguments)
    other = cache.ensure_video(media / "plain.mp4", **{**arguments, **change})
    assert base.key != other.key
    assert cache.misses == 2


def test_a_changed_file_misses_even_with_the_old_times(tmp_path, cache, geometry, budget):
    path = write_video(tmp_path / "x.mp4", seed=1)
    settled = time.time_ns() - 10**10
    os.utime(path, ns=(settled, settled))
    time.sleep(2.1)  # so that the digest is remembered
    first = cache.ensure_video(path, budget, geometry)
    assert list(cache.root.glob("facts/*/*.json"))
    data = bytearray(write_video(tmp_path / "y.mp4", seed=2).read_bytes())
    size = path.stat().st_size
    path.write_bytes(bytes(data[:size]).ljust(size, b"\0") if len(data) < size else bytes(data))
    os.utime(path, ns=(settled, settled))
    second = cache.ensure_video(path, budget, geometry)
    assert second.key != first.key
    assert second.digest != first.digest


def test_same_content_under_another_name_hits(tmp_path, media, cache, geometry, budget):
    copy = tmp_path / "copy.mp4"
    copy.write_bytes((media / "plain.mp4").read_bytes())
    first = cache.ensure_video(media / "plain.mp4", budget, geometry)
    assert cache.ensure_video(copy, budget, geometry).key == first.key
    assert (cache.hits, cache.misses) == (1, 1)


ENSURE = """
import json, sys
from evr_core import ModelGeometry, VideoBudget
from evr_video import FrameCache

cache = FrameCache(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
budget = VideoBudget(fps=2.0, min_pixels=32 * 32, max_pixels=96 * 96)
handle = cache.ensure_video(sys.argv[2], budget, ModelGeometry())
print(json.dumps([cache.hits, cache.misses, handle.key]))
"""


def test_many_processes_decode_once(media, tmp_path):
    """Five processes of their own (a fork of this one could hold another test's locks) ask at the same moment."""
    command = [sys.executable, "-c", ENSURE, str(tmp_path / "cache"), str(media / "odd.mp4")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(5)]
    try:
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 5
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        outcomes = [tuple(json.loads(process.communicate(timeout=120)[0])) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert sorted(outcome[:2] for outcome in outcomes) == [(0, 1)] + [(1, 0)] * 4
    assert len({outcome[2] for outcome in outcomes}) == 1
    assert not list((tmp_path / "cache" / "locks").iterdir())


KILLED_WRITER = """
import os, sys, time
from pathlib import Path
from evr_core import ModelGeometry, VideoBudget
from evr_video import FrameCache, _entry

def stop(*_):
    print("writing", flush=True)
    time.sleep(60)

_entry.os.fsync = stop  # everything is written, nothing is flushed or renamed
budget = VideoBudget(fps=2.0, min_pixels=1024, max_pixels=9216)
FrameCache(sys.argv[1]).ensure_video(sys.argv[2], budget, ModelGeometry())
"""


def test_a_killed_writer_leaves_nothing_readable(media, tmp_path, geometry, budget):
    root = tmp_path / "cache"
    command = [sys.executable, "-c", KILLED_WRITER, str(root), str(media / "plain.mp4")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGKILL)
    assert list(root.glob("staging/*.part"))
    cache = FrameCache(root)
    assert cache.entries() == []
    handle = cache.ensure_video(media / "plain.mp4", budget, geometry)  # neither blocked nor misled
    assert cache.misses == 1
    handle.open(verify=True)
    assert not list(root.glob("staging/*.part"))


def test_damage_is_found_and_mended(media, cache, geometry, budget):
    handle = cache.ensure_video(media / "plain.mp4", budget, geometry)
    with handle.path.open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"\xff" * 50)
    assert cache.verify() == [handle.key]
    with pytest.raises(EntryError, match="no longer have the digest"):
        handle.open(verify=True)
    os.truncate(handle.path, 5)
    with pytest.raises(EntryError, match="damaged"):
        handle.open()
    again = cache.ensure_video(media / "plain.mp4", budget, geometry)
    assert again == handle
    assert cache.verify() == []


def test_a_removed_entry_is_named(media, cache, geometry, budget):
    handle = cache.ensure_video(media / "plain.mp4", budget, geometry)
    clip = handle.open()
    cache.remove(handle.key)
    assert clip.frames.any()  # mapped frames outlive the entry
    with pytest.raises(EntryError, match="is gone; run the preprocessing again"):
        handle.open()


def test_prune_drops_the_least_recently_used(tmp_path, cache, geometry):
    handles = []
    for seed in range(3):
        handles.append(cache.ensure_image(write_image(tmp_path / f"{seed}.png", seed=seed), geometry))
        os.utime(handles[-1].path, (seed + 1, seed + 1))
    assert cache.ensure_image(tmp_path / "0.png", geometry) == handles[0]  # used now
    sizes = {entry.key: entry.num_bytes for entry in cache.entries()}
    gone = cache.prune(sum(sizes.values()) - 1)
    assert [entry.key for entry in gone] == [handles[1].key]
    assert {entry.key for entry in cache.entries()} == {handles[0].key, handles[2].key}
    cache.prune(0)
    assert cache.entries() == []


def test_a_handle_is_small_and_survives_pickle_and_json(media, cache, geometry, budget):
    video = cache.ensure_video(media / "plain.mp4", budget, geometry)
    image = cache.ensure_image(media / "picture.png", geometry)
    for handle in (video, image):
        assert pickle.loads(pickle.dumps(handle)) == handle  # noqa: S301 - our own bytes
        assert MediaHandle.from_dict(json.loads(json.dumps(handle.to_dict()))) == handle
        assert cache.handle(handle.key) == handle
        assert len(pickle.dumps(handle)) < 2000


@pytest.mark.parametrize("key", ["../../etc/passwd", "", "A" * 64])
def test_a_handle_cannot_leave_the_cache(media, cache, geometry, budget, key):
    fields = cache.ensure_video(media / "plain.mp4", budget, geometry).to_dict()
    with pytest.raises(ValueError, match="64 hex digits"):
        MediaHandle.from_dict({**fields, "key": key})
    with pytest.raises(ValueError, match="not a media handle"):
        MediaHandle.from_dict({"kind": "video"})
