"""What travels between the phases of a training step.

The unit is the **group**: one prompt and its ``n`` responses. Every carrier holds G groups, so that whatever splits,
reorders or selects rows can never tear a group apart.

    PromptBatch  --rollout-->  RolloutBatch  --reward, advantage-->  TrainBatch

Shapes: G groups, n responses of one prompt, R the longest response of the batch (shorter ones are padded on the right;
``response_lengths`` says where). No frames: prompts hold handles into the frame cache.

    >>> batch = PromptBatch.of(prompts, seeds)          # G = 16
    >>> rollouts = RolloutBatch.of(batch, responses)    # response_ids [16, 8, R]
    >>> left, right = rollouts.chunk(2)                 # 8 groups each
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self

import torch
from tensordict import TensorDict
from torch import Tensor

from evr_trainer.rollout import Response
from evr_video import EncodedPrompt

__all__ = ["GroupBatch", "PromptBatch", "ResponseBatch", "RolloutBatch", "TrainBatch"]

_PER_RESPONSE = ("response_lengths", "truncated")  # [G, n]
_PER_TOKEN = ("response_ids", "rollout_log_probs", "advantages", "old_log_probs", "ref_log_probs")  # [G, n, R]


@dataclass(frozen=True)
class GroupBatch:
    """G prompts with tensors whose first dimension is G.

    Raises:
        ValueError: When prompts and tensors disagree about G or a required tensor is missing.
    """

    prompts: tuple[EncodedPrompt, ...]
    tensors: TensorDict  # batch_size [G]

    required: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if tuple(self.tensors.batch_size) != (len(self.prompts),):
            raise ValueError(f"{len(self.prompts)} prompts but tensors of batch size {tuple(self.tensors.batch_size)}")
        missing = sorted(set(self.required) - self.names)
        if missing:
            raise ValueError(f"{type(self).__name__} needs the tensors {missing}; it has {sorted(self.names)}")

    def __len__(self) -> int:
        return len(self.prompts)

    def __getitem__(self, name: str) -> Tensor:
        value = self.tensors[name]
        assert isinstance(value, Tensor)
        return value

    @property
    def names(self) -> set[str]:
        """Names of the tensors."""
        return {str(name) for name in self.tensors.keys()}  # noqa: SIM118 - a TensorDict iterates over rows

    def has(self, name: str) -> bool:
        """Whether the tensor ``name`` is there."""
        return name in self.names

    def select(self, groups: Sequence[int]) -> Self:
        """The groups at these positions, in this order; positions may repeat."""
        index = torch.as_tensor(list(groups), dtype=torch.long)
        return type(self)(tuple(self.prompts[i] for i in groups), self.tensors[index])

    def chunk(self, num_chunks: int) -> list[Self]:
        """``num_chunks`` batches of as nearly equal numbers of groups as possible, in order; some may be empty."""
        if num_chunks < 1:
            raise ValueError(f"num_chunks is {num_chunks}; it must be at least 1")
        bounds = [len(self) * i // num_chunks for i in range(num_chunks + 1)]
        return [self.select(range(lo, hi)) for lo, hi in pairwise(bounds)]

    def repeat(self, times: int) -> Self:
        """Every group ``times`` times, copies side by side."""
        return self.select([i for i in range(len(self)) for _ in range(times)])

    def union(self, **tensors: Tensor) -> Self:
        """This batch with more tensors [G, ...].

        Raises:
            ValueError: When a name is taken already.
        """
        taken = sorted(set(tensors) & self.names)
        if taken:
            raise ValueError(f"tensors {taken} are there already")
        return type(self)(self.prompts, TensorDict({**dict(self.tensors.items()), **tensors}, [len(self)]))

    @classmethod
    def concat(cls, batches: Iterable[Self]) -> Self:
        """All groups of the batches in order; tensors are padded with zeros to the longest last dimension.

        Raises:
            ValueError: When there are no batches, or they hold different tensors.
        """
        parts = list(batches)
        if not parts:
            raise ValueError("there are no batches to concatenate; even an empty batch says which tensors it holds")
        odd = sorted(set().union(*(set(part.names) ^ set(parts[0].names) for part in parts)))
        if odd:
            raise ValueError(f"the batches hold different tensors: {odd} are in some and not in others")
        joined = {name: _pad_concat([part[name] for part in parts]) for name in sorted(parts[0].names)}
        prompts = tuple(prompt for part in parts for prompt in part.prompts)
        return cls(prompts, TensorDict(joined, [len(prompts)]))


@dataclass(frozen=True)
class PromptBatch(GroupBatch):
    """Prompts that wait for responses: ``seeds`` int64 [G], one rollout seed a prompt."""

    required: ClassVar[tuple[str, ...]] = ("seeds",)

    @classmethod
    def of(cls, prompts: Sequence[EncodedPrompt], seeds: Sequence[int]) -> PromptBatch:
        """From prompts and their rollout seeds (0 <= seed < 2**63)."""
        if len(prompts) != len(seeds):
            raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds; give one seed a prompt")
        return cls(tuple(prompts), TensorDict({"seeds": torch.tensor(list(seeds), dtype=torch.int64)}, [len(prompts)]))


@dataclass(frozen=True)
class ResponseBatch(GroupBatch):
    """Prompts with responses: ``response_ids`` int64 [G, n, R], ``response_lengths`` int64 [G, n].

    Raises:
        ValueError: Also when a tensor has another shape than its field says, or a length is not within [0, R].
    """

    required: ClassVar[tuple[str, ...]] = ("response_ids", "response_lengths")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self["response_ids"].ndim != 3:
            raise ValueError(f"response_ids has shape {list(self['response_ids'].shape)}; it must be [G, n, R]")
        groups, n, longest = self["response_ids"].shape
        shapes: dict[str, tuple[int, ...]] = {
            **dict.fromkeys(_PER_RESPONSE, (groups, n)),
            **dict.fromkeys(_PER_TOKEN, (groups, n, longest)),
        }
        for name, shape in shapes.items():
            if self.has(name) and tuple(self[name].shape) != shape:
                raise ValueError(
                    f"{name} has shape {list(self[name].shape)}; beside response_ids it must be {list(shape)}"
                )
        lengths = self["response_lengths"]
        if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= longest:
            raise ValueError(
                f"response_lengths run from {int(lengths.min())} to {int(lengths.max())}; allowed are 0 to {longest}"
            )

    @property
    def num_responses(self) -> int:
        """Responses of one prompt, n."""
        return int(self["response_ids"].shape[1])

    @property
    def response_mask(self) -> Tensor:
        """True where a response has a token. [G, n, R]"""
        positions = torch.arange(self["response_ids"].shape[-1])
        return positions < self["response_lengths"].unsqueeze(-1)

    def group_tokens(self) -> list[int]:
        """Tokens of each group when its prompt is held once: P + sum of its response lengths."""
        totals = self["response_lengths"].sum(dim=-1).tolist()
        return [len(prompt.token_ids) + int(total) for prompt, total in zip(self.prompts, totals, strict=True)]


@dataclass(frozen=True)
class RolloutBatch(ResponseBatch):
    """Sampled responses: ``rollout_log_probs`` float32 [G, n, R], the log-prob of each token under the rollout engine;
    ``truncated`` bool [G, n], cut off by the length limit.
    """

    required: ClassVar[tuple[str, ...]] = (*ResponseBatch.required, "rollout_log_probs", "truncated")

    @classmethod
    def of(cls, prompts: Sequence[EncodedPrompt], responses: Sequence[Sequence[Response]], *, n: int) -> RolloutBatch:
        """From the engine's answers, ``responses[g][i]`` being response i of n of prompt g.

        Raises:
            ValueError: When a prompt has no answers, or another number than ``n``.
        """
        groups = len(prompts)
        if len(responses) != groups:
            raise ValueError(f"{groups} prompts but {len(responses)} groups of responses")
        for prompt, group in zip(prompts, responses, strict=True):
            if len(group) != n:
                raise ValueError(f"prompt {prompt.sample_id} has {len(group)} responses; it must have n={n}")
        longest = max((len(r.token_ids) for group in responses for r in group), default=0)
        ids = torch.zeros(groups, n, longest, dtype=torch.int64)
        log_probs = torch.zeros(groups, n, longest)
        lengths = torch.zeros(groups, n, dtype=torch.int64)
        truncated = torch.zeros(groups, n, dtype=torch.bool)
        for g, group in enumerate(responses):
            for i, response in enumerate(group):
                length = len(response.token_ids)
                ids[g, i, :length] = torch.tensor(response.token_ids, dtype=torch.int64)
                log_probs[g, i, :length] = torch.tensor(response.log_probs)
                lengths[g, i] = length
                truncated[g, i] = response.finish_reason == "length"
        fields = {
            "response_ids": ids,
            "response_lengths": lengths,
            "rollout_log_probs": log_probs,
            "truncated": truncated,
        }
        return cls(tuple(prompts), TensorDict(fields, [groups]))


@dataclass(frozen=True)
class TrainBatch(RolloutBatch):
    """A rollout with what the update needs: ``advantages`` float32 [G, n, R].

    Optional: ``old_log_probs`` [G, n, R] (absent when the one update is on-policy, so that they equal the current ones)
    and ``ref_log_probs`` [G, n, R] (present when KL to the reference enters the loss).
    """

    required: ClassVar[tuple[str, ...]] = (*RolloutBatch.required, "advantages")


def _pad_concat(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenation along dimension 0, the last dimension padded with zeros to the longest."""
    if tensors[0].ndim < 3:
        return torch.cat(list(tensors))
    longest = max(t.shape[-1] for t in tensors)
    return torch.cat([torch.nn.functional.pad(t, (0, longest - t.shape[-1])) for t in tensors])
