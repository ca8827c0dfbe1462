"""Scenes of coloured shapes and how they become pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIDE = 64  # pixels along one side of every clip and picture
NUM_FRAMES = 8
FPS = 2  # frames per second: a clip spans four seconds
DURATION_S = NUM_FRAMES / FPS

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (235, 40, 40),
    "green": (40, 210, 60),
    "blue": (60, 80, 245),
    "yellow": (240, 225, 40),
}
DIRECTIONS: dict[str, tuple[int, int]] = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
KINDS = ("square", "circle", "triangle")


@dataclass(frozen=True)
class Shape:
    """One shape and its way through a clip.

    Attributes:
        kind: One of KINDS.
        colour: One of COLOURS.
        size: Side of the bounding box in pixels.
        x: Left edge in the first frame, in pixels.
        y: Top edge in the first frame, in pixels.
        dx: Pixels to the right per frame.
        dy: Pixels downwards per frame.
        start: First frame that shows the shape.
        stop: First frame after it that does not.
    """

    kind: str
    colour: str
    size: int
    x: float
    y: float
    dx: float = 0.0
    dy: float = 0.0
    start: int = 0
    stop: int = NUM_FRAMES


@dataclass(frozen=True)
class Scene:
    """What a clip shows: ``shapes`` on a ``background`` colour with ``noise`` grey levels of noise."""

    shapes: tuple[Shape, ...]
    background: tuple[int, int, int]
    noise: int


def _inside(kind: str, size: int) -> NDArray[np.bool_]:
    """Pixels of the bounding box that belong to the shape. [size, size]"""
    row, column = np.mgrid[0:size, 0:size] + 0.5
    inside = np.ones((size, size), dtype=np.bool_)
    if kind == "circle":
        inside = (row - size / 2) ** 2 + (column - size / 2) ** 2 <= (size / 2) ** 2
    elif kind == "triangle":
        inside = np.abs(column - size / 2) <= row / 2
    return inside


def _paint(frame: NDArray[np.float32], shape: Shape, index: int, tint: NDArray[np.float32]) -> None:
    left, top = round(shape.x + shape.dx * index), round(shape.y + shape.dy * index)
    box = frame[top : top + shape.size, left : left + shape.size]  # a view: painting changes the frame
    box[_inside(shape.kind, shape.size)] = np.asarray(COLOURS[shape.colour], dtype=np.float32) + tint


def render(scene: Scene, rng: np.random.Generator, *, num_frames: int = NUM_FRAMES) -> NDArray[np.uint8]:
    """Draw a scene; ``rng`` gives the noise and a slight tint of each shape. Returns uint8 [T, SIDE, SIDE, 3]."""
    tints = [rng.uniform(-15, 15, size=3).astype(np.float32) for _ in scene.shapes]
    frames = np.empty((num_frames, SIDE, SIDE, 3), dtype=np.float32)
    frames[:] = np.asarray(scene.background, dtype=np.float32)
    if scene.noise:
        frames += rng.uniform(-scene.noise, scene.noise, size=frames.shape).astype(np.float32)
    for index in range(num_frames):
        for shape, tint in zip(scene.shapes, tints, strict=True):
            if shape.start <= index < shape.stop:
                _paint(frames[index], shape, index, tint)
    return np.clip(frames, 0, 255).astype(np.uint8)
