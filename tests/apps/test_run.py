"""The demo's stages, and the whole demo at toy size."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from evr_apps.demo.display import DemoDisplay
from evr_apps.demo.recipe import Recipe
from evr_apps.demo.run import DemoConfig, run_demo
from evr_apps.demo.stages import Stages

TOY = Recipe(
    num_train=24, num_val=16, num_sft=24, sft_steps=4, sft_batch_size=8, rl_steps=4, rl_batch_size=4, group_size=4,
    val_freq=-1, save_freq=2,
)  # fmt: skip


def test_a_finished_stage_is_not_run_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def work() -> dict[str, int]:
        calls.append(1)
        return {"n": len(calls)}

    first = Stages(tmp_path).run("a", {"x": 1}, work)
    again = Stages(tmp_path).run("a", {"x": 1}, work)
    assert (first.outputs, first.resumed) == ({"n": 1}, False)
    assert (again.outputs, again.resumed, again.wall_s) == ({"n": 1}, True, first.wall_s)


def test_an_interrupted_stage_finds_its_files(tmp_path: Path) -> None:
    def interrupted() -> dict[str, int]:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "half").write_text("done so far")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Stages(tmp_path).run("a", {}, interrupted)
    result = Stages(tmp_path).run("a", {}, lambda: {"found": (tmp_path / "a" / "half").read_text()})
    assert result.outputs == {"found": "done so far"}
    assert not result.resumed


def test_other_inputs_empty_the_stage_and_those_after_it(tmp_path: Path) -> None:
    def write(name: str, text: str) -> dict[str, bool]:
        found = (tmp_path / name / text).exists()
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / text).touch()
        return {"found": found}

    def both(x: int) -> tuple[bool, bool]:
        stages = Stages(tmp_path)
        a = stages.run("a", {"x": x}, lambda: write("a", "f"))
        b = stages.run("b", {}, lambda: write("b", "f"), after=(a,))
        return a.resumed, b.resumed

    assert both(1) == (False, False)
    assert both(1) == (True, True)
    assert both(2) == (False, False)
    assert json.loads((tmp_path / ".stages" / "b.json").read_text())["outputs"] == {"found": False}


@pytest.mark.timeout(600)
def test_whole_demo_at_toy_size(tmp_path: Path) -> None:
    text = io.StringIO()
    config = DemoConfig(tmp_path, seed=3, recipe=TOY)
    with DemoDisplay(Console(file=text)) as display:
        summary = run_demo(config, display)

    written = json.loads((tmp_path / "summary.json").read_text())
    assert {name: written[name] for name in dataclasses.asdict(summary)} == dataclasses.asdict(summary)
    assert summary.steps == TOY.rl_steps
    assert 0 <= summary.accuracy_before <= 1
    assert 0 <= summary.mismatch_max <= 1e-4
    assert 0 < summary.bytes_per_sample < 100_000
    assert "Groups seen in training" in (tmp_path / "report.html").read_text(encoding="utf-8")

    with DemoDisplay(Console(file=io.StringIO())) as display:
        again = run_demo(config, display)
    assert again == summary


def test_the_display_writes_plain_lines_without_a_terminal() -> None:
    text = io.StringIO()
    with DemoDisplay(Console(file=text)) as display, display.stage("Counting") as bar:
        bar.update(1, 2, "half way")
        display.finish(bar, "Counting", wall_s=1.5, resumed=True, note="two things")
    assert text.getvalue().splitlines() == ["Counting ...", "Counting done in 1.5 s  finished earlier  two things"]
