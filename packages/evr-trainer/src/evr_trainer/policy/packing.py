"""Group-shared packing: one row holds whole groups, each prompt once, followed by all its responses.

    [ prompt 1 | r11 | r12 | ... | prompt 2 | r21 | r22 | ... ]

Every response attends to its own prompt and to itself only, and its positions continue from the prompt's last one, so
the row gives exactly the log-probs and gradients of separate sequences while prompt and vision tower run once a group.

Shapes: L tokens of the row, T response tokens of the row, in the order group, response, token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evr_video import EncodedPrompt, MediaHandle

__all__ = ["DUMMY_GRID", "Pack", "PackedGroup", "pack_groups"]

# The smallest picture a vision tower with spatial merge 2 takes: 2 x 2 patches, one token.
DUMMY_GRID = (1, 2, 2)
_PROMPT = -1


@dataclass(frozen=True)
class PackedGroup:
    """One prompt and its responses, each a row of token ids without padding."""

    prompt: EncodedPrompt
    responses: Sequence[Tensor]  # n x int64 [r_i]

    @property
    def num_tokens(self) -> int:
        """Tokens of the group in a row: P + sum of r_i."""
        return len(self.prompt.token_ids) + sum(len(r) for r in self.responses)


@dataclass(frozen=True)
class Pack:
    """A row ready for the model.

    Attributes:
        input_ids: int64 [1, L].
        position_ids: M-RoPE positions, int64 [3, 1, L].
        attention_mask: True where query (row) may look at key (column), bool [1, 1, L, L].
        source_positions: Position whose hidden state predicts each response token, int64 [T].
        target_ids: The response tokens, int64 [T].
        response_lengths: Tokens of each response, int64 [S] with S = groups x n.
        media: Handles in the order of their placeholders.
        dummies: Kinds ("image", "video") for which a dummy picture of ``DUMMY_GRID`` ends the row.
    """

    input_ids: Tensor
    position_ids: Tensor
    attention_mask: Tensor
    source_positions: Tensor
    target_ids: Tensor
    response_lengths: Tensor
    media: tuple[MediaHandle, ...]
    dummies: tuple[str, ...]


def pack_groups(
    groups: Sequence[PackedGroup],
    placeholder_ids: dict[str, int],
    *,
    dummies: Sequence[str] = (),
) -> Pack:
    """Lay whole groups into one row.

    Args:
        groups: In the order wanted; may be empty, then the row is one token that predicts nothing.
        placeholder_ids: Token id of an "image" and of a "video" placeholder.
        dummies: Kinds of media to add as a picture that nothing attends to, so that this rank's vision tower takes part
            in the collectives of ranks that do have such media. They get no gradient.
    """
    ids: list[np.ndarray] = []
    positions: list[np.ndarray] = []
    group_of: list[np.ndarray] = []
    part_of: list[np.ndarray] = []  # _PROMPT or the response's number
    sources: list[np.ndarray] = []
    offset = 0
    for number, group in enumerate(groups):
        prompt_ids = np.asarray(group.prompt.token_ids, dtype=np.int64)
        prompt_positions = group.prompt.positions()  # [3, P]
        ids.append(prompt_ids)
        positions.append(prompt_positions)
        part_of.append(np.full(len(prompt_ids), _PROMPT))
        last_of_prompt = offset + len(prompt_ids) - 1
        next_position = int(prompt_positions.max()) + 1
        start = offset + len(prompt_ids)
        for index, response in enumerate(group.responses):
            length = len(response)
            ids.append(response.numpy())
            positions.append(np.broadcast_to(np.arange(next_position, next_position + length), (3, length)))
            part_of.append(np.full(length, index))
            if length:
                sources.append(np.concatenate([[last_of_prompt], np.arange(start, start + length - 1)]))
            start += length
        group_of.append(np.full(start - offset, number))
        offset = start
    for extra, kind in enumerate(dummies):
        ids.append(np.array([placeholder_ids[kind]]))
        positions.append(np.zeros((3, 1), dtype=np.int64))
        part_of.append(np.array([_PROMPT]))
        group_of.append(np.array([len(groups) + extra]))
    if not ids:  # a rank without groups still runs the pass: one token that predicts nothing
        ids.append(np.zeros(1, dtype=np.int64))
        positions.append(np.zeros((3, 1), dtype=np.int64))
        part_of.append(np.array([_PROMPT]))
        group_of.append(np.array([0]))

    targets = [response for group in groups for response in group.responses]
    return Pack(
        input_ids=torch.from_numpy(np.concatenate(ids).astype(np.int64)).unsqueeze(0),
        position_ids=torch.from_numpy(np.concatenate(positions, axis=1).astype(np.int64)).unsqueeze(1),
        attention_mask=_attention_mask(
            torch.from_numpy(np.concatenate(group_of)), torch.from_numpy(np.concatenate(part_of))
        ),
        source_positions=torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.int64), *sources])),
        target_ids=torch.cat([torch.zeros(0, dtype=torch.int64), *targets]),
        response_lengths=torch.tensor([len(response) for response in targets], dtype=torch.int64),
        media=tuple(handle for group in groups for handle in group.prompt.media),
        dummies=tuple(dummies),
    )


def _attention_mask(group_of: Tensor, part_of: Tensor) -> Tensor:
    """Causal within a group; a response sees its prompt and itself. [L], [L] -> bool [1, 1, L, L]"""
    same_group = group_of.unsqueeze(1) == group_of.unsqueeze(0)
    visible_part = (part_of.unsqueeze(0) == _PROMPT) | (part_of.unsqueeze(1) == part_of.unsqueeze(0))
    causal = torch.ones(len(group_of), len(group_of), dtype=torch.bool).tril()
    return (same_group & visible_part & causal).unsqueeze(0).unsqueeze(0)
