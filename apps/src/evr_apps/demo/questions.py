"""The demo's questions: for each task a scene, a wording and the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evr_apps.demo.shapes import COLOURS, DIRECTIONS, FPS, KINDS, NUM_FRAMES, SIDE, Scene, Shape
from evr_core.schema import ProblemType

_COLOUR_NAMES = tuple(COLOURS)
_DIRECTION_NAMES = tuple(DIRECTIONS)
_INTERVALS_S = ((0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (2, 4))
_LETTERS = "ABCD"
CAPTION_PROBLEM = "Describe it."
_CELL = 16  # boxes lie on a grid of this many pixels
_BOX = 32


@dataclass(frozen=True)
class Question:
    """One record before its medium is written; ``scene`` is None for a text-only question."""

    problem: str
    answer: str
    problem_type: ProblemType
    scene: Scene | None
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """A kind of question.

    Attributes:
        share: Part of all records.
        medium: "video", "image" or "text".
        answers: The answers, each asked equally often.
        ask: Makes the question whose answer is the given one.
        often_mislabelled: Whether the warm-up's annotator tends to give the neighbour of the right answer.
    """

    share: float
    medium: str
    answers: tuple[str, ...]
    ask: Callable[[str, np.random.Generator], Question]
    often_mislabelled: bool = False

    def neighbour(self, answer: str) -> str:
        """The next of the answers, the first after the last: what a careless annotator takes for this one."""
        return self.answers[(self.answers.index(answer) + 1) % len(self.answers)]


def _pick(rng: np.random.Generator, values: tuple[str, ...]) -> str:
    return values[int(rng.integers(len(values)))]


def _scene(shapes: tuple[Shape, ...], rng: np.random.Generator) -> Scene:
    red, green, blue = (int(v) for v in rng.integers(0, 26, size=3))
    noise = int(rng.integers(6, 16)) if rng.random() < 0.5 else 0
    return Scene(shapes=shapes, background=(red, green, blue), noise=noise)


def _moving(rng: np.random.Generator, *, colour: str, direction: str) -> Scene:
    """One shape that crosses about half of the picture in a straight line near its middle."""
    size = int(rng.integers(22, 30))
    step_x, step_y = DIRECTIONS[direction]
    speed = float(rng.uniform(4.0, 4.8))
    travel = speed * (NUM_FRAMES - 1) + 1
    middle = (SIDE - size) / 2
    low_high = {-1: (travel, SIDE - size), 0: (middle - 6, middle + 6), 1: (0.0, SIDE - size - travel)}
    x, y = (float(rng.uniform(*low_high[step])) for step in (step_x, step_y))
    shape = Shape(_pick(rng, KINDS), colour, size, x, y, dx=speed * step_x, dy=speed * step_y)
    return _scene((shape,), rng)


def _resting(rng: np.random.Generator, *, colour: str) -> Scene:
    size = int(rng.integers(22, 30))
    x, y = (float(v) for v in rng.integers(0, SIDE - size, size=2))
    return _scene((Shape(_pick(rng, KINDS), colour, size, x, y),), rng)


def _blinking(rng: np.random.Generator, *, start: int, stop: int) -> Scene:
    """One resting shape that is there from frame ``start`` to before frame ``stop``."""
    size = int(rng.integers(24, 34))
    x, y = (float(v) for v in rng.integers(0, SIDE - size, size=2))
    return _scene((Shape(_pick(rng, KINDS), _pick(rng, _COLOUR_NAMES), size, x, y, start=start, stop=stop),), rng)


def _ask_colour(answer: str, rng: np.random.Generator) -> Question:
    scene = _moving(rng, colour=answer, direction=_pick(rng, _DIRECTION_NAMES))
    return Question("What colour is the shape?", answer, ProblemType.OPEN_ENDED, scene)


def _ask_image_colour(answer: str, rng: np.random.Generator) -> Question:
    return Question("What colour is the shape?", answer, ProblemType.OPEN_ENDED, _resting(rng, colour=answer))


def _ask_direction(answer: str, rng: np.random.Generator) -> Question:
    scene = _moving(rng, colour=_pick(rng, _COLOUR_NAMES), direction=answer)
    return Question("Which way does the shape move?", answer, ProblemType.OPEN_ENDED, scene)


def _ask_choice(answer: str, rng: np.random.Generator) -> Question:
    """The options keep their order: a policy without pre-training does not learn to look letters up."""
    names = _COLOUR_NAMES[: len(_LETTERS)]
    options = tuple(f"{letter}. {name}" for letter, name in zip(_LETTERS, names, strict=True))
    scene = _moving(rng, colour=names[_LETTERS.index(answer)], direction=_pick(rng, _DIRECTION_NAMES))
    return Question("Which colour is it?", answer, ProblemType.MULTIPLE_CHOICE, scene, options)


def _ask_boolean(answer: str, rng: np.random.Generator) -> Question:
    last = int(rng.integers(2, NUM_FRAMES - 1)) if answer == "yes" else NUM_FRAMES
    scene = _blinking(rng, start=0, stop=last)
    return Question("Does the shape vanish?", answer, ProblemType.BOOLEAN, scene)


def _ask_count(answer: str, rng: np.random.Generator) -> Question:
    """As many shapes as the answer says, at most one in each quarter of the picture."""
    half = SIDE // 2
    shapes = []
    for quarter in rng.permutation(4)[: int(answer)]:
        size = int(rng.integers(18, 26))
        dx, dy = (int(v) for v in rng.integers(1, half - size, size=2))
        left, top = half * (int(quarter) % 2) + dx, half * (int(quarter) // 2) + dy
        shapes.append(Shape(_pick(rng, KINDS), _pick(rng, _COLOUR_NAMES), size, left, top))
    return Question("How many shapes are there?", answer, ProblemType.NUMERICAL, _scene(tuple(shapes), rng))


def _ask_time(answer: str, rng: np.random.Generator) -> Question:
    start_s, end_s = json.loads(answer)["time"]
    scene = _blinking(rng, start=int(start_s * FPS), stop=int(end_s * FPS))
    return Question("When is the shape visible?", answer, ProblemType.TEMPORAL_GROUNDING, scene)


def _ask_box(answer: str, rng: np.random.Generator) -> Question:
    x1, y1, x2, _ = json.loads(answer)["boxes"]
    shape = Shape(_pick(rng, ("square", "circle")), _pick(rng, _COLOUR_NAMES), x2 - x1, x1, y1)
    return Question("Where is the shape?", answer, ProblemType.SPATIAL_GROUNDING, _scene((shape,), rng))


def _ask_sum(answer: str, rng: np.random.Generator) -> Question:
    first = int(rng.integers(1, int(answer)))
    problem = f"What is {first} plus {int(answer) - first}?"
    return Question(problem, answer, ProblemType.NUMERICAL, None)


def caption(question: Question) -> Question:
    """The same scene with a description of all that the questions ask about, one by one.

    Raises:
        ValueError: A text-only question has nothing to describe.
    """
    if question.scene is None:
        raise ValueError(f"nothing to describe in {question.problem!r}")
    return Question(CAPTION_PROBLEM, _describe(question.scene.shapes), ProblemType.OPEN_ENDED, question.scene)


def _describe(shapes: tuple[Shape, ...]) -> str:
    first = shapes[0]
    if len(shapes) > 1:
        return f"{len(shapes)} shapes"
    if first.dx or first.dy:
        step = (int(np.sign(first.dx)), int(np.sign(first.dy)))
        return f"{first.colour} shape moves {next(name for name, way in DIRECTIONS.items() if way == step)}"
    if (first.start, first.stop) != (0, NUM_FRAMES):
        return f"{first.colour} shape from {first.start / FPS:g} to {first.stop / FPS:g}"
    return f"{first.colour} shape at {int(first.x)}, {int(first.y)}"


_TIMES = tuple(json.dumps({"time": list(interval)}) for interval in _INTERVALS_S)
_CORNERS = range(0, SIDE - _BOX + 1, _CELL)
_BOXES = tuple(json.dumps({"boxes": [x, y, x + _BOX, y + _BOX]}) for y in _CORNERS for x in _CORNERS)
_COUNTS = ("1", "2", "3", "4")

TASKS: dict[str, Task] = {
    "colour": Task(0.16, "video", _COLOUR_NAMES, _ask_colour, often_mislabelled=True),
    "direction": Task(0.14, "video", _DIRECTION_NAMES, _ask_direction),
    "choice": Task(0.14, "video", tuple(_LETTERS), _ask_choice, often_mislabelled=True),
    "boolean": Task(0.08, "video", ("yes", "no"), _ask_boolean),
    "count": Task(0.09, "video", _COUNTS, _ask_count),
    "time": Task(0.12, "video", _TIMES, _ask_time),
    "image_colour": Task(0.05, "image", _COLOUR_NAMES, _ask_image_colour, often_mislabelled=True),
    "image_count": Task(0.05, "image", _COUNTS, _ask_count),
    "box": Task(0.07, "image", _BOXES, _ask_box),
    "sum": Task(0.10, "text", tuple(str(n) for n in range(2, 10)), _ask_sum),
}
