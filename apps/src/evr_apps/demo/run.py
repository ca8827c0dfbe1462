"""The demo from nothing to a report: clips, a tiny model, supervised warm-up, GRPO, evaluation before and after."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evr_apps.demo.display import DemoDisplay, StageBar
from evr_apps.demo.recipe import Recipe
from evr_apps.demo.settings import PIXELS, eval_config, sft_config, train_config, train_settings, video_budget
from evr_apps.demo.stages import StageResult, Stages
from evr_apps.report.build import HELD_OUT_FILE, build_report, sources_of
from evr_apps.report.jsonl import read_steps, series

Rollout = Literal["transformers", "vllm"]


@dataclass(frozen=True)
class DemoConfig:
    """What decides a demo run.

    Attributes:
        out_dir: Everything is written below it; an interrupted run here is continued.
        seed: Decides clips, weights and samples.
        rollout: Engine that writes the responses in training.
        recipe: Sizes, steps and learning rates.
    """

    out_dir: Path
    seed: int = 0
    rollout: Rollout = "transformers"
    recipe: Recipe = field(default_factory=Recipe)


@dataclass(frozen=True)
class DemoSummary:
    """What ``summary.json`` holds.

    Attributes:
        seed: As given.
        rollout: As given.
        steps: Training steps of GRPO.
        reward_first5: Mean reward of the first five steps.
        reward_last5: Mean reward of the last five steps.
        accuracy_before: Held-out accuracy after the warm-up.
        accuracy_after: Held-out accuracy after GRPO.
        mismatch_max: Largest log-prob difference between rollout engine and policy, over all steps.
        bytes_per_sample: Most bytes that crossed process borders per sample in a step.
        wall_s: Seconds of all stages, in the runs that they took; attempts that were killed outright are not known.
    """

    seed: int
    rollout: str
    steps: int
    reward_first5: float
    reward_last5: float
    accuracy_before: float
    accuracy_after: float
    mismatch_max: float
    bytes_per_sample: float
    wall_s: float


def run_demo(config: DemoConfig, display: DemoDisplay) -> DemoSummary:
    """All stages in order; finished ones are skipped, the interrupted one goes on where it stopped."""
    demo = _Demo(config, display)
    before = _prepare(demo)
    decides = demo.inputs("rl_", "max_", "group_", "temperature", "val_freq", "save_freq", "workers")
    trained = demo.stage("rl", "GRPO", demo.train, decides | {"rollout": config.rollout}, before)
    export = demo.stage("policy", "Export to Hugging Face", demo.export, {}, trained)
    after = demo.stage("eval-after", "Accuracy after", demo.evaluate_after, {}, export)
    return demo.report(trained, before, after)


def prepare_policy(config: DemoConfig, display: DemoDisplay) -> tuple[Path, float]:
    """The stages up to the supervised warm-up: a tiny policy and its held-out accuracy."""
    demo = _Demo(config, display)
    before = _prepare(demo)
    return demo.warm_model, float(before.outputs["accuracy"])


def _prepare(demo: _Demo) -> StageResult:
    data = demo.stage("data", "Clips and questions", demo.make_data, demo.inputs("num_") | {"seed": demo.seed})
    start = demo.stage("model", "Untrained tiny model", demo.make_model, {}, data)
    cache = demo.stage("cache", "Frames into the cache", demo.fill_cache, {}, data)
    warm = demo.stage("sft", "Supervised warm-up", demo.warm_up, demo.inputs("sft_", "max_", "workers"), start, cache)
    return demo.stage("eval-before", "Accuracy before", demo.evaluate_before, {}, warm)


class _Demo:
    """The stages over one output folder."""

    def __init__(self, config: DemoConfig, display: DemoDisplay) -> None:
        config.out_dir.mkdir(parents=True, exist_ok=True)
        self.out = config.out_dir.absolute()
        self.seed = config.seed
        self.recipe = config.recipe
        self.rollout = config.rollout
        self.warm_model = self.out / "sft" / "model"
        self._display = display
        self._stages = Stages(self.out)
        self._wall_s = 0.0

        _hide_foreign_bars()

    def inputs(self, *prefixes: str) -> dict[str, Any]:
        """The recipe's numbers whose names start so."""
        return {k: v for k, v in dataclasses.asdict(self.recipe).items() if k.startswith(prefixes)}

    def stage(
        self,
        name: str,
        title: str,
        work: Callable[[StageBar], Mapping[str, Any]],
        inputs: Mapping[str, Any],
        *after: StageResult,
    ) -> StageResult:
        """Runs one stage under a bar, or finds it finished."""
        with self._display.stage(title) as bar:
            result = self._stages.run(name, inputs, lambda: work(bar), after=after)
            self._wall_s += result.wall_s
            note = str(result.outputs.get("note", ""))
            self._display.finish(bar, title, wall_s=result.wall_s, resumed=result.resumed, note=note)
        return result

    def make_data(self, bar: StageBar) -> dict[str, Any]:
        """Clips, pictures and the three record files."""
        from evr_apps.demo.data import generate_demo_data

        recipe = self.recipe
        generate_demo_data(
            self.out / "data",
            seed=self.seed,
            num_train=recipe.num_train,
            num_val=recipe.num_val,
            num_sft=recipe.num_sft,
        )
        return {"note": f"{recipe.num_sft} + {recipe.num_train} + {recipe.num_val} records"}

    def make_model(self, bar: StageBar) -> dict[str, Any]:
        """A model with random weights and a tokenizer made for the records."""
        from evr_apps.demo.corpus import demo_corpus
        from evr_apps.demo.tiny_model import build_tiny_model

        build_tiny_model(self.out / "model", seed=self.seed, corpus=demo_corpus(self._records("sft")))
        return {}

    def fill_cache(self, bar: StageBar) -> dict[str, Any]:
        """Every clip and picture decoded once; the held-out records with handles for the report."""
        from evr_apps.preprocessed import write_records
        from evr_core import geometry_for, read_samples
        from evr_video import FrameCache, preprocess_samples

        sets = {
            name: read_samples(self._records(name), media_dir=self._media).samples for name in ("sft", "train", "val")
        }
        samples = [sample for found in sets.values() for sample in found]
        result = preprocess_samples(
            samples,
            FrameCache(self._frames),
            video_budget(),
            geometry_for(self.out / "model"),
            image_min_pixels=PIXELS,
            image_max_pixels=PIXELS,
            workers=self.recipe.workers,
            on_progress=bar.update,
        )
        pairs = list(zip(samples, result.handles, strict=True))[-len(sets["val"]) :]
        write_records([(sample, handles or ()) for sample, handles in pairs], self.out / "cache" / HELD_OUT_FILE)
        return {}

    def warm_up(self, bar: StageBar) -> dict[str, Any]:
        """Supervised training on records with answers."""
        from evr_trainer import train_sft

        config = sft_config(
            self.recipe,
            seed=self.seed,
            records=self._records("sft"),
            media_dir=self._media,
            cache_dir=self._frames,
            model_dir=self.out / "model",
            output_dir=self.out / "sft",
        )

        def show(step: int, metrics: Mapping[str, float]) -> None:
            bar.update(step, self.recipe.sft_steps, f"loss {metrics['sft/loss']:.3f}")

        summary = train_sft(config, on_step=show)
        return {"note": f"loss {summary.metrics['sft/loss']:.3f}"}

    def evaluate_before(self, bar: StageBar) -> dict[str, Any]:
        """Held-out accuracy of the warmed-up policy."""
        return self._evaluate(self.warm_model, self.out / "eval-before", bar)

    def train(self, bar: StageBar) -> dict[str, Any]:
        """Reinforcement learning; continues from its last complete checkpoint."""
        from evr_trainer import train

        settings = train_settings(
            self.recipe,
            seed=self.seed,
            rollout=self.rollout,
            train_file=self._records("train"),
            val_file=self._records("val"),
            media_dir=self._media,
            cache_dir=self._frames,
            model_dir=self.warm_model,
            run_dir=self.out / "rl",
        )

        def show(step: int, metrics: Mapping[str, float]) -> None:
            bar.update(step, self.recipe.rl_steps, f"reward {metrics['reward/overall']:.3f}")

        summary = train(train_config(settings), on_step=show)
        assert summary.last_checkpoint is not None
        checkpoint = summary.last_checkpoint.absolute().relative_to(self.out)
        return {"checkpoint": str(checkpoint), "note": f"checkpoint {checkpoint}"}

    def export(self, bar: StageBar) -> dict[str, Any]:
        """The trained policy as a folder that transformers loads; loading it is part of the stage."""
        from transformers import AutoModelForImageTextToText

        from evr_trainer import export_hf

        mark = json.loads((self.out / ".stages" / "rl.json").read_text(encoding="utf-8"))
        actor = self.out / mark["outputs"]["checkpoint"] / "actor"
        folder = export_hf(actor, self.warm_model, self.out / "policy")
        model = AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True)
        return {"note": f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, loaded by transformers"}

    def evaluate_after(self, bar: StageBar) -> dict[str, Any]:
        """Held-out accuracy of the exported policy."""
        return self._evaluate(self.out / "policy", self.out / "eval-after", bar)

    def report(self, trained: StageResult, before: StageResult, after: StageResult) -> DemoSummary:
        """Writes ``summary.json`` and ``report.html``."""
        with self._display.stage("Report") as bar:
            summary = self._summary(before, after)
            command = f"evr demo --seed {self.seed} --rollout {self.rollout}"
            fields = dataclasses.asdict(summary) | {"command": command, "note": _annotator_note()}
            staged = self.out / "summary.json.tmp"
            staged.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
            staged.replace(self.out / "summary.json")
            path = build_report(sources_of(self.out), self.out / "report.html")
            self._display.finish(bar, "Report", wall_s=0.0, resumed=False, note=str(path.name))
        return summary

    def _evaluate(self, model_dir: Path, output_dir: Path, bar: StageBar) -> dict[str, Any]:
        from evr_eval import evaluate

        config = eval_config(
            self.recipe,
            seed=self.seed,
            records=self._records("val"),
            media_dir=self._media,
            cache_dir=self._frames,
            model_dir=model_dir,
            output_dir=output_dir,
        )
        summary = evaluate(config, on_progress=lambda state: bar.update(state.done, state.total))
        return {"accuracy": summary.accuracy, "note": f"accuracy {summary.accuracy:.3f}"}

    def _summary(self, before: StageResult, after: StageResult) -> DemoSummary:
        rows = read_steps(self.out / "rl" / "metrics.jsonl")
        reward = series(rows, "reward/overall")[1]
        return DemoSummary(
            seed=self.seed,
            rollout=self.rollout,
            steps=len(reward),
            reward_first5=_mean(reward[:5]),
            reward_last5=_mean(reward[-5:]),
            accuracy_before=float(before.outputs["accuracy"]),
            accuracy_after=float(after.outputs["accuracy"]),
            mismatch_max=max(series(rows, "mismatch/max")[1]),
            bytes_per_sample=max(series(rows, "media/bytes_per_sample")[1]),
            wall_s=round(self._wall_s, 1),
        )

    def _records(self, name: str) -> Path:
        return self.out / "data" / f"{name}.jsonl"

    @property
    def _media(self) -> Path:
        return self.out / "data" / "media"

    @property
    def _frames(self) -> Path:
        return self.out / "cache" / "frames"


def _hide_foreign_bars() -> None:
    """The model library's own bars would tear the stages' bars apart."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def _annotator_note() -> str:
    """What a reader of the numbers has to know about the warm-up."""
    from evr_apps.demo.data import MISLABELLED

    return (
        f"The warm-up's answers come from a careless annotator: {MISLABELLED:.0%} of those about colours are wrong. "
        "The rewards are right; what the policy gains in reinforcement learning, it learns from them alone."
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
