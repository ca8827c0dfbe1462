"""Cold start: supervised fine-tuning on records with answers, by the machinery of the training step.

Each record is a group with one response, ``<answer>truth</answer>`` (or the record's ``offline_output``), ended by the
end-of-sequence token; the loss is the mean negative log-likelihood of the response tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from tensordict import TensorDict

from evr_core import Sample, SampleSet
from evr_trainer.assets import load_assets, resolve_device, threads_per_worker
from evr_trainer.carriers import ResponseBatch
from evr_trainer.checkpoint import Checkpoint, CheckpointStore, export_hf
from evr_trainer.cluster import PolicySpec, WorkerGroup, WorkerSpec, ray_cluster
from evr_trainer.config import ConfigError, SftConfig, check_sft_config
from evr_trainer.data import EpochSampler, PromptDataset, media_kinds, read_records
from evr_trainer.metrics import MetricSums
from evr_trainer.policy.objective import Supervised
from evr_trainer.policy.optim import LearningRate
from evr_trainer.policy.sharding import MicroBatchLimit, shard_groups
from evr_trainer.tracking import PhaseClock, Tracker, log_all, open_trackers

__all__ = ["SftSummary", "check_sft_run", "target_text", "train_sft"]


@dataclass(frozen=True)
class SftSummary:
    """Where fine-tuning ended: ``model_dir`` is a Hugging Face folder that ``train`` can start from."""

    steps: int
    run_dir: Path
    model_dir: Path
    metrics: Mapping[str, float]


def target_text(sample: Sample) -> str:
    """The response to learn: the record's ``offline_output`` where it has one, else its answer in answer tags."""
    offline = sample.extra.get("offline_output")
    return offline if isinstance(offline, str) and offline else f"<answer>{sample.answer}</answer>"


def train_sft(
    config: SftConfig,
    *,
    on_step: Callable[[int, Mapping[str, float]], None] | None = None,
    print_line: Callable[[str], None] | None = None,
) -> SftSummary:
    """Fine-tune, or go on: a folder with checkpoints is continued from the newest complete one.

    Raises:
        ConfigError: Every problem of the configuration at once.
        ValueError: Records or media that cannot be used.
        WorkerError: A worker failed or died; the same command continues from the last checkpoint.
    """
    records = check_sft_run(config)
    device = resolve_device(config.trainer.device, config.trainer.n_workers)
    model = config.model
    assets = load_assets(model.model_path, model.tokenizer, chat_template=config.data.override_chat_template)
    dataset = PromptDataset.build(records, config.data, assets)
    with ExitStack() as stack:
        stack.enter_context(
            ray_cluster(
                config.trainer.ray_address,
                num_cpus=config.trainer.n_workers,
                num_gpus=config.trainer.n_workers if device == "cuda" else 0,
            )
        )
        workers = WorkerGroup.start(_worker_spec(config, device))
        stack.callback(workers.close)
        return _SftRun(config, workers, dataset, on_step, print_line).run()


def check_sft_run(config: SftConfig) -> SampleSet:
    """Everything that can be checked before a model loads; ``evr sft --check`` is this. Returns the records.

    Raises:
        ConfigError: Every problem of the configuration at once, the token budget for the records' media included.
        ValueError: Records or media that cannot be used.
    """
    _require_valid(config, media=())
    records = read_records(config.data)
    _require_valid(config, media=media_kinds(records))
    return records


def _require_valid(config: SftConfig, *, media: Collection[Literal["video", "image"]]) -> None:
    problems = check_sft_config(config, media=media)
    if problems:
        raise ConfigError(problems)


