from __future__ import annotations

import pytest

from evr_core import ModelGeometry, VideoBudget
from evr_video import FrameCache
from evr_video._pool import close_decoders
from video.media_files import write_image, write_video


@pytest.fixture(scope="session")
def geometry():
    return ModelGeometry()


@pytest.fixture(scope="session")
def budget():
    return VideoBudget(fps=2.0, min_pixels=32 * 32, max_pixels=96 * 96)


@pytest.fixture(scope="session")
def media(tmp_path_factory):
    """Folder with plain.mp4 (24 frames of 96x128 at 8 fps), odd.mp4 (other shape and rate) and picture.png."""
    folder = tmp_path_factory.mktemp("media")
    write_video(folder / "plain.mp4")
    write_video(folder / "odd.mp4", frames=41, height=118, width=186, fps=25, gop=12, seed=9)
    write_image(folder / "picture.png")
    return folder


@pytest.fixture
def cache(tmp_path):
    return FrameCache(tmp_path / "cache")


@pytest.fixture(scope="session", autouse=True)
def _no_decoders_left():
    yield
    close_decoders()
