"""How a model family cuts pixels into visual tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelGeometry:
    """Patch sizes of a vision tower.

    One visual token covers ``spatial_merge_size``² patches of ``patch_size``² pixels each, over
    ``temporal_patch_size`` consecutive frames.

    Attributes:
        patch_size: Pixels along one side of a patch (14 for Qwen2-VL and Qwen2.5-VL, 16 for Qwen3-VL and Qwen3.5).
        temporal_patch_size: Frames that one patch spans.
        spatial_merge_size: Patches along one side that are merged into one token.
        timestamped_frames: Whether the family writes a ``<t seconds>`` text before each temporal patch (Qwen3-VL on).
        tokens_per_second: Temporal positions per second of video, for families whose M-RoPE follows the clock
            (Qwen2.5-VL); None where temporal positions count patches.
    """

    patch_size: int = 16
    temporal_patch_size: int = 2
    spatial_merge_size: int = 2
    timestamped_frames: bool = True
    tokens_per_second: float | None = None

    def __post_init__(self) -> None:
        for name in ("patch_size", "temporal_patch_size", "spatial_merge_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"ModelGeometry.{name} is {getattr(self, name)}; it must be at least 1")

    @property
    def factor(self) -> int:
        """Pixels along one side of a visual token; heights and widths are multiples of it."""
        return self.patch_size * self.spatial_merge_size