@dataclass
class _SftRun:
    config: SftConfig
    workers: WorkerGroup
    dataset: PromptDataset
    on_step: Callable[[int, Mapping[str, float]], None] | None
    print_line: Callable[[str], None] | None

    def run(self) -> SftSummary:
        run = self.config.trainer
        run.output_dir.mkdir(parents=True, exist_ok=True)
        store = CheckpointStore(run.output_dir)
        sampler = EpochSampler(len(self.dataset), self.config.data.seed, self.config.data.shuffle)
        total_steps = run.max_steps or max(run.total_epochs * len(self.dataset) // run.batch_size, 1)
        checkpoint = self._resume(store, sampler)
        done = checkpoint.step if checkpoint else 0
        clock = PhaseClock(run.output_dir)
        learning_rate = LearningRate.of(self.config.optim, total_steps)
        metrics: dict[str, float] = dict(checkpoint.state["metrics"]) if checkpoint else {}
        with open_trackers(
            run.logger, run.output_dir, total_steps=total_steps, resumed_step=done, print_line=self.print_line
        ) as trackers:
            for step in range(done + 1, total_steps + 1):
                clock.start(step)
                with clock.phase("update"):
                    metrics = self._step(sampler, learning_rate(step - 1))
                staging = None
                if (run.save_freq > 0 and step % run.save_freq == 0) or step == total_steps:
                    with clock.phase("save"):
                        staging = store.begin(step)
                        self.workers.all("save", str(staging / "actor"), True)
                metrics |= clock.metrics()
                self._report(trackers, step, total_steps, metrics)
                if staging is not None:  # only now: what is behind a checkpoint is never written again
                    checkpoint = store.commit(
                        staging, {"step": step, "sampler_position": sampler.position, "metrics": metrics}
                    )
                    store.prune(run.save_limit, None, current_step=step)
        assert checkpoint is not None
        model_dir = export_hf(checkpoint.actor_dir, self.config.model.model_path, run.output_dir / "model")
        return SftSummary(max(done, total_steps), run.output_dir, model_dir, metrics)

    def _step(self, sampler: EpochSampler, lr: float) -> dict[str, float]:
        batch = self._batch(sampler.take(self.config.trainer.batch_size))
        shards = shard_groups(batch, len(self.workers), MicroBatchLimit(self.config.token_budget))
        objective = Supervised(total_tokens=int(batch["response_lengths"].sum()))
        args = [
            (batch.select(groups), micro, objective, lr, self.config.trainer.max_grad_norm)
            for groups, micro in zip(shards.groups, shards.micro_batches, strict=True)
        ]
        result = MetricSums.merge(self.workers.each("update", args)).result()
        return {"sft/loss": result.pop("sft/loss"), "sft/lr": lr, **result}

    def _batch(self, indices: Sequence[int]) -> ResponseBatch:
        """Records as groups of one response. response_ids [B, 1, R]"""
        tokenizer = self.dataset.tokenizer
        prompts = tuple(self.dataset.prompt(i) for i in indices)
        targets = [
            [
                *tokenizer(target_text(self.dataset.samples[i]), add_special_tokens=False)["input_ids"],
                tokenizer.eos_token_id,
            ]
            for i in indices
        ]
        lengths = torch.tensor([[len(target)] for target in targets])
        ids = torch.zeros(len(targets), 1, int(lengths.max()), dtype=torch.int64)
        for row, target in enumerate(targets):
            ids[row, 0, : len(target)] = torch.tensor(target)
        return ResponseBatch(prompts, TensorDict({"response_ids": ids, "response_lengths": lengths}, [len(prompts)]))

    def _resume(self, store: CheckpointStore, sampler: EpochSampler) -> Checkpoint | None:
        run = self.config.trainer
        checkpoint = store.choose(run.load_checkpoint_path, find_last=run.find_last_checkpoint)
        if checkpoint is not None:
            self.workers.all("load", str(checkpoint.actor_dir))
            sampler.position = checkpoint.state["sampler_position"]
        return checkpoint

    def _report(self, trackers: Sequence[Tracker], step: int, total_steps: int, metrics: Mapping[str, float]) -> None:
        if step % self.config.trainer.log_freq == 0 or step == total_steps:
            log_all(trackers, step, metrics)
        if self.on_step is not None:
            self.on_step(step, metrics)


def _worker_spec(config: SftConfig, device: str) -> WorkerSpec:
    run = config.trainer
    return WorkerSpec(
        rank=0,
        world_size=run.n_workers,
        device=device,
        policy=PolicySpec.of(config.model, config.fsdp, config.optim),
        num_threads=threads_per_worker(run.n_workers),
        collective_timeout_s=run.collective_timeout_s,
        loopback_only=run.ray_address is None,
    )
