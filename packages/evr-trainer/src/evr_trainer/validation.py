"""Validation in training: the policy's own engine on held-out records."""

from __future__ import annotations

from collections import defaultdict

import torch

from evr_trainer.carriers import PromptBatch
from evr_trainer.config import TrainConfig
from evr_trainer.data import PromptDataset
from evr_trainer.rollout import SamplingParams
from evr_trainer.scoring import reward_records
from evr_trainer.seeding import derive_seed
from evr_trainer.step import Job, generate

__all__ = ["validate", "validation_sampling"]


def validation_sampling(config: TrainConfig) -> SamplingParams:
    """Sampling of validation responses: that of training with ``val_override_config`` on top, one response each."""
    rollout, override = config.worker.rollout, config.worker.rollout.val_override_config
    return SamplingParams(
        n=override.n,
        max_tokens=config.data.max_response_length,
        temperature=rollout.temperature if override.temperature is None else override.temperature,
        top_p=rollout.top_p if override.top_p is None else override.top_p,
        top_k=rollout.top_k if override.top_k is None else override.top_k,
        ignore_eos=rollout.ignore_eos,
    )


def validate(job: Job, dataset: PromptDataset) -> dict[str, float]:
    """Mean of every reward metric as ``val/<metric>``, and ``val/accuracy/<problem type>``."""
    config = job.config
    sampling = validation_sampling(config)
    override = config.worker.rollout.val_override_config
    seed = config.worker.rollout.seed if override.seed is None else override.seed
    size = len(dataset) if config.data.val_batch_size == -1 else config.data.val_batch_size
    values: defaultdict[str, list[torch.Tensor]] = defaultdict(list)
    for start in range(0, len(dataset), size):
        rows = range(start, min(start + size, len(dataset)))
        samples = [dataset.samples[i] for i in rows]
        seeds = [derive_seed(seed, "validation", i) for i in rows]
        rollouts = generate(job.workers, PromptBatch.of([dataset.prompt(i) for i in rows], seeds), sampling)
        records = reward_records(
            rollouts, samples, dataset.tokenizer, skip_special_tokens=config.worker.reward.skip_special_tokens
        )
        rewards = job.scorer.collect(job.scorer.submit(records), len(samples), sampling.n)
        for name, scores in rewards.metrics.items():
            values[f"val/{name}"].append(scores.flatten())
        for g, sample in enumerate(samples):
            if "accuracy" in rewards.metrics:
                values[f"val/accuracy/{sample.problem_type.value}"].append(rewards.metrics["accuracy"][g])
    return {name: float(torch.cat(parts).double().nanmean()) for name, parts in values.items()}
