"""The HTML report from the files of a run; the inputs are written by hand, the frames come from a real cache."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from evr_apps.demo.data import generate_demo_data
from evr_apps.demo.settings import PIXELS, video_budget
from evr_apps.preprocessed import write_records
from evr_apps.report import ReportSources, build_report, sources_of
from evr_apps.report.clips import training_groups
from evr_apps.report.jsonl import read_lines, read_steps, series
from evr_core import Sample, geometry_for, read_samples
from evr_eval import Outcome, ResultRow, benchmark_from_records
from evr_eval.summary import summarise
from evr_video import FrameCache, MediaHandle

STEPS = 60


def write_run(root: Path, *, num_val: int = 40, seed: int = 0) -> Path:
    """A demo folder with plausible metrics, two evaluations and a frame cache."""
    data = generate_demo_data(root / "data", seed=seed, num_train=12, num_val=num_val, num_sft=12)
    samples = read_samples(data.val_file, media_dir=data.media_dir).samples
    media = {sample.problem_id: _handles(sample, root / "cache" / "frames") for sample in samples}
    write_records([(s, media[s.problem_id]) for s in samples], root / "cache" / "held-out.jsonl")
    rng = np.random.default_rng(seed)
    _write_rl(root / "rl", samples, media, rng)
    loss = [{"step": i, "sft/loss": 3.5 * math.exp(-i / 60) + 0.2 + 0.05 * rng.random()} for i in range(1, 201)]
    _write_lines(root / "sft" / "metrics.jsonl", loss)
    _write_eval(root / "eval-before", data.val_file, samples, 0.5, rng)
    _write_eval(root / "eval-after", data.val_file, samples, 0.85, rng)
    known = {"seed": seed, "rollout": "transformers", "steps": STEPS, "command": "evr demo --seed 0"}
    (root / "summary.json").write_text(json.dumps(known))
    return root


def _handles(sample: Sample, cache_root: Path) -> tuple[MediaHandle, ...]:
    cache, geometry = FrameCache(cache_root), geometry_for("qwen3_vl")
    images = [cache.ensure_image(p, geometry, min_pixels=PIXELS, max_pixels=PIXELS) for p in sample.images]
    return (*images, *(cache.ensure_video(p, video_budget(), geometry) for p in sample.videos))


def _write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_rl(
    folder: Path, samples: tuple[Sample, ...], media: dict[str, tuple[MediaHandle, ...]], rng: np.random.Generator
) -> None:
    rows: list[dict[str, object]] = []
    generations: list[dict[str, object]] = []
    for step in range(1, STEPS + 1):
        accuracy = 0.5 + 0.4 * step / STEPS + 0.05 * float(rng.normal())
        row: dict[str, object] = {
            "step": step,
            "reward/overall": 0.9 * accuracy + 0.1,
            "reward/accuracy": accuracy,
            "reward/format": 1.0,
            "mismatch/max": float(10 ** rng.uniform(-6.5, -5.2)),
            "media/bytes_per_sample": 9000.0 + step,
            "timing_s/step": 2.0,
            "timing_s/rollout": 1.1,
            "timing_s/update": 0.6,
            "timing_s/old_log_probs": 0.2,
        }
        if step % 20 == 0:
            row["val/accuracy"] = accuracy
        rows.append(row)
        sample = samples[step % len(samples)]
        answers = [
            {"text": f"<answer>{sample.answer if i < 5 else 'purple'}</answer>", "overall": 1.0 if i < 5 else 0.1,
             "outcome": "correct" if i < 5 else "wrong"}
            for i in range(8)
        ]  # fmt: skip
        generations.append(
            {"step": step, "problem_id": sample.problem_id, "problem": sample.problem, "answer": sample.answer,
             "problem_type": str(sample.problem_type), "responses": answers,
             "media": [handle.to_dict() for handle in media[sample.problem_id]]}
        )  # fmt: skip
    _write_lines(folder / "metrics.jsonl", rows)
    _write_lines(folder / "generations.jsonl", generations)


def _write_eval(
    folder: Path, records: Path, samples: tuple[Sample, ...], accuracy: float, rng: np.random.Generator
) -> None:
    rows = []
    for sample in samples:
        draw = float(rng.random())
        outcome = Outcome.CORRECT if draw < accuracy else Outcome.UNPARSED if draw > 0.95 else Outcome.WRONG
        score = float(outcome is Outcome.CORRECT)
        text = f"<answer>{sample.answer if score else 'left'}</answer>"
        rows.append(
            ResultRow(
                sample_id=sample.problem_id, config_hash="c", record_digest="r", benchmark="val@1",
                problem_type=str(sample.problem_type), cluster=sample.problem_id, groups={}, outcome=outcome,
                score=score, lenient_score=score, format=1.0, response=text, answer=sample.answer,
            )
        )  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "results.jsonl").write_text("".join(row.to_json() + "\n" for row in rows), encoding="utf-8")
    summary = summarise(
        rows, benchmark_from_records(records), num_expected=len(rows), seed=0, config_hash="c", settings={},
        model_path="policy",
    )  # fmt: skip
    summary.write(folder)


class _Page(HTMLParser):
    """Ids, addresses and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        self.addresses += [str(values[name]) for name in ("src", "href", "xlink:href") if values.get(name)]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def html(run_dir: Path) -> str:
    return build_report(sources_of(run_dir), run_dir / "report.html").read_text(encoding="utf-8")


