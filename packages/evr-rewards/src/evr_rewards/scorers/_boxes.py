"""Boxes (x1, y1, x2, y2): reading and overlap."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evr_rewards.scorers._times import seconds

Box = tuple[float, float, float, float]

_BOX_KEYS: Final = (
    "boxes",
    "box",
    "bbox",
    "bboxes",
    "bbox_2d",
    "box_2d",
    "bounding_box",
    "bounding_boxes",
    "answer",
    "coordinates",
)
_TIME_KEYS: Final = ("time", "second", "seconds", "t", "timestamp", "frame", "sec")
_CORNERS: Final = (("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("left", "top", "right", "bottom"))
_SIZED: Final = (("x", "y", "w", "h"), ("x", "y", "width", "height"))
_SIX_DECIMALS: Final = 6


def folded(value: Mapping[Any, Any]) -> dict[str, Any]:
    """The mapping with keys in one spelling."""
    return {str(name).strip().casefold().replace(" ", "_").replace("-", "_"): item for name, item in value.items()}


def box_in(value: Any) -> Box | None:
    """One box from a list of four numbers, two corner points, or a mapping; None when it is no valid box."""
    if isinstance(value, Mapping):
        names = folded(value)
        for corners in (*_CORNERS, *_SIZED):
            if all(name in names for name in corners):
                numbers = [_number(names[name]) for name in corners]
                if corners in _SIZED and None not in numbers:
                    numbers = [*numbers[:2], numbers[0] + numbers[2], numbers[1] + numbers[3]]  # type: ignore[operator]
                return _valid(numbers)
        return next((box_in(names[name]) for name in _BOX_KEYS if name in names), None)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    if len(value) == 1:
        return box_in(value[0])
    if len(value) == 2 and all(isinstance(point, Sequence) and len(point) == 2 for point in value):
        value = [*value[0], *value[1]]
    return _valid([_number(item) for item in value]) if len(value) == 4 else None


def boxes_in(value: Any) -> tuple[Box, ...] | None:
    """All boxes of a parsed value: one box, a list of them, or a mapping that holds either."""
    single = box_in(value)
    if single is not None:
        return (single,)
    if isinstance(value, Mapping):
        names = folded(value)
        return next((boxes_in(names[name]) for name in _BOX_KEYS if name in names), None)
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return None
    found = [box_in(item) for item in value]
    return None if None in found else tuple(box for box in found if box is not None)


def track_in(value: Any) -> dict[float, Box] | None:
    """Boxes by second: ``{"3": box, ...}`` or ``[{"time": 3, "box": box}, ...]``; broken entries are left out."""
    if isinstance(value, Mapping):
        names = folded(value)
        for name in ("boxes", "box", "bboxes", "bbox", "track", "tracks", "trajectory", "answer"):
            if isinstance(names.get(name), (Mapping, list)) and (track := track_in(names[name])) is not None:
                return track
        pairs = [(second_key(name), box_in(item)) for name, item in value.items()]
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        pairs = [(_time_of(item), box_in(item)) for item in value]
    else:
        return None
    track = {second: box for second, box in pairs if second is not None and box is not None}
    return track or None


def _time_of(entry: Mapping[Any, Any]) -> float | None:
    names = folded(entry)
    return next((second_key(names[name]) for name in _TIME_KEYS if name in names), None)


def second_key(name: Any) -> float | None:
    """A second as a key: 3, "3", "3.0", "3s", "00:03" are the same."""
    text = re.sub(r"^(?:t|second|sec|time|frame)[\s_=]*(?=\d)", "", str(name).strip(), flags=re.I)
    second = seconds(text)
    return None if second is None or second < 0 else round(second, _SIX_DECIMALS)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = value.strip().removesuffix("px").strip()
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _valid(numbers: Sequence[float | None]) -> Box | None:
    if len(numbers) != 4 or any(number is None for number in numbers):
        return None
    x1, y1, x2, y2 = (float(number) for number in numbers if number is not None)
    return (x1, y1, x2, y2) if x1 <= x2 and y1 <= y2 else None


def box_iou(first: Box, second: Box) -> float:
    """Intersection over union of two boxes. Symmetric, in [0, 1]; equal boxes give 1."""
    if first == second:
        return 1.0
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    union = _area(first) + _area(second) - shared
    return min(1.0, shared / union) if union > 0 and math.isfinite(union) else 0.0


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def mean_matched_iou(predicted: Sequence[Box], true: Sequence[Box]) -> float:
    """Mean IoU of the best pairs (greedy, largest first) over the larger number of boxes."""
    pairs = sorted(
        ((box_iou(a, b), i, j) for i, a in enumerate(predicted) for j, b in enumerate(true)), key=lambda pair: -pair[0]
    )
    left, right, total = set[int](), set[int](), 0.0
    for overlap, i, j in pairs:
        if i not in left and j not in right:
            left.add(i)
            right.add(j)
            total += overlap
    return total / max(len(predicted), len(true), 1)


def track_iou(predicted: Mapping[float, Box], true: Mapping[float, Box]) -> float:
    """Mean box IoU over the union of the seconds of both; a second with one box only counts 0."""
    union = predicted.keys() | true.keys()
    if not union:
        return 0.0
    return sum(box_iou(predicted[s], true[s]) for s in predicted.keys() & true.keys()) / len(union)
