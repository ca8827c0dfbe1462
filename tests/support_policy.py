"""Training batches over the scene's prompts, and the gradient that separate sequences give, computed the slow way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from evr_trainer.carriers import RolloutBatch, TrainBatch
from evr_trainer.losses import ClipRange
from evr_trainer.metrics import MetricSums
from evr_trainer.policy.micro import MicroBatch, plan_micro_batches
from evr_trainer.policy.model import load_model
from evr_trainer.policy.objective import Objective, PolicyGradient
from evr_trainer.policy.policy import Policy, Sampling
from evr_trainer.rollout import Response
from evr_video import EncodedPrompt
from support_rank_jobs import Share
from support_rollout import Scene

TEXT, IMAGE, VIDEO, MIXED = range(4)
LENGTHS = ((5, 0, 9), (7, 3, 4), (1, 6, 2), (8, 8, 3))  # by kind of prompt; unequal, one response empty
CLIP = ClipRange(low=0.2, high=0.3, dual=3.0)


def make_batch(scene: Scene, kinds: Sequence[int] = (TEXT, IMAGE, VIDEO, MIXED), seed: int = 0) -> TrainBatch:
    """Random responses and advantages; old and reference log-probs a way off the model's, so that every bound decides
    somewhere.
    """
    noise = torch.Generator().manual_seed(seed)
    allowed = torch.tensor(sorted(set(range(scene.model.config.text_config.vocab_size)) - set(scene.forbidden)))
    groups = []
    for kind in kinds:
        responses = []
        for length in LENGTHS[kind]:
            ids = allowed[torch.randint(len(allowed), (length,), generator=noise)].tolist()
            log_probs = scene.log_probs(scene.prompts[kind], ids).tolist() if ids else []
            responses.append(Response(tuple(ids), tuple(log_probs), "length"))
        groups.append(responses)
    return _with_training_tensors([scene.prompts[kind] for kind in kinds], groups, noise)


def _with_training_tensors(
    prompts: Sequence[EncodedPrompt], groups: Sequence[Sequence[Response]], noise: torch.Generator
) -> TrainBatch:
    rollouts = RolloutBatch.of(prompts, groups, n=3)
    mask, true = rollouts.response_mask, rollouts["rollout_log_probs"]

    def near(scale: float) -> Tensor:
        return (true + scale * torch.randn(true.shape, generator=noise)) * mask

    advantages = torch.randn(len(prompts), 3, 1, generator=noise) * mask
    tensors = rollouts.union(advantages=advantages, old_log_probs=near(0.5), ref_log_probs=near(0.5)).tensors
    return TrainBatch(rollouts.prompts, tensors)


def objective_for(batch: TrainBatch, *, avg_mode: str = "token", kl_coef: float = 0.1) -> PolicyGradient:
    """The clipped objective with KL over the whole of ``batch``."""
    lengths = batch["response_lengths"]
    return PolicyGradient(
        total_tokens=int(lengths.sum()),
        total_responses=int((lengths > 0).sum()),
        avg_mode=avg_mode,
        clip=CLIP,
        kl_coef=kl_coef,
    )


def make_share(batches: Sequence[TrainBatch], max_tokens: int, *, avg_mode: str = "token") -> Share:
    """The update of these ranks' batches together, in micro-batches of at most ``max_tokens`` tokens."""
    plans = plan_micro_batches(
        [batch.prompts for batch in batches], [batch.group_tokens() for batch in batches], max_tokens
    )
    return Share(batches, plans, objective_for(TrainBatch.concat(batches), avg_mode=avg_mode))


def make_policy(
    scene: Scene, *, temperature: float = 1.0, forbid: bool = True, optimizer: Callable[..., Any] | None = None
) -> Policy:
    """An unsharded policy with the scene's weights."""
    model = load_model(scene.model_path, dtype=torch.float32, device=torch.device("cpu"))
    sampling = Sampling(temperature, tuple(scene.forbidden) if forbid else ())
    made = torch.optim.SGD(model.parameters(), lr=0.0) if optimizer is None else optimizer(model)
    return Policy(model, scene.processor, sampling=sampling, optimizer=made)