def test_page_needs_nothing_from_outside(html: str) -> None:
    page = _Page(html)
    assert all(address.startswith(("data:", "#")) for address in page.addresses)
    assert not re.findall(r"url\((?!#)", html)
    assert "<script" not in html


def test_ids_are_unique_and_references_resolve(html: str) -> None:
    page = _Page(html)
    assert len(page.ids) == len(set(page.ids))
    used = {address[1:] for address in page.addresses if address.startswith("#")} | set(
        re.findall(r"url\(#([^)]+)\)", html)
    )
    assert used <= set(page.ids)


def test_scores_on_the_page_are_those_of_the_summaries(run_dir: Path, html: str) -> None:
    text = " ".join(" ".join(_Page(html).text).split())
    for name in ("eval-before", "eval-after"):
        summary = json.loads((run_dir / name / "summary.json").read_text())
        assert f"{100 * summary['accuracy']:.1f} %" in text
        for estimate in summary["by_problem_type"].values():
            assert f"{100 * estimate['value']:.1f} %" in text


def test_reward_tile_holds_the_mean_of_the_outer_five_steps(run_dir: Path, html: str) -> None:
    rewards = series(read_steps(run_dir / "rl" / "metrics.jsonl"), "reward/overall")[1]
    assert f"{np.mean(rewards[:5]):.2f}" in html
    assert f"{np.mean(rewards[-5:]):.2f}" in html


def test_text_from_records_is_escaped(run_dir: Path, html: str) -> None:
    assert "&lt;answer&gt;" in html
    assert "<answer>" not in html


def test_frames_are_those_of_the_clip(run_dir: Path) -> None:
    import base64
    import io

    from PIL import Image

    group = next(g for g in training_groups(run_dir / "rl" / "generations.jsonl") if len(g.frames) == 8)
    row = next(r for r in read_lines(run_dir / "rl" / "generations.jsonl") if r["step"] == group.step)
    clip = MediaHandle.from_dict(row["media"][0]).open()
    shown = [np.asarray(Image.open(io.BytesIO(base64.b64decode(f.uri.split(",")[1])))) for f in group.frames]
    np.testing.assert_array_equal(np.stack(shown), clip.frames.permute(0, 2, 3, 1).numpy())
    assert [frame.time_s for frame in group.frames] == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])


def test_missing_sources_leave_sections_out(run_dir: Path, tmp_path: Path) -> None:
    html = build_report(ReportSources(rl_dir=run_dir / "rl"), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Training reward" in html
    assert "by problem type" not in html


def test_same_inputs_give_the_same_bytes(run_dir: Path, html: str, tmp_path: Path) -> None:
    assert build_report(sources_of(run_dir), tmp_path / "again.html").read_text(encoding="utf-8") == html


def test_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither a demo"):
        sources_of(tmp_path)


def test_resumed_steps_count_once_and_a_torn_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "x": 1.0}\n{"step": 2, "x": 2.0}\n{"step": 2, "x": 3.0}\n{"step": 3, "x"')
    assert series(read_steps(path), "x") == ([1, 2], [1.0, 3.0])


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nnonsense\n{"step": 3}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2"):
        read_lines(path)
