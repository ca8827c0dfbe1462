"""One training step: eight phases, top to bottom. The eighth, validation and checkpoint, is the trainer's.

Legend: G prompts of the step (groups), n responses each, R the longest response; W workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from evr_core import Sample
from evr_trainer.algorithms import ESTIMATORS
from evr_trainer.carriers import PromptBatch, ResponseBatch, RolloutBatch, TrainBatch
from evr_trainer.cluster import WorkerGroup
from evr_trainer.config import TrainConfig
from evr_trainer.data import EpochSampler, PromptDataset
from evr_trainer.kl_control import KLController
from evr_trainer.losses import ClipRange, kl_penalty
from evr_trainer.metrics import MetricSums, summary_stats
from evr_trainer.policy.objective import PolicyGradient
from evr_trainer.policy.optim import LearningRate
from evr_trainer.policy.sharding import MicroBatchLimit, Shards, shard_groups, shard_prompts, unshard_order
from evr_trainer.rollout import SamplingParams
from evr_trainer.scoring import Rewards, Scorer, reward_records
from evr_trainer.seeding import derive_seed
from evr_trainer.tracking import PhaseClock

__all__ = ["Job", "StepOutput", "generate", "training_step"]


@dataclass
class Job:
    """Everything that lives as long as the run."""

    config: TrainConfig
    workers: WorkerGroup
    scorer: Scorer
    dataset: PromptDataset
    sampler: EpochSampler
    kl: KLController
    learning_rate: LearningRate
    clock: PhaseClock
    val_dataset: PromptDataset | None = None


@dataclass(frozen=True)
class StepOutput:
    """What a step leaves behind: its metrics, and what was written and scored for the log."""

    metrics: dict[str, float]
    samples: Sequence[Sample]
    rollouts: RolloutBatch
    rewards: Rewards


def training_step(job: Job, step: int) -> StepOutput:
    """Phases 1 to 7 of step ``step`` (counted from 1)."""
    config, clock = job.config, job.clock
    clock.start(step)

    with clock.phase("rollout"):
        indices = job.sampler.take(config.data.rollout_batch_size)
        samples = [job.dataset.samples[i] for i in indices]
        seeds = [derive_seed(config.worker.rollout.seed, step, place) for place in range(len(indices))]
        prompts = PromptBatch.of([job.dataset.prompt(i) for i in indices], seeds)
        rollouts = generate(job.workers, prompts, train_sampling(config), config.data.mini_rollout_batch_size)

    with clock.phase("balance"):
        experience = shard_groups(rollouts, len(job.workers), _limit(config, update=False))

    with clock.phase("reward"):
        records = reward_records(
            rollouts,
            samples,
            job.dataset.tokenizer,
            skip_special_tokens=config.worker.reward.skip_special_tokens,
        )
        scores = job.scorer.submit(records)  # goes on beside the next two phases

    extra: dict[str, Tensor] = {}
    if _needs_old_log_probs(config):
        with clock.phase("old_log_probs"):
            extra["old_log_probs"] = log_probs(job.workers, "log_probs", rollouts, experience)
    if config.algorithm.uses_reference:
        with clock.phase("ref_log_probs"):
            extra["ref_log_probs"] = log_probs(job.workers, "reference_log_probs", rollouts, experience)

    with clock.phase("reward"):
        rewards = job.scorer.collect(scores, len(rollouts), rollouts.num_responses)

    with clock.phase("advantage"):
        returns, kl_metrics = _apply_kl_to_reward(job, rewards.overall, rollouts, extra)
        advantages = ESTIMATORS[config.algorithm.adv_estimator](returns, eps=config.algorithm.eps)  # [G, n]
        per_token = advantages.unsqueeze(-1) * rollouts.response_mask  # [G, n, R]
        batch = TrainBatch(rollouts.prompts, rollouts.union(**extra, advantages=per_token).tensors)

    with clock.phase("update"):
        update_metrics = _update_actor(job, batch, step)

    metrics = {
        **rewards.summary(),
        **kl_metrics,
        **update_metrics,
        **summary_stats("critic/score", rewards.overall),
        **summary_stats("critic/rewards", returns),
        **summary_stats("critic/advantages", advantages),
        **_length_metrics(rollouts),
        **_balance_metrics(experience),
    }
    return StepOutput(metrics, samples, rollouts, rewards)


def train_sampling(config: TrainConfig) -> SamplingParams:
    """Sampling of training responses."""
    rollout = config.worker.rollout
    return SamplingParams(
        n=rollout.n,
        max_tokens=config.data.max_response_length,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        ignore_eos=rollout.ignore_eos,
    )


def generate(
    workers: WorkerGroup, prompts: PromptBatch, sampling: SamplingParams, prompts_at_a_time: int | None = None
) -> RolloutBatch:
    """Responses to all prompts, in their order."""
    size = prompts_at_a_time or len(prompts)
    parts = []
    for start in range(0, len(prompts), size):
        part = prompts.select(range(start, min(start + size, len(prompts))))
        places = shard_prompts(part, len(workers))
        results = workers.each("rollout", [(part.select(place), sampling) for place in places])
        parts.append(RolloutBatch.concat(results).select(unshard_order(places)))
    return RolloutBatch.concat(parts)


def log_probs(workers: WorkerGroup, method: str, batch: ResponseBatch, shards: Shards) -> Tensor:
    """Log-probs of all responses, in the batch's order. [G, n, R]"""
    args = [(batch.select(groups), micro) for groups, micro in zip(shards.groups, shards.micro_batches, strict=True)]
    return torch.cat(workers.each(method, args))[unshard_order(shards.groups)]


