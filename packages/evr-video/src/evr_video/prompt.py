"""From a sample and its media to the token ids that every stage uses.

Legend: P prompt tokens, M media of the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evr_core import (
    ImagePlan,
    ModelGeometry,
    Sample,
    VideoPlan,
    expand_placeholders,
    mrope_positions,
    prompt_parts,
    render_prompt,
    seconds_per_grid,
)
from evr_video.contract import IMAGE_TYPE, VIDEO_TYPE, MediaContract, check_placeholders
from evr_video.errors import ContractError
from evr_video.handle import MediaHandle


class Tokenizer(Protocol):
    """What is used of a tokenizer of transformers."""

    def apply_chat_template(self, messages: Any, *, tokenize: bool, add_generation_prompt: bool) -> Any:
        """Return the chat text."""
        ...

    def __call__(self, text: str, *, add_special_tokens: bool) -> Any:
        """Return a mapping with ``input_ids``."""
        ...


@dataclass(frozen=True)
class VisualTokenIds:
    """Ids of the placeholder tokens."""

    image: int
    video: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> VisualTokenIds:
        """Look the ids up by name.

        Raises:
            ValueError: The tokenizer does not know one of them as a single token.
        """
        return cls(image=_single(tokenizer, "<|image_pad|>"), video=_single(tokenizer, "<|video_pad|>"))


@dataclass(frozen=True, eq=False)
class EncodedPrompt:
    """A prompt as token ids, with handles in place of frames; small enough to send anywhere.

    Attributes:
        sample_id: The sample's ``problem_id``.
        text: Chat text with one placeholder per medium.
        token_ids: All placeholders expanded, int32. [P]
        media: Handles in prompt order. [M]
        contract: What must still hold at every later stage.
        geometry: Patch sizes of the model.
        visual_ids: Ids of the placeholder tokens.
    """

    sample_id: str
    text: str
    token_ids: npt.NDArray[np.int32]
    media: tuple[MediaHandle, ...]
    contract: MediaContract
    geometry: ModelGeometry
    visual_ids: VisualTokenIds

    def __repr__(self) -> str:
        kinds = [handle.kind for handle in self.media]
        return f"EncodedPrompt(sample_id={self.sample_id!r}, token_ids=[{len(self.token_ids)}], media={kinds})"

    def token_types(self) -> npt.NDArray[np.int8]:
        """0 text, 1 image, 2 video. [P]"""
        return token_types(self.token_ids, self.visual_ids)

    def positions(self, geometry: ModelGeometry | None = None) -> npt.NDArray[np.int64]:
        """M-RoPE positions, computed anew from the token ids and the handles. [3, P]"""
        return media_positions(self.token_types(), self.media, geometry or self.geometry)

    def check(
        self,
        stage: str,
        *,
        token_ids: npt.ArrayLike | None = None,
        positions: npt.NDArray[np.int64] | None = None,
        verify: bool = False,
    ) -> None:
        """Compare the prompt with its contract; see ``MediaContract.check``.

        Args:
            stage: Where this is asked.
            token_ids: The ids that this stage really uses, when it got them elsewhere (an engine's own expansion). [P]
            positions: The positions that this stage really uses. [3, P]
            verify: Also read all frames again.

        Raises:
            ContractError: Something changed since the prompt was built.
        """
        types = self.token_types() if token_ids is None else token_types(token_ids, self.visual_ids)
        check_placeholders(stage, self.sample_id, types, self.media)
        if positions is None:
            try:
                positions = media_positions(types, self.media, self.geometry)
            except ValueError as error:
                expected = self.contract.positions_digest
                raise ContractError(self.sample_id, stage, "positions", expected, str(error)) from error
        self.contract.check(
            stage, self.sample_id, token_types=types, positions=positions, media=self.media, verify=verify
        )


def encode_prompt(
    sample: Sample,
    tokenizer: Tokenizer,
    *,
    media: Sequence[MediaHandle],
    geometry: ModelGeometry,
    template: str | Path | None = None,
) -> EncodedPrompt:
    """Render a sample's prompt, apply the chat template, expand the placeholders and tokenise.

    Args:
        sample: The record.
        tokenizer: The model's, with its chat template.
        media: Handles of the sample's videos and images; within each kind in the sample's order.
        geometry: Patch sizes of the model.
        template: Prompt template in place of the built-in one.

    Raises:
        ValueError: The media are not those that the prompt asks for, or the tokenizer lacks the visual tokens.
        ContractError: The ids hold another number of placeholders than the media have visual tokens.
    """
    parts = prompt_parts(sample, render_prompt(sample, template=template))
    ordered = _in_prompt_order(sample.problem_id, parts, media)
    messages = [{"role": "user", "content": parts}]
    text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    images = [handle.plan for handle in ordered if isinstance(handle.plan, ImagePlan)]
    videos = [handle.plan for handle in ordered if isinstance(handle.plan, VideoPlan)]
    expanded = expand_placeholders(text, images, videos, geometry)
    token_ids = np.asarray(tokenizer(expanded, add_special_tokens=False)["input_ids"], dtype=np.int32)
    visual_ids = VisualTokenIds.of(tokenizer)
    types = token_types(token_ids, visual_ids)
    check_placeholders("encode", sample.problem_id, types, ordered)
    contract = MediaContract.of(types, media_positions(types, ordered, geometry), ordered)
    return EncodedPrompt(sample.problem_id, text, token_ids, ordered, contract, geometry, visual_ids)


def token_types(token_ids: npt.ArrayLike, visual_ids: VisualTokenIds) -> npt.NDArray[np.int8]:
    """Type of each token: 0 text, 1 image, 2 video. [P]"""
    ids = np.asarray(token_ids)
    types = np.zeros(ids.shape, dtype=np.int8)
    types[ids == visual_ids.image] = IMAGE_TYPE
    types[ids == visual_ids.video] = VIDEO_TYPE
    return types


def media_positions(
    types: npt.NDArray[np.int8], media: Sequence[MediaHandle], geometry: ModelGeometry
) -> npt.NDArray[np.int64]:
    """M-RoPE positions [3, P] of token types [P] whose media are given in prompt order."""
    images = [handle.plan.grid_thw for handle in media if handle.kind == "image"]
    videos = [handle.plan for handle in media if isinstance(handle.plan, VideoPlan)]
    seconds = None
    if geometry.tokens_per_second is not None:
        seconds = [seconds_per_grid(plan, geometry) for plan in videos]
    return mrope_positions(types, images, [plan.grid_thw for plan in videos], geometry, seconds_per_grid=seconds)


def _in_prompt_order(
    sample_id: str, parts: Sequence[dict[str, str]], media: Sequence[MediaHandle]
) -> tuple[MediaHandle, ...]:
    wanted = [part["type"] for part in parts if part["type"] != "text"]
    queues = {kind: [handle for handle in media if handle.kind == kind] for kind in ("image", "video")}
    for kind, queue in queues.items():
        if len(queue) != wanted.count(kind):
            raise ValueError(
                f"sample {sample_id}: the prompt asks for {wanted.count(kind)} {kind}s, {len(queue)} were given; "
                "pass the handles of all the sample's media"
            )
    return tuple(queues[kind].pop(0) for kind in wanted)


def _single(tokenizer: Tokenizer, token: str) -> int:
    ids = list(tokenizer(token, add_special_tokens=False)["input_ids"])
    if len(ids) != 1:
        raise ValueError(f"the tokenizer splits {token} into {len(ids)} tokens; it is not one of a Qwen-VL model")
    return int(ids[0])
