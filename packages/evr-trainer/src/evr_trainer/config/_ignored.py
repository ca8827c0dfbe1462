"""Keys that load and have no effect: said once, visibly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ._base import Section
from ._schema import given_paths, value_at
from .root import TrainConfig


@dataclass(frozen=True)
class Ignored:
    """A key whose value changes nothing when ``when`` holds."""

    path: str
    reason: str
    when: Callable[[TrainConfig], bool] = lambda config: True


_PACKED = "sequences are always packed without padding"
_OWN_PROGRESS = "the trainer shows its own progress"
_ON_CPU = "has no effect on CPU"
_NO_FILTER = "has no effect while algorithm.online_filtering=false"


def _discounts(config: TrainConfig) -> bool:
    return config.algorithm.adv_estimator in ("gae", "reinforce_plus_plus")


IGNORED: tuple[Ignored, ...] = (
    Ignored("data.use_preprocessed_videos", "deprecated; data.video_source_mode decides"),
    Ignored("worker.hybrid_engine", "policy and rollout engine always share their devices"),
    Ignored("worker.actor.padding_free", _PACKED),
    Ignored("worker.ref.padding_free", _PACKED),
    Ignored("worker.critic.padding_free", _PACKED),
    Ignored("worker.actor.fsdp.use_orig_params", "FSDP2 always keeps the original parameters"),
    Ignored("worker.ref.fsdp.use_orig_params", "FSDP2 always keeps the original parameters"),
    Ignored("worker.critic.fsdp.use_orig_params", "FSDP2 always keeps the original parameters"),
    Ignored("worker.rollout.disable_tqdm", _OWN_PROGRESS),
    Ignored("worker.rollout.disable_log_stats", "engine statistics are part of the step's metrics"),
    Ignored("worker.actor.use_torch_compile", "nothing is compiled in this version"),
    Ignored("worker.ref.use_torch_compile", "nothing is compiled in this version"),
    Ignored("worker.actor.fsdp.enable_rank0_init", "every worker reads the weights itself"),
    Ignored("worker.actor.fsdp.mp_buffer_dtype", "FSDP2 keeps buffers in their own type"),
    Ignored("data.filter_overlong_prompts_workers", "one process measures prompt lengths"),
    Ignored("trainer.seed", "data.seed and worker.rollout.seed decide; nothing else is random"),
    Ignored("algorithm.gamma", "only gae and reinforce_plus_plus discount", lambda c: not _discounts(c)),
    Ignored("algorithm.lam", "only gae uses it", lambda c: c.algorithm.adv_estimator != "gae"),
    Ignored("algorithm.gdpo_reward_keys", "only gdpo uses it", lambda c: c.algorithm.adv_estimator != "gdpo"),
    Ignored("trainer.max_try_make_batch", _NO_FILTER, lambda c: not c.algorithm.online_filtering),
    Ignored("worker.actor.offload.offload_params", _ON_CPU, lambda c: c.trainer.device == "cpu"),
    Ignored("worker.actor.offload.offload_optimizer", _ON_CPU, lambda c: c.trainer.device == "cpu"),
    Ignored(
        "algorithm.use_kl_loss",
        "has no effect while algorithm.disable_kl=true",
        lambda c: c.algorithm.disable_kl and c.algorithm.use_kl_loss,
    ),
    Ignored(
        "worker.actor.optim.lr_warmup_ratio",
        "worker.actor.optim.lr_warmup_steps decides",
        lambda c: c.worker.actor.optim.lr_warmup_steps is not None,
    ),
    Ignored(
        "worker.actor.optim.min_lr_ratio",
        "has no effect with the constant schedule",
        lambda c: c.worker.actor.optim.lr_scheduler_type == "constant",
    ),
    Ignored(
        "worker.actor.max_token_len_per_gpu",
        "has no effect while worker.actor.dynamic_batching=false",
        lambda c: not c.worker.actor.dynamic_batching,
    ),
    Ignored(
        "worker.rollout.tensor_parallel_size",
        "the transformers engine uses one device",
        lambda c: c.worker.rollout.name == "transformers" and c.worker.rollout.tensor_parallel_size > 1,
    ),
    Ignored("trainer.total_epochs", "trainer.max_steps decides", lambda c: c.trainer.max_steps is not None),
)

_VLLM_ONLY = (
    "gpu_memory_utilization",
    "enforce_eager",
    "enable_chunked_prefill",
    "max_num_batched_tokens",
    "max_model_len",
)


_NOT_IN_SFT = (
    "rollout_batch_size",
    "mini_rollout_batch_size",
    "val_files",
    "val_batch_size",
    "val_video_fps",
    "val_video_max_frames",
    "val_video_min_pixels",
    "val_video_max_pixels",
    "val_video_total_pixels",
    "val_preprocessed_video_dir",
)


def config_warnings(config: Section) -> tuple[str, ...]:
    """One line for each key that the user gave and that changes nothing."""
    return _train_warnings(config) if isinstance(config, TrainConfig) else _sft_warnings(config)


def _sft_warnings(config: Section) -> tuple[str, ...]:
    given = list(given_paths(config))
    paths = [f"data.{name}" for name in _NOT_IN_SFT]
    lines = [f"{path} is ignored: supervised fine-tuning does not use it" for path in paths if path in given]
    for item in IGNORED:
        path = item.path.removeprefix("worker.actor.")
        if path in given and path.startswith(("data.", "fsdp.", "trainer.seed")):
            lines.append(f"{path} is ignored: {item.reason}")
    return tuple(lines)


def _train_warnings(config: TrainConfig) -> tuple[str, ...]:
    given = list(given_paths(config))
    lines = [
        f"{item.path}={value_at(config, item.path)!r} is ignored: {item.reason}"
        for item in IGNORED
        if item.path in given and value_at(config, item.path) is not None and item.when(config)
    ]
    if config.worker.rollout.name == "transformers":
        unused = [name for name in _VLLM_ONLY if f"worker.rollout.{name}" in given]
        if unused:
            lines.append(f"worker.rollout.name=transformers ignores what only vllm uses: {', '.join(unused)}")
    if not config.algorithm.uses_reference and any(path.startswith("worker.ref.") for path in given):
        lines.append("worker.ref is ignored: no reference model is loaded while algorithm.disable_kl=true")
    filters = [name for name in ("filter_key", "filter_low", "filter_high") if f"algorithm.{name}" in given]
    if filters and not config.algorithm.online_filtering:
        lines.append(f"algorithm.online_filtering=false ignores {', '.join(filters)}")
    if config.algorithm.adv_estimator != "gae" and any(path.startswith("worker.critic.") for path in given):
        lines.append("worker.critic is ignored: only algorithm.adv_estimator=gae trains a critic")
    return tuple(lines)
