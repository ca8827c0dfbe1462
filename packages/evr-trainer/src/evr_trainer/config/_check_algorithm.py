"""Do the values of the algorithm, the loss, the schedule and the run make sense together?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from .errors import Problem
from .root import TrainConfig

_GROUP_ESTIMATORS = ("grpo", "grpo_passk", "gdpo", "rloo")


def algorithm_problems(config: TrainConfig) -> Iterator[Problem]:
    """Groups, KL, filtering, clipping, reward weights."""
    yield from _groups(config)
    yield from _kl(config)
    yield from _clipping(config)
    algorithm, reward = config.algorithm, config.worker.reward
    if algorithm.filter_low >= algorithm.filter_high:
        reason = f"must be below algorithm.filter_high {algorithm.filter_high}: no group would be kept"
        yield Problem("algorithm.filter_low", reason, algorithm.filter_low)
    total = reward.accuracy_weight + reward.format_weight
    if not math.isclose(total, 1.0, abs_tol=1e-6):
        reason = f"the weights must sum to 1: {reward.accuracy_weight} + {reward.format_weight} = {total:g}"
        yield Problem("worker.reward.format_weight", reason, reward.format_weight)


def _groups(config: TrainConfig) -> Iterator[Problem]:
    estimator, rollout = config.algorithm.adv_estimator, config.worker.rollout
    if estimator in _GROUP_ESTIMATORS and rollout.n < 2:
        reason = f"{estimator} compares the responses of one prompt and needs at least 2; set it to 2 or more"
        yield Problem("worker.rollout.n", reason, rollout.n)
    if rollout.temperature == 0.0 and rollout.n > 1:
        reason = f"all n={rollout.n} responses of a prompt would be equal; use a temperature above 0, such as 1.0"
        yield Problem("worker.rollout.temperature", reason, rollout.temperature)
    if rollout.mix_policy_accuracy_threshold is not None and not rollout.enable_mix_policy:
        reason = "has a value while worker.rollout.enable_mix_policy=false; set that to true, or this to null"
        yield Problem("worker.rollout.mix_policy_accuracy_threshold", reason, rollout.mix_policy_accuracy_threshold)


def _kl(config: TrainConfig) -> Iterator[Problem]:
    algorithm = config.algorithm
    if algorithm.disable_kl:
        return
    if algorithm.kl_coef == 0.0:
        reason = "KL is on with weight 0: the reference model would run for nothing; set algorithm.disable_kl=true"
        yield Problem("algorithm.kl_coef", reason, algorithm.kl_coef)
    if algorithm.use_kl_loss and algorithm.kl_type == "adaptive":
        reason = "steers the KL of the reward and cannot steer the loss; set it to fixed, or use_kl_loss=false"
        yield Problem("algorithm.kl_type", reason, algorithm.kl_type)


def _clipping(config: TrainConfig) -> Iterator[Problem]:
    actor = config.worker.actor
    if actor.clip_ratio_low >= 1.0:
        reason = f"the ratio would be clipped at {1 - actor.clip_ratio_low:g}, which no ratio reaches; use 0 to 1"
        yield Problem("worker.actor.clip_ratio_low", reason, actor.clip_ratio_low)
    if actor.clip_ratio_dual <= 1.0:
        reason = "must be above 1, else every response with a negative advantage loses its gradient; 3 is usual"
        yield Problem("worker.actor.clip_ratio_dual", reason, actor.clip_ratio_dual)


def run_problems(config: TrainConfig) -> Iterator[Problem]:
    """Schedule, validation, machines."""
    trainer, optim = config.trainer, config.worker.actor.optim
    steps = trainer.max_steps
    if steps is not None and optim.lr_warmup_steps is not None and optim.lr_warmup_steps >= steps:
        reason = f"the warm-up would last the whole run of trainer.max_steps {steps}; use fewer steps"
        yield Problem("worker.actor.optim.lr_warmup_steps", reason, optim.lr_warmup_steps)
    if not config.data.val_files:
        for path, wanted in (("trainer.val_only", trainer.val_only), ("trainer.val_freq", trainer.val_freq > 0)):
            if wanted:
                value = trainer.val_only if path == "trainer.val_only" else trainer.val_freq
                yield Problem(path, "there are no validation records; give data.val_files", value)
    if trainer.nnodes > 1 and trainer.ray_address is None:
        reason = "several machines need a running Ray cluster; give trainer.ray_address (auto on its head node)"
        yield Problem("trainer.nnodes", reason, trainer.nnodes)
