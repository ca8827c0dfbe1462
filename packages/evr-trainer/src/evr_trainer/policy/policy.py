"""The policy: a sharded model that knows the log-probs of responses and how to improve on them.

It knows nothing of rollouts, rewards or Ray. Shapes as in ``packing``: T response tokens of a micro-batch;
G, n, R as in ``carriers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from evr_trainer.carriers import ResponseBatch
from evr_trainer.metrics import MetricSums
from evr_trainer.policy.micro import MicroBatch
from evr_trainer.policy.objective import Objective, TokenView
from evr_trainer.policy.packing import DUMMY_GRID, Pack, PackedGroup, pack_groups
from evr_video import visual_inputs

__all__ = ["Policy", "Sampling"]


@dataclass(frozen=True)
class Sampling:
    """What shapes the distribution that responses are drawn from, so that log-probs are those of the rollout."""

    temperature: float = 1.0
    forbidden_token_ids: tuple[int, ...] = ()


class Policy:
    """A model (FSDP2-sharded or not) with its processor and, unless frozen, its optimizer.

    Args:
        model: A Qwen-VL model for conditional generation.
        processor: Its Hugging Face processor; makes pixel values of cached frames.
        sampling: Temperature and forbidden tokens of the rollout.
        optimizer: None for a reference model.
        world_size: Ranks over which gradients are averaged.
    """

    def __init__(
        self,
        model: nn.Module,
        processor: Any,
        *,
        sampling: Sampling,
        optimizer: torch.optim.Optimizer | None = None,
        world_size: int = 1,
    ) -> None:
        self.model = model
        self.processor = processor
        self.sampling = sampling
        self.optimizer = optimizer
        self.world_size = world_size
        self.device = next(model.parameters()).device
        config: Any = model.config
        self._placeholder_ids = {"image": int(config.image_token_id), "video": int(config.video_token_id)}
        vision = config.vision_config
        self._patch_values = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2

    @torch.no_grad()
    def log_probs(self, batch: ResponseBatch, micro_batches: Sequence[MicroBatch], *, stage: str) -> Tensor:
        """Log-prob of every response token. [G, n, R], zero behind a response's end."""
        result = torch.zeros(batch["response_ids"].shape)
        mask = batch.response_mask
        for micro in micro_batches:
            log_probs, _ = self._forward(self._pack(batch, micro, stage))
            if micro.groups:
                rows = list(micro.groups)
                part = torch.zeros(result[rows].shape)
                part[mask[rows]] = log_probs.float().cpu()
                result[rows] = part
        return result

    def update(
        self,
        batch: ResponseBatch,
        micro_batches: Sequence[MicroBatch],
        objective: Objective,
        *,
        lr: float,
        max_grad_norm: float,
    ) -> MetricSums:
        """One optimizer step on this rank's share of the batch; a collective over all ranks.

        A gradient that is not finite is not applied; ``actor/skipped_updates`` is then 1.
        """
        if self.optimizer is None:
            raise ValueError("a policy without optimizer (a reference model) cannot be updated")
        metrics = MetricSums()
        self.optimizer.zero_grad(set_to_none=True)
        for micro in micro_batches:
            pack = self._pack(batch, micro, "update")
            log_probs, entropy = self._forward(pack)
            tokens = self._token_view(batch, micro, pack, log_probs, entropy)
            loss = objective(tokens, metrics)
            # FSDP averages gradients over the ranks, the objective sums over them.
            (loss * self.world_size).backward()
            _measure_mismatch(tokens, metrics)
        self._apply(metrics, lr, max_grad_norm)
        return metrics

    def _apply(self, metrics: MetricSums, lr: float, max_grad_norm: float) -> None:
        assert self.optimizer is not None
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), max_grad_norm)
        grad_norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
        finite = grad_norm == grad_norm and grad_norm not in (float("inf"), float("-inf"))
        metrics.add_max("actor/grad_norm", grad_norm)
        metrics.add_max("actor/skipped_updates", 0.0 if finite else 1.0)
        metrics.add_max("actor/lr", lr)
        if finite:
            for group in self.optimizer.param_groups:
                group["lr"] = lr
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _pack(self, batch: ResponseBatch, micro: MicroBatch, stage: str) -> Pack:
        """The micro-batch's row; every prompt's media contract is checked first."""
        groups = []
        for g in micro.groups:
            prompt = batch.prompts[g]
            prompt.check(stage)
            lengths = batch["response_lengths"][g].tolist()
            responses = [batch["response_ids"][g, i, :length] for i, length in enumerate(lengths)]
            groups.append(PackedGroup(prompt, responses))
        return pack_groups(groups, self._placeholder_ids, dummies=micro.dummies)

    def _forward(self, pack: Pack) -> tuple[Tensor, Tensor]:
        """Log-prob of each response token and the entropy of its distribution. [T], [T]"""
        logits = self.model(
            input_ids=pack.input_ids.to(self.device),
            position_ids=pack.position_ids.to(self.device),
            attention_mask=pack.attention_mask.to(self.device),
            logits_to_keep=pack.source_positions.to(self.device),
            use_cache=False,
            **self._pixels(pack),
        ).logits[0]
        logits = logits.float() / (self.sampling.temperature or 1.0)  # [T, V]
        if self.sampling.forbidden_token_ids:
            logits[:, list(self.sampling.forbidden_token_ids)] = torch.finfo(logits.dtype).min
        distribution = logits.log_softmax(dim=-1)
        log_probs = distribution.gather(-1, pack.target_ids.to(self.device).unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            entropy = -(distribution.exp() * distribution.clamp(min=-1e4)).sum(dim=-1)
        return log_probs, entropy

    def _pixels(self, pack: Pack) -> dict[str, Tensor]:
        """Pixel values and grids of the row's media, dummies last."""
        inputs = dict(visual_inputs(pack.media, self.processor)) if pack.media else {}
        for kind in pack.dummies:
            pixels, grid = ("pixel_values", "image_grid_thw") if kind == "image" else _VIDEO_KEYS
            inputs[pixels] = torch.zeros(DUMMY_GRID[0] * DUMMY_GRID[1] * DUMMY_GRID[2], self._patch_values)
            inputs[grid] = torch.tensor([DUMMY_GRID])
        return {name: tensor.to(self.device) for name, tensor in inputs.items()}

    def _token_view(
        self, batch: ResponseBatch, micro: MicroBatch, pack: Pack, log_probs: Tensor, entropy: Tensor
    ) -> TokenView:
        rows = list(micro.groups)
        mask = batch.response_mask[rows]

        def flat(name: str) -> Tensor | None:
            return batch[name][rows][mask].to(self.device) if batch.has(name) else None

        return TokenView(
            log_probs=log_probs,
            entropy=entropy,
            response_lengths=pack.response_lengths.to(self.device),
            rollout_log_probs=flat("rollout_log_probs"),
            old_log_probs=flat("old_log_probs"),
            ref_log_probs=flat("ref_log_probs"),
            advantages=flat("advantages"),
        )


_VIDEO_KEYS = ("pixel_values_videos", "video_grid_thw")


def _measure_mismatch(tokens: TokenView, metrics: MetricSums) -> None:
    """How far the rollout engine's log-probs are from the policy's, where the policy is still the one that rolled out.

    With old log-probs in the batch the comparison is theirs, whatever updates came since.
    """
    if tokens.rollout_log_probs is None:
        return
    reference = tokens.log_probs.detach() if tokens.old_log_probs is None else tokens.old_log_probs
    difference = (reference - tokens.rollout_log_probs).abs()
    metrics.add_mean("mismatch/mean", difference)
    if difference.numel():
        metrics.add_max("mismatch/max", float(difference.max()))
