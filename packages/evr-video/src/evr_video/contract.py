"""What a prompt promised about its media, and the check that it still holds.

Legend: P prompt tokens, M media of the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from evr_video._digest import digest_array, digest_json
from evr_video._entry import EntryError
from evr_video.errors import ContractError
from evr_video.handle import MediaHandle

IMAGE_TYPE, VIDEO_TYPE = 1, 2
_TYPES = {"image": IMAGE_TYPE, "video": VIDEO_TYPE}


@dataclass(frozen=True)
class MediaContract:
    """Taken when a prompt is built, compared again wherever its frames meet a model.

    A frame set, a grid, a token sequence or positions that changed on the way give wrong gradients without any error
    of their own; here they stop the run.

    Attributes:
        grid_thw: Patches along time, height and width, per medium in prompt order. [M]
        visual_tokens: Placeholders that each medium takes. [M]
        placeholders: Image and video placeholders in the token ids.
        positions_digest: SHA-256 of the M-RoPE positions [3, P].
        frame_digests: SHA-256 of the frames of each medium. [M]
    """

    grid_thw: tuple[tuple[int, int, int], ...]
    visual_tokens: tuple[int, ...]
    placeholders: tuple[int, int]
    positions_digest: str
    frame_digests: tuple[str, ...]

    @classmethod
    def of(
        cls, token_types: npt.NDArray[np.int8], positions: npt.NDArray[np.int64], media: Sequence[MediaHandle]
    ) -> MediaContract:
        """Take the contract of a prompt: token types [P], positions [3, P], media in prompt order."""
        return cls(
            grid_thw=tuple(handle.plan.grid_thw for handle in media),
            visual_tokens=tuple(handle.plan.visual_tokens for handle in media),
            placeholders=count_placeholders(token_types),
            positions_digest=digest_array(positions),
            frame_digests=tuple(handle.digest for handle in media),
        )

    @property
    def digest(self) -> str:
        """One digest for all of it."""
        return digest_json([getattr(self, field.name) for field in fields(self)])

    def check(
        self,
        stage: str,
        sample_id: str,
        *,
        token_types: npt.NDArray[np.int8],
        positions: npt.NDArray[np.int64],
        media: Sequence[MediaHandle],
        verify: bool = False,
    ) -> None:
        """Compare everything with what is there now.

        Args:
            stage: Where this is asked, for the message.
            sample_id: Whose prompt it is, for the message.
            token_types: Of the token ids in use now. [P]
            positions: The positions in use now. [3, P]
            media: The handles in use now, in prompt order.
            verify: Also read all frames and compute their digests; else the digests in the entries' headers count.

        Raises:
            ContractError: The first disagreement.
        """
        found = MediaContract.of(token_types, positions, media)
        for field in fields(self):
            self._compare(stage, sample_id, field.name, getattr(self, field.name), getattr(found, field.name))
        for handle, digest, grid in zip(media, self.frame_digests, self.grid_thw, strict=True):
            try:
                stored = handle.stored()
                if verify:
                    handle.open(verify=True)
            except EntryError as error:
                raise ContractError(sample_id, stage, f"frames of {handle.source}", digest, str(error)) from error
            self._compare(stage, sample_id, f"frames and grid of {handle.source}", (digest, grid), stored)

    @staticmethod
    def _compare(stage: str, sample_id: str, what: str, expected: Any, found: Any) -> None:
        if expected != found:
            raise ContractError(sample_id, stage, what, expected, found)


def count_placeholders(token_types: npt.NDArray[np.int8]) -> tuple[int, int]:
    """``(image placeholders, video placeholders)`` among token types [P]."""
    return int((token_types == IMAGE_TYPE).sum()), int((token_types == VIDEO_TYPE).sum())


def check_placeholders(
    stage: str, sample_id: str, token_types: npt.NDArray[np.int8], media: Sequence[MediaHandle]
) -> None:
    """Raise ContractError unless each kind has as many placeholders as its media have visual tokens."""
    for kind, found in zip(_TYPES, count_placeholders(token_types), strict=True):
        expected = sum(handle.plan.visual_tokens for handle in media if handle.kind == kind)
        if expected != found:
            raise ContractError(sample_id, stage, f"{kind} placeholders", expected, found)
