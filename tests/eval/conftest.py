from __future__ import annotations

from pathlib import Path

import pytest

from support_eval import make_broken, make_media, tiny_model


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def media_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four good clips and three that cannot be read."""
    folder = tmp_path_factory.mktemp("media")
    make_media(folder)
    make_broken(folder)
    return folder
