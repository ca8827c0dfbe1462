"""Values that the schema knows and this version does not carry out. Delete a line when its value works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ._schema import given_paths, value_at
from .errors import Problem
from .policy import ModelConfig
from .root import TrainConfig


@dataclass(frozen=True)
class NotYet:
    """``path`` is refused for values where ``refused`` holds; ``available`` says what works instead.

    ``when`` limits the refusal to configurations in which the key matters at all.
    """

    path: str
    refused: Callable[[object], bool]
    available: str
    when: Callable[[TrainConfig], bool] = lambda config: True


def _is_not(*values: object) -> Callable[[object], bool]:
    return lambda value: value not in values


def _is(*values: object) -> Callable[[object], bool]:
    return lambda value: value in values


def _kl_on(config: TrainConfig) -> bool:
    return config.algorithm.uses_reference


def _vllm(config: TrainConfig) -> bool:
    return config.worker.rollout.name == "vllm"


def _on_cuda(config: TrainConfig) -> bool:
    return config.trainer.device != "cpu"


_ONLY_CACHE = "null; evr preprocess fills data.cache_dir, which takes its place"
_OFFLOAD = "false; worker.actor.fsdp.enable_cpu_offload=true keeps both in host memory"
_VAL = "worker.rollout.val_override_config"

NOT_YET: tuple[NotYet, ...] = (
    NotYet("algorithm.adv_estimator", _is_not("grpo"), "grpo"),
    NotYet("algorithm.kl_penalty", _is("full"), "kl, abs, mse, low_var_kl", _kl_on),
    NotYet("algorithm.online_filtering", _is(True), "false"),
    NotYet("data.video_source_mode", _is_not("prefer_preprocessed"), "prefer_preprocessed"),
    NotYet("data.preprocessed_video_dir", _is_not(None), _ONLY_CACHE),
    NotYet("data.val_preprocessed_video_dir", _is_not(None), _ONLY_CACHE),
    NotYet("worker.actor.loss_type", _is_not("default"), "default"),
    NotYet("worker.actor.ulysses_size", _is_not(1), "1"),
    NotYet("worker.actor.optim.strategy", _is_not("adamw"), "adamw"),
    NotYet("worker.actor.model.override_config", bool, "an empty mapping; change the model's config.json"),
    NotYet("worker.actor.fsdp.fsdp_size", _is_not(-1), "-1, all workers"),
    NotYet("worker.actor.offload.offload_params", _is(True), _OFFLOAD, _on_cuda),
    NotYet("worker.actor.offload.offload_optimizer", _is(True), _OFFLOAD, _on_cuda),
    NotYet("worker.rollout.tensor_parallel_size", _is_not(1), "1", _vllm),
    NotYet("worker.rollout.enable_mix_policy", _is(True), "false"),
    NotYet(f"{_VAL}.repetition_penalty", _is_not(None, 1.0), "null, 1.0"),
    NotYet(f"{_VAL}.presence_penalty", _is_not(None, 0.0), "null, 0.0"),
    NotYet(f"{_VAL}.frequency_penalty", _is_not(None, 0.0), "null, 0.0"),
    NotYet("trainer.critic_warmup", _is_not(0), "0; no estimator of this version trains a critic"),
    NotYet("trainer.val_generations_to_log", _is_not(0), "0; the first group of every training step is logged"),
    NotYet("trainer.ray_timeline", _is_not(None), "null"),
    NotYet("trainer.nnodes", _is_not(1), "1"),
)

_LOGGERS = ("console", "file", "tensorboard")


def not_yet_problems(config: TrainConfig) -> Iterator[Problem]:
    """One problem for each value that this version does not carry out."""
    for item in NOT_YET:
        value = value_at(config, item.path)
        if item.when(config) and item.refused(value):
            yield unavailable(item.path, value, item.available)
    yield from _reference_problems(config)
    yield from logger_problems(config.trainer.logger)
    yield from remote_code_problems(config.worker.actor.model, "worker.actor.model")
    yield from remote_code_problems(config.worker.critic.model, "worker.critic.model")


def _reference_problems(config: TrainConfig) -> Iterator[Problem]:
    """The reference is built like the actor: a value of its own is refused."""
    given = given_paths(config.worker.ref) if config.algorithm.uses_reference else ()
    for path in given:
        own, actors = value_at(config.worker.ref, path), value_at(config.worker.actor, path)
        if own is not None and own != actors and path not in ("padding_free", "use_torch_compile"):
            available = f"the actor's value, {actors!r}, or none at all"
            yield unavailable(f"worker.ref.{path}", own, available)


def logger_problems(loggers: Iterable[str]) -> Iterator[Problem]:
    """Loggers that this version cannot write to."""
    for name in loggers:
        if name not in _LOGGERS:
            yield unavailable("trainer.logger", name, ", ".join(_LOGGERS))


def remote_code_problems(model: ModelConfig, section: str) -> Iterator[Problem]:
    """Remote code is refused for good, not for now."""
    if model.trust_remote_code:
        reason = "code from a model folder is never run: it could do anything on this machine; set it to false"
        yield Problem(f"{section}.trust_remote_code", reason, True)


def unavailable(path: str, value: object, available: str) -> Problem:
    """The problem of a value that this version does not carry out."""
    return Problem(path, f"is not available in this version; available: {available}", value)