def _needs_old_log_probs(config: TrainConfig) -> bool:
    """With exactly one update on the batch the policy is still the one that wrote it: the ratio is exp(0)."""
    one_update = (
        config.worker.actor.ppo_epochs == 1 and config.worker.actor.global_batch_size == config.data.rollout_batch_size
    )
    return not one_update or _kl_in_reward(config)


def _kl_in_reward(config: TrainConfig) -> bool:
    return config.algorithm.uses_reference and not config.algorithm.use_kl_loss


def _apply_kl_to_reward(
    job: Job, rewards: Tensor, rollouts: RolloutBatch, extra: dict[str, Tensor]
) -> tuple[Tensor, dict[str, float]]:
    """Rewards less the KL penalty of their responses, when KL is in the reward. [G, n]"""
    if not _kl_in_reward(job.config):
        return rewards, {}
    penalty = kl_penalty(extra["old_log_probs"], extra["ref_log_probs"], job.config.algorithm.kl_penalty)
    penalty = penalty * rollouts.response_mask
    mean_kl = float((penalty.sum(-1) / rollouts["response_lengths"].clamp(min=1)).mean())
    metrics = {"actor/reward_kl": mean_kl, "actor/kl_coef": job.kl.coef}
    returns = rewards - job.kl.coef * penalty.sum(dim=-1)
    job.kl.update(mean_kl, num_samples=rewards.numel())
    return returns, metrics


def _update_actor(job: Job, batch: TrainBatch, step: int) -> dict[str, float]:
    """All mini-batches of the step, ``ppo_epochs`` times; metrics are means over the updates."""
    config, actor = job.config, job.config.worker.actor
    size = actor.global_batch_size
    updates_per_step = actor.ppo_epochs * (len(batch) // size)
    parts: list[MetricSums] = []
    for update in range(updates_per_step):
        start = (update * size) % len(batch)
        mini = batch.select(range(start, start + size))
        shards = shard_groups(mini, len(job.workers), _limit(config, update=True))
        objective = PolicyGradient(
            total_tokens=int(mini["response_lengths"].sum()),
            total_responses=int((mini["response_lengths"] > 0).sum()),
            loss_type=actor.loss_type,
            avg_mode=actor.loss_avg_mode,
            clip=ClipRange(actor.clip_ratio_low, actor.clip_ratio_high, actor.clip_ratio_dual),
            kl_kind=config.algorithm.kl_penalty,
            kl_coef=config.algorithm.kl_coef if config.algorithm.use_kl_loss else 0.0,
        )
        lr = job.learning_rate((step - 1) * updates_per_step + update)
        args = [
            (mini.select(groups), micro, objective, lr, actor.max_grad_norm)
            for groups, micro in zip(shards.groups, shards.micro_batches, strict=True)
        ]
        parts.extend(job.workers.each("update", args))
    return MetricSums.merge(parts).result()


def _limit(config: TrainConfig, *, update: bool) -> MicroBatchLimit:
    actor = config.worker.actor
    if not actor.dynamic_batching:
        update_size, experience_size = (
            actor.micro_batch_size_per_device_for_update,
            actor.micro_batch_size_per_device_for_experience,
        )
        return MicroBatchLimit(None, update_size if update else experience_size)
    return MicroBatchLimit(config.update_token_budget if update else config.experience_token_budget)


def _length_metrics(rollouts: RolloutBatch) -> dict[str, float]:
    prompt_lengths = torch.tensor([len(prompt.token_ids) for prompt in rollouts.prompts])
    return {
        **summary_stats("prompt_length", prompt_lengths),
        **summary_stats("response_length", rollouts["response_lengths"]),
        "response_length/clip_ratio": float(rollouts["truncated"].float().mean()),
    }


def _balance_metrics(shards: Shards) -> dict[str, float]:
    return {
        "global_seqlen/min": float(min(shards.tokens)),
        "global_seqlen/max": float(max(shards.tokens)),
        "global_seqlen/mean": sum(shards.tokens) / len(shards.tokens),
    }