def gradients_of_update(
    policy: Policy, batch: TrainBatch, micro_batches: Sequence[MicroBatch], objective: Objective
) -> tuple[dict[str, Tensor], MetricSums]:
    """What the optimizer is given in an update with learning rate 0, so that the weights stay."""
    seen: dict[str, Tensor] = {}

    def read(*_: Any) -> None:
        for name, parameter in policy.model.named_parameters():
            if parameter.grad is not None:
                seen[name] = parameter.grad.clone()

    assert policy.optimizer is not None
    hook = policy.optimizer.register_step_pre_hook(read)
    try:
        metrics = policy.update(batch, micro_batches, objective, lr=0.0, max_grad_norm=1e9)
    finally:
        hook.remove()
    return seen, metrics


def separate_log_probs(
    scene: Scene, model: nn.Module, prompt: EncodedPrompt, response: Tensor, temperature: float = 1.0
) -> Tensor:
    """Log-probs with gradient of one response [R], from one sequence with inputs of transformers' own processor."""
    inputs = dict(scene.inputs(prompt))
    start = inputs["input_ids"].shape[1]
    inputs["input_ids"] = torch.cat([inputs["input_ids"], response[None]], 1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    kinds = inputs["mm_token_type_ids"]
    inputs["mm_token_type_ids"] = torch.cat([kinds, torch.zeros(1, len(response), dtype=kinds.dtype)], 1)
    logits = model(**inputs).logits[0, start - 1 : -1]
    allowed = torch.ones(logits.shape[-1], dtype=torch.bool)
    allowed[scene.forbidden] = False
    scaled = logits / temperature
    normaliser = scaled[:, allowed].logsumexp(-1)
    return scaled[torch.arange(len(response)), response] - normaliser


def separate_gradients(
    scene: Scene, model: nn.Module, batch: TrainBatch, *, avg_mode: str, kl_coef: float, temperature: float = 1.0
) -> dict[str, Tensor]:
    """Gradient of the objective when every response is a sequence of its own and every token is worked out alone."""
    sequences: list[list[Tensor]] = []
    for g, prompt in enumerate(batch.prompts):
        for i, length in enumerate(batch["response_lengths"][g].tolist()):
            if length:
                response = batch["response_ids"][g, i, :length]
                log_probs = separate_log_probs(scene, model, prompt, response, temperature)
                sequences.append([_token_loss(log_probs[t], batch, (g, i, t), kl_coef) for t in range(length)])
    if avg_mode == "token":
        loss = torch.stack([loss for sequence in sequences for loss in sequence]).mean()
    else:
        loss = torch.stack([torch.stack(sequence).mean() for sequence in sequences]).mean()
    model.zero_grad(set_to_none=True)
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _token_loss(log_prob: Tensor, batch: TrainBatch, where: tuple[int, int, int], kl_coef: float) -> Tensor:
    """Clip-higher, dual clip and k3, written out for one token."""
    old, ref, advantage = (float(batch[name][where]) for name in ("old_log_probs", "ref_log_probs", "advantages"))
    ratio = (log_prob - old).exp()
    loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.3) * advantage)
    if advantage < 0 and float(loss.detach()) > -3.0 * advantage:
        loss = torch.tensor(-3.0 * advantage)
    difference = ref - log_prob
    return loss + kl_coef * (difference.exp() - difference - 1)


def relative_difference(found: dict[str, Tensor], expected: dict[str, Tensor], part: str = "") -> float:
    """Norm of the difference over the norm of what is expected, over all parameters whose name holds ``part``."""
    names = [name for name in sorted(set(found) | set(expected)) if part in name]
    zero = torch.zeros(())
    off = sum(float((found.get(n, zero) - expected.get(n, zero)).double().square().sum()) for n in names)
    size = sum(float(expected[n].double().square().sum()) for n in names if n in expected)
    return (off / size) ** 0.5


def largest(gradients: dict[str, Tensor]) -> float:
    """The largest absolute element of all."""
    return max(float(gradient.abs().max()) for gradient in gradients.values())
