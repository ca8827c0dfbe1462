"""Split every rank's groups into micro-batches that all ranks run in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evr_core import pack_by_tokens
from evr_video import EncodedPrompt

__all__ = ["MicroBatch", "plan_micro_batches"]

KINDS = ("image", "video")


@dataclass(frozen=True)
class MicroBatch:
    """Groups of one forward pass (positions in the rank's batch; may be empty) and the dummy pictures it needs."""

    groups: tuple[int, ...]
    dummies: tuple[str, ...] = ()


def plan_micro_batches(
    prompts_per_rank: Sequence[Sequence[EncodedPrompt]],
    tokens_per_rank: Sequence[Sequence[int]],
    max_tokens: int,
) -> list[list[MicroBatch]]:
    """The micro-batches of every rank.

    FSDP2 gathers parameters in every forward pass, and those of the vision tower whenever it runs, so all ranks must
    run the same number of passes, and the tower for the same kinds of media in each. Ranks with fewer groups get empty
    micro-batches; where one rank has images or videos the others get a dummy of that kind.

    Args:
        prompts_per_rank: Prompts of each rank's groups.
        tokens_per_rank: Tokens of each rank's groups, prompts counted once.
        max_tokens: Most tokens of a micro-batch. A larger single group gets one of its own.
    """
    splits = [_split(tokens, max_tokens) for tokens in tokens_per_rank]
    count = max((len(split) for split in splits), default=0)
    plans: list[list[MicroBatch]] = [[] for _ in splits]
    for index in range(count):
        rows = [tuple(sorted(split[index])) if index < len(split) else () for split in splits]
        kinds = [_kinds(prompts, row) for prompts, row in zip(prompts_per_rank, rows, strict=True)]
        anywhere = set().union(*kinds)
        for plan, row, own in zip(plans, rows, kinds, strict=True):
            plan.append(MicroBatch(row, tuple(kind for kind in KINDS if kind in anywhere - own)))
    return plans


def _split(tokens: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Bins of groups within the limit, after the groups that exceed it alone; those must not raise it for others."""
    oversize = [[group] for group, size in enumerate(tokens) if size > max_tokens]
    rest = [group for group, size in enumerate(tokens) if size <= max_tokens]
    return oversize + [[rest[i] for i in part] for part in pack_by_tokens([tokens[g] for g in rest], max_tokens)]


def _kinds(prompts: Sequence[EncodedPrompt], groups: Sequence[int]) -> set[str]:
    return {handle.kind for group in groups for handle in prompts[group].media}
