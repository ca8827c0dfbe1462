"""What crosses process borders in place of frames."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from evr_core import ImagePlan, VideoPlan
from evr_video._digest import digest_frames
from evr_video._entry import EntryError, map_entry, read_meta
from evr_video.clip import ImageClip, VideoClip

_KEY = re.compile(r"[0-9a-f]{64}")


def entry_path(cache_root: str | Path, key: str) -> Path:
    """Where the entry of that key lies."""
    return Path(cache_root) / "entries" / key[:2] / f"{key}.safetensors"


@dataclass(frozen=True)
class MediaHandle:
    """A cache entry by name: small, picklable, and enough to build a prompt without the frames.

    Attributes:
        kind: "video" or "image".
        cache_root: Folder of the cache.
        key: Name of the entry in it (64 hex digits).
        plan: What was sampled and how it was resized.
        digest: SHA-256 of the frames.
        source: Path of the file they come from.
    """

    kind: Literal["video", "image"]
    cache_root: str
    key: str
    plan: VideoPlan | ImagePlan
    digest: str
    source: str

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"key={self.key!r}: a cache key is 64 hex digits")
        if self.kind not in ("video", "image") or (self.kind == "video") != isinstance(self.plan, VideoPlan):
            raise ValueError(f"kind={self.kind!r} does not go with a {type(self.plan).__name__}")

    @property
    def path(self) -> Path:
        """The entry's file."""
        return entry_path(self.cache_root, self.key)

    def open(self, *, verify: bool = False) -> VideoClip | ImageClip:
        """Map the frames; nothing is copied or decoded.

        Args:
            verify: Also read every byte and compare with the digest.

        Raises:
            EntryError: The entry is gone or damaged.
        """
        meta, tensors = read_meta(self.path), map_entry(self.path)
        frames = tensors["frames"]
        if verify and digest_frames(frames) != self.digest:
            raise EntryError(f"cache entry {self.path} is damaged: its frames no longer have the digest {self.digest}")
        if isinstance(self.plan, ImagePlan):
            return ImageClip(frames, self.plan, meta["source_digest"], self.digest)
        return VideoClip(
            frames=frames,
            frame_indices=torch.tensor(self.plan.frame_indices),
            timestamps_s=tensors["timestamps_s"],
            source_fps=self.plan.source_fps,
            duration_s=meta["duration_s"],
            plan=self.plan,
            source_digest=meta["source_digest"],
            backend=meta["backend"],
            frame_digest=self.digest,
        )

    def stored(self) -> tuple[str, tuple[int, ...]]:
        """``(digest, grid_thw)`` that the entry's header holds now; the frames are not read."""
        meta = read_meta(self.path)
        return str(meta["digest"]), tuple(meta["plan"]["grid_thw"])

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> MediaHandle:
        """Rebuild what ``to_dict`` gave, also after a way through JSON.

        Raises:
            ValueError: A field is missing, unknown or of the wrong kind.
        """
        try:
            plan = plan_from_dict(fields["kind"], fields["plan"])
            return cls(**{**fields, "plan": plan})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a media handle: {error!r}") from error


def plan_from_dict(kind: str, fields: Mapping[str, Any]) -> VideoPlan | ImagePlan:
    """Rebuild a plan from its dict; lists become the tuples they were."""
    made: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    return VideoPlan(**made) if kind == "video" else ImagePlan(**made)
