"""A run from its configuration to its last checkpoint."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from evr_core import SampleSet
from evr_trainer.assets import load_assets, resolve_device, threads_per_worker
from evr_trainer.checkpoint import Checkpoint, CheckpointStore
from evr_trainer.cluster import EngineSpec, PolicySpec, WorkerGroup, WorkerSpec, ray_cluster
from evr_trainer.config import TrainConfig, require_valid
from evr_trainer.data import EpochSampler, PromptDataset, media_kinds, read_records
from evr_trainer.kl_control import KLController
from evr_trainer.policy.optim import LearningRate
from evr_trainer.reward_process import load_rewards
from evr_trainer.scoring import Scorer
from evr_trainer.step import Job, StepOutput, training_step
from evr_trainer.tracking import GenerationLog, PhaseClock, Tracker, log_all, open_trackers
from evr_trainer.validation import validate

__all__ = ["TrainSummary", "check_run", "train"]

_log = logging.getLogger(__name__)
OnStep = Callable[[int, Mapping[str, float]], None]


@dataclass(frozen=True)
class TrainSummary:
    """Where a run ended.

    Attributes:
        steps: Steps done in all, resumed ones included.
        run_dir: Folder of checkpoints, ``metrics.jsonl``, ``generations.jsonl`` and TensorBoard files.
        last_checkpoint: The newest checkpoint (``global_step_N``); None when validation was all there was to do.
        metrics: Those of the last step, or of the validation.
    """

    steps: int
    run_dir: Path
    last_checkpoint: Path | None
    metrics: Mapping[str, float]


def train(
    config: TrainConfig, *, on_step: OnStep | None = None, print_line: Callable[[str], None] | None = None
) -> TrainSummary:
    """Train, or go on training: a run folder with checkpoints is continued from the newest complete one.

    Args:
        config: Checked as a whole first; nothing is loaded before it is sound.
        on_step: Called with each step's number and metrics, for progress bars.
        print_line: Takes the console tracker's lines; the terminal by default.

    Raises:
        ConfigError: Every problem of the configuration at once.
        ValueError: Records, media or a reward function that cannot be used.
        WorkerError: A worker failed or died. What was saved is complete; the same command continues from there.
    """
    records, val_records = check_run(config)
    device = resolve_device(config.trainer.device, config.trainer.n_workers)
    model = config.worker.actor.model
    assets = load_assets(model.model_path, model.tokenizer, chat_template=config.data.override_chat_template)
    dataset = PromptDataset.build(records, config.data, assets)
    val_dataset = PromptDataset.build(val_records, config.data, assets, validation=True) if val_records else None
    store = CheckpointStore(config.trainer.checkpoint_dir)
    total_steps = _total_steps(config, len(dataset))
    with ExitStack() as stack:
        n_workers = config.trainer.n_workers
        stack.enter_context(
            ray_cluster(
                config.trainer.ray_address,
                num_cpus=n_workers + 1,
                num_gpus=n_workers if device == "cuda" else 0,
            )
        )
        workers = WorkerGroup.start(_worker_spec(config, device))
        stack.callback(workers.close)
        scorer = Scorer(config.worker.reward)
        stack.callback(scorer.close)
        job = Job(
            config=config,
            workers=workers,
            scorer=scorer,
            dataset=dataset,
            sampler=EpochSampler(len(dataset), config.data.seed, config.data.shuffle),
            kl=_kl_controller(config),
            learning_rate=_learning_rate(config, total_steps),
            clock=PhaseClock(config.trainer.log_dir),
            val_dataset=val_dataset,
        )
        return _Run(job, store, total_steps, on_step, print_line).run()


def check_run(config: TrainConfig) -> tuple[SampleSet, SampleSet | None]:
    """Everything that can be checked before a model loads; ``evr train --check`` is this.

    Returns:
        The training records, and the validation records if there are to be any.

    Raises:
        ConfigError: Every problem of the configuration at once, the token budget for the records' media included.
        ValueError: Records or media that cannot be used.
    """
    require_valid(config, media=())
    load_rewards(config.worker.reward)
    records = read_records(config.data)
    val_records = read_records(config.data, validation=True) if config.data.val_files else None
    media = media_kinds(records) | (media_kinds(val_records) if val_records else set())
    require_valid(config, media=media)
    return records, val_records


@dataclass
class _Run:
    """The loop around the steps: resume, validate, save, log."""

    job: Job
    store: CheckpointStore
    total_steps: int
    on_step: OnStep | None
    print_line: Callable[[str], None] | None
    best: Mapping[str, float] | None = None  # {"step", "score"} of the best checkpoint that was validated

    def run(self) -> TrainSummary:
        config = self.job.config
        log_dir = config.trainer.log_dir
        log_dir.mkdir(parents=True, exist_ok=True)
        checkpoint = self._resume()
        done = checkpoint.step if checkpoint else 0
        if config.trainer.val_only:
            return self._validate_only(checkpoint)
        known = done if checkpoint else -1  # rows up to here stay; what comes after is written again
        with self._trackers(log_dir, known) as trackers:
            generations = GenerationLog(log_dir, known)
            metrics: dict[str, float] = dict(checkpoint.state["metrics"]) if checkpoint else {}
            last = checkpoint.path if checkpoint else None
            if self.job.val_dataset is not None and not checkpoint and config.trainer.val_before_train:
                self.job.clock.start(0)
                metrics = self._validate()
                log_all(trackers, 0, metrics)
            for step in range(done + 1, self.total_steps + 1):
                output = training_step(self.job, step)
                metrics = dict(output.metrics) | self._bytes_crossed(output)
                if self._is_due(step, config.trainer.val_freq) and self.job.val_dataset is not None:
                    metrics |= self._validate()
                saves = self._is_due(step, config.trainer.save_freq) or step == self.total_steps
                staging = self._stage(step) if saves else None
                metrics |= self._accounting(output)
                log_all(trackers, step, metrics)
                self._log_generations(generations, step, output)
                if staging is not None:  # only now: what is behind a checkpoint is never written again
                    last = self._commit(staging, step, metrics)
                if self.on_step is not None:
                    self.on_step(step, metrics)
        return TrainSummary(max(done, self.total_steps), config.trainer.checkpoint_dir, last, metrics)

    def _trackers(self, log_dir: Path, done: int) -> AbstractContextManager[list[Tracker]]:
        return open_trackers(
            self.job.config.trainer.logger,
            log_dir,
            total_steps=self.total_steps,
            resumed_step=done,
            print_line=self.print_line,
        )

    def _validate_only(self, checkpoint: Checkpoint | None) -> TrainSummary:
        """Validate the policy as it is; the run's files stay as they are."""
        if self.job.val_dataset is None:
            raise ValueError("trainer.val_only=true needs data.val_files")
        done = checkpoint.step if checkpoint else 0
        self.job.clock.start(done)
        metrics = self._validate()
        with self._trackers(self.job.config.trainer.log_dir / "val_only", -1) as trackers:
            log_all(trackers, done, metrics)
        return TrainSummary(
            done, self.job.config.trainer.checkpoint_dir, checkpoint.path if checkpoint else None, metrics
        )

    @staticmethod
    def _is_due(step: int, every: int) -> bool:
        return every > 0 and step % every == 0

    def _validate(self) -> dict[str, float]:
        assert self.job.val_dataset is not None
        with self.job.clock.phase("validate"):
            metrics = validate(self.job, self.job.val_dataset)
        self.job.workers.take_bytes()  # validation's own; the step's are counted before it
        self.job.scorer.take_bytes()
        return metrics

    def _note_best(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keep this step as the best one if its checkpoint, being saved now, was validated and scored highest."""
        score = metrics.get("val/accuracy", metrics.get("val/overall"))
        if score is None or math.isnan(score):
            return
        if self.best is None or score > self.best["score"]:
            self.best = {"step": step, "score": score}

    def _resume(self) -> Checkpoint | None:
        """Load the checkpoint to go on from, if there is one."""
        trainer = self.job.config.trainer
        checkpoint = self.store.choose(trainer.load_checkpoint_path, find_last=trainer.find_last_checkpoint)
        if checkpoint is None:
            return None
        state = checkpoint.state
        if "dataset_size" not in state:
            raise ValueError(
                f"{checkpoint.path} is no checkpoint of `evr train`; export it (evr merge), start from that"
            )
        if state["dataset_size"] != self.job.sampler.size:
            raise ValueError(
                f"{checkpoint.path} was made with {state['dataset_size']} usable records, data.train_files has "
                f"{self.job.sampler.size} now: the order could not be continued. Restore the records, or start a new "
                "run in another trainer.save_checkpoint_path"
            )
        self.job.workers.all("load", str(checkpoint.actor_dir))
        self.job.sampler.position = state["sampler_position"]
        if self.job.kl.adaptive:
            self.job.kl.coef = state["kl_coef"]
        if not (checkpoint.actor_dir / "optimizer.json").is_file():
            _log.warning("%s holds no optimizer state: the optimizer starts anew", checkpoint.path)
        self.best = state["best"]
        _log.warning("continuing from %s", checkpoint.path)
        return checkpoint

    def _stage(self, step: int) -> Path:
        """Write everything of the checkpoint aside."""
        with self.job.clock.phase("save"):
            staging = self.store.begin(step)
            with_optimizer = not self.job.config.trainer.save_model_only
            self.job.workers.all("save", str(staging / "actor"), with_optimizer)
        return staging

    def _commit(self, staging: Path, step: int, metrics: Mapping[str, float]) -> Path:
        """Make the staged folder a checkpoint, and let older ones go."""
        self._note_best(step, metrics)
        best = int(self.best["step"]) if self.best else None
        with self.job.clock.phase("commit"):
            checkpoint = self.store.commit(staging, self._state(step, metrics))
            self.store.prune(self.job.config.trainer.save_limit, best, current_step=step)
        return checkpoint.path

    def _state(self, step: int, metrics: Mapping[str, float]) -> dict[str, Any]:
        return {
            "step": step,
            "metrics": {name: value for name, value in metrics.items() if math.isfinite(value)},
            "sampler_position": self.job.sampler.position,
            "dataset_size": self.job.sampler.size,
            "kl_coef": self.job.kl.coef,
            "best": self.best,
            "config": json.loads(self.job.config.model_dump_json()),
        }

    def _accounting(self, output: StepOutput) -> dict[str, float]:
        """Time, throughput and memory of the step."""
        timings = self.job.clock.metrics()
        tokens = float(sum(output.rollouts.group_tokens()))
        memory: list[dict[str, float]] = self.job.workers.all("memory")
        self.job.workers.take_bytes()
        update_s = timings.get("timing_s/update", 0.0)
        return {
            **timings,
            "timing_per_token_ms/update": 1000 * update_s / max(tokens, 1.0),
            "perf/total_num_tokens": tokens,
            "perf/throughput": tokens / timings["timing_s/step"] / len(self.job.workers),
            "media/skipped_records": float(self.job.dataset.num_skipped),
            "media/host_rss_gib": psutil.Process().memory_info().rss / 2**30 + sum(m["host_rss_gib"] for m in memory),
        }

    def _bytes_crossed(self, output: StepOutput) -> dict[str, float]:
        """What the training step sent between processes, in all and per prompt."""
        crossed = float(self.job.workers.take_bytes() + self.job.scorer.take_bytes())
        return {"media/bytes_per_step": crossed, "media/bytes_per_sample": crossed / len(output.rollouts)}

    def _log_generations(self, log: GenerationLog, step: int, output: StepOutput) -> None:
        """The first group of every step, as text with its scores."""
        rollouts, rewards = output.rollouts, output.rewards
        responses = []
        for i, length in enumerate(rollouts["response_lengths"][0].tolist()):
            text = self.job.dataset.tokenizer.decode(
                rollouts["response_ids"][0, i, :length].tolist(), skip_special_tokens=True
            )
            scores = {name: float(values[0, i]) for name, values in rewards.metrics.items()}
            known = {name: score for name, score in scores.items() if math.isfinite(score)}
            failure = {"error": rewards.errors[0][i]} if rewards.errors[0][i] else {}
            responses.append({"text": text, **known, "outcome": rewards.outcomes[0][i], **failure})
        log.log(step, output.samples[0], rollouts.prompts[0], responses)


def _total_steps(config: TrainConfig, num_samples: int) -> int:
    if config.trainer.max_steps is not None:
        return config.trainer.max_steps
    batch = config.data.rollout_batch_size
    steps = config.trainer.total_epochs * num_samples // batch
    if steps == 0:
        raise ValueError(
            f"{num_samples} records x trainer.total_epochs={config.trainer.total_epochs} do not fill one batch of "
            f"data.rollout_batch_size={batch}; lower the batch size, or set trainer.max_steps"
        )
    return steps


def _learning_rate(config: TrainConfig, total_steps: int) -> LearningRate:
    actor, optim = config.worker.actor, config.worker.actor.optim
    updates = total_steps * actor.ppo_epochs * (config.data.rollout_batch_size // actor.global_batch_size)
    return LearningRate.of(optim, updates)


def _kl_controller(config: TrainConfig) -> KLController:
    algorithm = config.algorithm
    return KLController(
        coef=algorithm.kl_coef,
        adaptive=algorithm.kl_type == "adaptive",
        target=algorithm.kl_target,
        horizon=algorithm.kl_horizon,
    )


def _worker_spec(config: TrainConfig, device: str) -> WorkerSpec:
    actor, rollout = config.worker.actor, config.worker.rollout
    options: dict[str, int | float | bool | None] = {
        "max_num_batched_tokens": rollout.max_num_batched_tokens,
        "gpu_memory_utilization": rollout.gpu_memory_utilization,
        "enforce_eager": rollout.enforce_eager,
        "enable_chunked_prefill": rollout.enable_chunked_prefill,
        "limit_images": rollout.limit_images,
    }
    return WorkerSpec(
        rank=0,
        world_size=config.trainer.n_workers,
        device=device,
        policy=PolicySpec.of(actor.model, actor.fsdp, actor.optim, temperature=rollout.temperature),
        num_threads=threads_per_worker(config.trainer.n_workers),
        engine=EngineSpec(
            name=rollout.name,
            dtype=rollout.dtype,
            max_model_len=config.max_model_len,
            max_num_seqs=rollout.max_num_seqs,
            options=options,
        ),
        with_reference=config.algorithm.uses_reference,
        collective_timeout_s=config.trainer.collective_timeout_s,
        loopback_only=config.trainer.ray_address is None,
    )
