"""The package as its users meet it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import evr_video

PACKAGE = Path(__file__).parents[2] / "packages" / "evr-video"


def test_the_readme_program_runs(tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.startswith("VideoClip(frames=uint8 [6, 3, 320, 448]")


def test_importing_brings_neither_torch_nor_a_decoder():
    code = "import sys, evr_video; print([m for m in ('torch', 'av', 'numpy', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_is_there():
    assert dir(evr_video) == sorted(evr_video.__all__)
    assert all(getattr(evr_video, name) is not None for name in evr_video.__all__)
