"""All installed readers give the same frames; a missing one is said to be missing."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import torch

from evr_video import DecodeError, load_video
from evr_video._pool import close_decoders


@pytest.fixture(scope="module")
def ffmpeg_libraries(tmp_path_factory):
    """Let torchcodec find the FFmpeg that PyAV brings, where the system has none."""
    import av

    folder = tmp_path_factory.mktemp("ffmpeg")
    for library in (Path(av.__file__).parent.parent / "av.libs").glob("lib*.so.*"):
        plain = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library.name)
        short = re.match(r".*?\.so\.\d+", plain)
        if short:
            (folder / short[0]).symlink_to(library)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(folder))  # read by the dynamic linker when a decoder process starts
        close_decoders()
        yield
        close_decoders()


@pytest.mark.parametrize("backend", ["torchcodec", "decord"])
def test_readers_agree(media, geometry, budget, backend, ffmpeg_libraries):
    installed = importlib.util.find_spec(backend) is not None
    if not installed:
        with pytest.raises(DecodeError, match=f"{backend} is not installed"):
            load_video(media / "plain.mp4", budget, geometry, backend=backend)
        return
    for name in ("plain.mp4", "odd.mp4"):
        expected = load_video(media / name, budget, geometry, backend="pyav")
        clip = load_video(media / name, budget, geometry, backend=backend)
        assert clip.backend == backend
        assert torch.equal(clip.frames, expected.frames)
        assert torch.allclose(clip.timestamps_s, expected.timestamps_s)


def test_auto_says_which_reader_it_took(media, geometry, budget):
    assert load_video(media / "plain.mp4", budget, geometry).backend == "pyav"


def test_an_unknown_reader_is_refused(media, geometry, budget):
    with pytest.raises(ValueError, match=r"backend='opencv': must be 'auto' or one of pyav, torchcodec, decord"):
        load_video(media / "plain.mp4", budget, geometry, backend="opencv")
