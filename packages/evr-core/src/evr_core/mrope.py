"""Multi-modal rotary positions (M-RoPE): a temporal, a height and a width position for every token of a prompt.

Text advances all three by one per token. A vision segment starts where the text stands: its temporal position counts
temporal patches (or the clock, for Qwen2.5-VL), its height and width positions count merged patches. The text after it
goes on at ``start + max(height, width)`` of the segment. Section 2.1 of the Qwen2-VL report (arXiv 2409.12191).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from evr_core.geometry import ModelGeometry
from evr_core.video import VideoPlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Grid = tuple[int, int, int]
_KINDS = {1: "image", 2: "video"}


def mrope_positions(
    token_types: ArrayLike,
    image_grids: Sequence[Sequence[int]],
    video_grids: Sequence[Sequence[int]],
    geometry: ModelGeometry,
    *,
    seconds_per_grid: Sequence[float] | None = None,
) -> NDArray[np.int64]:
    """Return the positions of a prompt, equal to ``get_rope_index`` of transformers.

    A response's positions continue from the prompt's maximum + 1.

    Args:
        token_types: 0 for text, 1 for image and 2 for video tokens. [L]
        image_grids: grid_thw of every image, in prompt order.
        video_grids: grid_thw of every video, in prompt order. Families with timestamps have one vision segment per
            temporal patch, the others one per video.
        geometry: Patch sizes of the model.
        seconds_per_grid: Seconds that one temporal patch of each video spans (``seconds_per_grid``); needed, and used,
            only where the geometry has ``tokens_per_second`` (Qwen2.5-VL).

    Returns:
        Temporal, height and width positions, int64. [3, L]

    Raises:
        ValueError: Segments and grids do not match in number or length, or ``seconds_per_grid`` is missing.
    """
    import numpy as np

    types = np.asarray(token_types)
    if types.ndim != 1:
        raise ValueError(f"token_types has shape {types.shape}; expected one sequence [L]")
    segments = {
        1: ((_grid(grid), 1.0) for grid in image_grids),
        2: _video_segments(video_grids, geometry, seconds_per_grid),
    }
    parts: list[NDArray[np.int64]] = []
    position = 0
    for kind, length in _runs(types.tolist()):
        if kind == 0:
            parts.append(np.broadcast_to(np.arange(position, position + length), (3, length)))
            position += length
            continue
        grid, interval = _next_segment(segments, kind)
        _check_length(kind, grid, length, geometry)
        parts.append(_vision_positions(grid, interval, geometry) + position)
        position += max(grid[1], grid[2]) // geometry.spatial_merge_size
    for kind, name in _KINDS.items():
        left = len(list(segments[kind]))
        if left:
            raise ValueError(f"{left} {name} segments have no tokens in token_types; every grid needs its placeholders")
    return np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), dtype=np.int64)


def seconds_per_grid(plan: VideoPlan, geometry: ModelGeometry) -> float:
    """Seconds of video that one temporal patch of a plan spans."""
    return geometry.temporal_patch_size / plan.sample_fps


def _grid(grid: Sequence[int]) -> Grid:
    time, height, width = (int(size) for size in grid)
    return time, height, width


def _video_segments(
    grids: Sequence[Sequence[int]], geometry: ModelGeometry, seconds: Sequence[float] | None
) -> Iterator[tuple[Grid, float]]:
    if geometry.timestamped_frames:
        return (((1, h, w), 1.0) for t, h, w in map(_grid, grids) for _ in range(t))
    if geometry.tokens_per_second is None:
        return ((_grid(grid), 1.0) for grid in grids)
    if len(grids) != len(seconds or ()):
        raise ValueError(
            f"seconds_per_grid has {len(seconds or ())} values for {len(grids)} videos; this family's positions follow "
            "the clock, so give evr_core.seconds_per_grid(plan, geometry) of every video"
        )
    rate = geometry.tokens_per_second
    return ((_grid(grid), rate * span) for grid, span in zip(grids, seconds or (), strict=True))


def _runs(types: Sequence[int]) -> Iterator[tuple[int, int]]:
    for kind, run in groupby(types):
        if kind not in (0, 1, 2):
            raise ValueError(f"token type {kind}; allowed: 0 text, 1 image, 2 video")
        yield kind, sum(1 for _ in run)


def _next_segment(segments: dict[int, Iterator[tuple[Grid, float]]], kind: int) -> tuple[Grid, float]:
    segment = next(segments[kind], None)
    if segment is None:
        raise ValueError(f"token_types has more {_KINDS[kind]} segments than there are grids; give one grid per medium")
    return segment


def _check_length(kind: int, grid: Grid, length: int, geometry: ModelGeometry) -> None:
    expected = grid[0] * (grid[1] // geometry.spatial_merge_size) * (grid[2] // geometry.spatial_merge_size)
    if length != expected:
        raise ValueError(
            f"{_KINDS[kind]} segment: {length} placeholder tokens, but its grid {grid} makes {expected}; "
            "expand the placeholders with the same plan"
        )


def _vision_positions(grid: Grid, interval: float, geometry: ModelGeometry) -> NDArray[np.int64]:
    """Positions of one segment from 0. [3, t * h * w]"""
    import numpy as np

    merge = geometry.spatial_merge_size
    t, h, w = grid[0], grid[1] // merge, grid[2] // merge
    # float32 and truncation towards zero, as the reference computes it
    times = (np.arange(t, dtype=np.float32) * np.float32(interval)).astype(np.int64)
    axes = np.meshgrid(times, np.arange(h), np.arange(w), indexing="ij")
    return np.stack(axes).reshape(3, -1).astype(np.int64)
