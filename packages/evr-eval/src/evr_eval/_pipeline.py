"""Three stages that overlap: load in threads, generate on the event loop, score in threads.

Bounded queues join them, so a slow stage holds the earlier ones back and memory stays flat. There is no barrier: a row
is written the moment it is scored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evr_eval._items import Item
from evr_eval.engine import Engine, EngineError, Generation, MediaMismatchError, SamplingSettings
from evr_eval.rows import Outcome, ResultRow

if TYPE_CHECKING:
    from evr_video import EncodedPrompt


@dataclass(frozen=True)
class Loaded:
    """A question whose media are in the cache and whose prompt is built."""

    item: Item
    prompt: EncodedPrompt
    load_s: float


@dataclass(frozen=True)
class Failed:
    """A question that cannot be answered, and why."""

    item: Item
    outcome: Outcome
    detail: str
    load_s: float
    prompt: EncodedPrompt | None = None
    generate_s: float = 0.0


@dataclass(frozen=True)
class Generated:
    """A question with its response."""

    loaded: Loaded
    generation: Generation
    generate_s: float


@dataclass(frozen=True)
class Limits:
    """Threads per stage and the length of the queues between them."""

    load_workers: int
    score_workers: int
    queue_size: int


@dataclass(frozen=True)
class Stages:
    """What each stage does. ``load`` and ``score`` block and run in threads; ``sink`` runs on the event loop."""

    load: Callable[[Item], Loaded | Failed]
    engine: Engine
    sampling: SamplingSettings
    score: Callable[[Generated | Failed], ResultRow]
    sink: Callable[[ResultRow], None]


async def run_pipeline(groups: Sequence[Sequence[Item]], stages: Stages, limits: Limits) -> None:
    """Runs every item through the stages; items of one group are loaded one after the other by the same thread.

    Raises:
        Exception: Whatever a stage raises that is no row outcome; the rows already written stay.
    """
    ready: asyncio.Queue[Loaded | None] = asyncio.Queue(limits.queue_size)
    answered: asyncio.Queue[Generated | Failed | None] = asyncio.Queue(limits.queue_size)
    waiting = iter(groups)
    num_generators = max(1, stages.engine.max_concurrency)
    with (
        ThreadPoolExecutor(limits.load_workers, "evr-load") as load_pool,
        ThreadPoolExecutor(limits.score_workers, "evr-score") as score_pool,
    ):
        try:
            async with asyncio.TaskGroup() as tasks:
                loaders = [
                    tasks.create_task(_load(waiting, stages, load_pool, ready, answered))
                    for _ in range(limits.load_workers)
                ]
                generators = [tasks.create_task(_generate(stages, ready, answered)) for _ in range(num_generators)]
                for _ in range(limits.score_workers):
                    tasks.create_task(_score(stages, score_pool, answered))
                await asyncio.gather(*loaders)
                await _finish(ready, num_generators)
                await asyncio.gather(*generators)
                await _finish(answered, limits.score_workers)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None


async def _load(
    waiting: Iterator[Sequence[Item]],
    stages: Stages,
    pool: ThreadPoolExecutor,
    ready: asyncio.Queue[Loaded | None],
    answered: asyncio.Queue[Generated | Failed | None],
) -> None:
    loop = asyncio.get_running_loop()
    for group in waiting:  # shared by all loaders: each takes the next group
        for item in group:
            result = await loop.run_in_executor(pool, stages.load, item)
            await (answered.put(result) if isinstance(result, Failed) else ready.put(result))


async def _generate(
    stages: Stages,
    ready: asyncio.Queue[Loaded | None],
    answered: asyncio.Queue[Generated | Failed | None],
) -> None:
    while (loaded := await ready.get()) is not None:
        await answered.put(await _generate_one(stages, loaded))


async def _generate_one(stages: Stages, loaded: Loaded) -> Generated | Failed:
    start = time.perf_counter()
    try:
        generation = await stages.engine.generate(loaded.prompt, stages.sampling)
    except (EngineError, MediaMismatchError) as error:
        outcome = Outcome.ENGINE_ERROR if isinstance(error, EngineError) else Outcome.MEDIA_ERROR
        seconds = time.perf_counter() - start
        return Failed(loaded.item, outcome, str(error), loaded.load_s, loaded.prompt, seconds)
    return Generated(loaded, generation, time.perf_counter() - start)


async def _score(stages: Stages, pool: ThreadPoolExecutor, answered: asyncio.Queue[Generated | Failed | None]) -> None:
    loop = asyncio.get_running_loop()
    while (result := await answered.get()) is not None:
        stages.sink(await loop.run_in_executor(pool, stages.score, result))


async def _finish(queue: asyncio.Queue[Loaded | None] | asyncio.Queue[Generated | Failed | None], workers: int) -> None:
    for _ in range(workers):
        await queue.put(None)
