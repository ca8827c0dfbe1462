"""Every bad file ends in one DecodeError, soon, and in the decoder process only."""

from __future__ import annotations

import os
import pickle
import signal
import time

import av
import numpy as np
import pytest

from evr_video import DecodeError, load_image, load_video, probe
from evr_video import _pool as pool
from video.media_files import write_image, write_video


def audio_only(path):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.rate = 16000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())


def truncated(path):
    write_video(path)
    os.truncate(path, path.stat().st_size // 2)


def truncated_after_its_index(path):
    write_video(path, options={"movflags": "faststart"})
    os.truncate(path, path.stat().st_size // 2)


BAD = {
    "missing": (lambda path: None, "no such file"),
    "folder": (lambda path: path.mkdir(), "not a regular file"),
    "empty": (lambda path: path.write_bytes(b""), "the file is empty"),
    "text": (lambda path: path.write_text("this is no video\n" * 50), "not a readable video"),
    "playlist": (lambda path: path.write_text("#EXTM3U\n#EXTINF:1,\n/etc/hostname\n"), "not a readable video"),
    "zeros": (lambda path: path.write_bytes(bytes(100_000)), "not a readable video"),
    "truncated": (truncated, "not a readable video"),
    "truncated_after_index": (truncated_after_its_index, "truncated or damaged"),
    "audio": (audio_only, "no video stream"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_videos_are_refused_fast(tmp_path, geometry, budget, kind):
    make, reason = BAD[kind]
    path = tmp_path / "clip.mp4"
    make(path)
    started = time.monotonic()
    with pytest.raises(DecodeError, match=reason) as caught:
        load_video(path, budget, geometry)
    assert time.monotonic() - started < 5
    assert caught.value.path == str(path)
    assert caught.value.backend in ("file", "pyav")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own exception, as it comes back from a worker
    assert (again.path, again.reason, str(again)) == (str(path), caught.value.reason, str(caught.value))


def test_bad_images_are_refused(tmp_path, geometry):
    text, cut = tmp_path / "text.png", write_image(tmp_path / "cut.png")
    text.write_text("no picture")
    os.truncate(cut, cut.stat().st_size // 2)
    with pytest.raises(DecodeError, match="not a readable image"):
        load_image(text, geometry)
    with pytest.raises(DecodeError, match="damaged image"):
        load_image(cut, geometry)


def test_a_bad_file_leaves_the_process_usable(tmp_path, media):
    bad = tmp_path / "bad.mp4"
    bad.write_text("no")
    with pool.decoder_process() as worker:
        pid = worker._process.pid
    with pytest.raises(DecodeError):
        probe(bad)
    assert probe(media / "plain.mp4").num_frames == 24
    with pool.decoder_process() as worker:
        assert worker._process.pid == pid


def test_a_hang_is_killed(tmp_path, media):
    with pool.decoder_process() as worker:
        stopped = worker._process.pid
    os.kill(stopped, signal.SIGSTOP)  # stands for a decoder that never returns
    started = time.monotonic()
    with pytest.raises(DecodeError, match=r"took longer than 0\.5 s and was stopped"):
        probe(media / "plain.mp4", timeout_s=0.5)
    assert time.monotonic() - started < 3
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)
    assert probe(media / "plain.mp4").num_frames == 24


def test_a_crash_is_reported(media):
    path = media / "plain.mp4"
    with pytest.raises(pool.WorkerDied, match="by signal 11"), pool.decoder_process() as worker:  # noqa: PT012
        os.kill(worker._process.pid, signal.SIGSEGV)
        worker._process.wait(timeout=10)
        worker.ask({"op": "probe", "path": str(path)}, 10)
    assert probe(path).num_frames == 24


def test_a_process_that_went_idle_is_replaced_silently(monkeypatch, media):
    pool.close_decoders()
    probe(media / "plain.mp4")
    with pool.decoder_process() as worker:
        idle = worker
    monkeypatch.setattr(type(idle), "alive", property(lambda self: True))  # it ends between the check and the request
    os.write(idle._in, b"")
    idle._process.stdin.close()
    idle._process.wait(timeout=10)
    monkeypatch.setattr(idle, "_in", os.open(os.devnull, os.O_WRONLY))
    assert probe(media / "plain.mp4").num_frames == 24
