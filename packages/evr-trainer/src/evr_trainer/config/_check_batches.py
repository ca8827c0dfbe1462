"""Do the batch sizes divide as the step needs them to? One problem per relation, with the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .errors import Problem
from .root import TrainConfig

_LARGEST_SEARCHED = 65_536


def batch_problems(config: TrainConfig) -> Iterator[Problem]:
    """Rollout, global, mini and micro batches against each other and the number of workers."""
    yield from _per_worker(config)
    yield from _global_batch(config)
    yield from _mini_rollout(config)
    yield from _micro_batch(config)
    yield from _lengths(config)


def _per_worker(config: TrainConfig) -> Iterator[Problem]:
    workers = config.trainer.n_workers
    sizes = {
        "data.rollout_batch_size": config.data.rollout_batch_size,
        "data.mini_rollout_batch_size": config.data.mini_rollout_batch_size,
        "worker.actor.global_batch_size": config.worker.actor.global_batch_size,
    }
    for path, size in sizes.items():
        if size is not None and size % workers:
            reason = (
                f"{size} prompts do not divide over {workers} workers "
                f"(trainer.nnodes {config.trainer.nnodes} x trainer.n_gpus_per_node {config.trainer.n_gpus_per_node}); "
                f"use a multiple of {workers} such as {_nearest_multiple(size, workers)}, or change the workers"
            )
            yield Problem(path, reason, size)


def _global_batch(config: TrainConfig) -> Iterator[Problem]:
    rollout, update = config.data.rollout_batch_size, config.worker.actor.global_batch_size
    if rollout % update:
        near = _near_divisor(rollout, update, config.trainer.n_workers)
        reason = (
            f"data.rollout_batch_size {rollout} prompts do not divide into updates of {update} prompts (both count "
            f"prompts, each with its n={config.worker.rollout.n} responses); use a divisor of {rollout} such as {near}"
        )
        yield Problem("worker.actor.global_batch_size", reason, update)


def _mini_rollout(config: TrainConfig) -> Iterator[Problem]:
    rollout, mini = config.data.rollout_batch_size, config.data.mini_rollout_batch_size
    if mini is not None and rollout % mini:
        reason = f"data.rollout_batch_size {rollout} is not a multiple of {mini}; use a divisor of it, or null"
        yield Problem("data.mini_rollout_batch_size", reason, mini)


def _micro_batch(config: TrainConfig) -> Iterator[Problem]:
    actor, workers, n = config.worker.actor, config.trainer.n_workers, config.worker.rollout.n
    if actor.dynamic_batching:
        limit = actor.max_token_len_per_gpu
        if limit is not None and limit < config.max_sequence_length:
            reason = (
                f"a micro-batch of {limit} tokens cannot hold one sequence of {config.max_sequence_length} "
                f"(data.max_prompt_length {config.data.max_prompt_length} + data.max_response_length "
                f"{config.data.max_response_length}); raise it to at least {config.max_sequence_length}, or set it "
                "to null"
            )
            yield Problem("worker.actor.max_token_len_per_gpu", reason, limit)
        return
    responses, micro = actor.global_batch_size * n // workers, actor.micro_batch_size_per_device_for_update
    if actor.global_batch_size % workers == 0 and responses % micro:
        reason = (
            f"each worker updates on {responses} responses (global_batch_size {actor.global_batch_size} x n {n} / "
            f"{workers} workers), which {micro} does not divide; use a divisor of {responses}, "
            "or worker.actor.dynamic_batching=true"
        )
        yield Problem("worker.actor.micro_batch_size_per_device_for_update", reason, micro)


def _lengths(config: TrainConfig) -> Iterator[Problem]:
    rollout, longest = config.worker.rollout, config.max_sequence_length
    if rollout.name != "vllm":
        return
    if rollout.max_model_len is not None and rollout.max_model_len < longest:
        reason = (
            f"the engine cannot hold a prompt with its response: data.max_prompt_length {config.data.max_prompt_length}"
            f" + data.max_response_length {config.data.max_response_length} = {longest}; raise it to that, or set it "
            "to null"
        )
        yield Problem("worker.rollout.max_model_len", reason, rollout.max_model_len)
    if not rollout.enable_chunked_prefill and rollout.max_num_batched_tokens < config.max_model_len:
        reason = (
            f"without chunked prefill the engine computes a whole sequence of up to {config.max_model_len} tokens at a "
            f"time; raise it to at least {config.max_model_len}, or set worker.rollout.enable_chunked_prefill=true"
        )
        yield Problem("worker.rollout.max_num_batched_tokens", reason, rollout.max_num_batched_tokens)
    if config.trainer.n_gpus_per_node % rollout.tensor_parallel_size:
        reason = (
            f"trainer.n_gpus_per_node {config.trainer.n_gpus_per_node} workers do not divide into engines of "
            f"{rollout.tensor_parallel_size}; use a divisor of {config.trainer.n_gpus_per_node}"
        )
        yield Problem("worker.rollout.tensor_parallel_size", reason, rollout.tensor_parallel_size)


def _near_divisor(whole: int, size: int, factor: int) -> int:
    """The divisor of ``whole`` nearest to ``size`` that is a multiple of ``factor``; any divisor if there is none."""
    multiples = range(factor, min(whole, _LARGEST_SEARCHED) + 1, factor)
    divisors = [multiple for multiple in multiples if whole % multiple == 0]
    return min(divisors, key=lambda divisor: abs(divisor - size), default=math.gcd(whole, size))


def _nearest_multiple(size: int, factor: int) -> int:
    return max(factor, (size + factor // 2) // factor * factor)
