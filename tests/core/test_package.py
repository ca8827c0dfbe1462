"""The package as its users import it: light, complete, explicit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import evr_core

ROOT = Path(__file__).parents[2]

PROBE = """
import json, sys, time
start = time.process_time()
import evr_core
seconds = time.process_time() - start
heavy = [name for name in ("torch", "transformers", "ray", "vllm", "numpy", "jinja2", "pyarrow") if name in sys.modules]
print(json.dumps([seconds, heavy]))
"""


def _probe():
    out = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(out.stdout)


def test_import_is_quick_and_pulls_in_nothing_heavy():
    seconds, heavy = min(_probe() for _ in range(3))
    assert heavy == []
    assert seconds < 0.15


def test_all_is_sorted_and_resolves():
    assert evr_core.__all__ == sorted(set(evr_core.__all__))
    assert all(hasattr(evr_core, name) for name in evr_core.__all__)


def test_no_use_of_the_package_needs_torch():
    program = """
import sys
from evr_core import VideoBudget, VideoInfo, expand_placeholders, geometry_for, mrope_positions, plan_video
geometry = geometry_for("Qwen3-VL")
plan = plan_video(VideoInfo(90, 30.0, 64, 64, 3.0), VideoBudget(min_pixels=1024), geometry)
text = expand_placeholders("<|video_pad|>", [], [plan], geometry)
mrope_positions([0] + [2] * 4, [], [(1, 4, 4)], geometry)
assert "torch" not in sys.modules and "transformers" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def test_the_readme_program_runs(tmp_path):
    readme = (ROOT / "packages/evr-core/README.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    record = {"problem": "Which colour?", "answer": "B", "videos": ["a.mp4"], "options": ["Red", "Blue"]}
    (tmp_path / "train.jsonl").write_text(json.dumps(record))
    out = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert "(64, 32, 32) 16384" in out.stdout
    assert "B. Blue" in out.stdout
