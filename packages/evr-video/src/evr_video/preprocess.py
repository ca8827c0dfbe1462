"""Filling the cache for a whole sample set."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from evr_core import ModelGeometry, Sample, VideoBudget
from evr_video.cache import FrameCache
from evr_video.errors import MediaFailure, PreprocessError
from evr_video.handle import MediaHandle


@dataclass(frozen=True)
class PreprocessResult:
    """What became of the media.

    Attributes:
        handles: Per sample, in order: its videos' handles and then its images'; None when one of them failed.
        failures: Files that could not be used.
        num_media: Different media among the samples.
        wall_s: Seconds it took.
    """

    handles: tuple[tuple[MediaHandle, ...] | None, ...]
    failures: tuple[MediaFailure, ...]
    num_media: int
    wall_s: float


@dataclass(frozen=True)
class _Medium:
    kind: Literal["video", "image"]
    path: Path
    start_s: float | None = None
    end_s: float | None = None


@dataclass
class _Job:
    sample_ids: list[str] = field(default_factory=list)
    outcome: MediaHandle | str = ""


def preprocess_samples(
    samples: Sequence[Sample],
    cache: FrameCache,
    budget: VideoBudget,
    geometry: ModelGeometry,
    *,
    image_min_pixels: int | None = None,
    image_max_pixels: int | None = None,
    workers: int | None = None,
    skip_errors: bool = False,
    timeout_s: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> PreprocessResult:
    """Decode every medium of the samples into the cache, each once; what is there already is not touched.

    Args:
        samples: The records; those without media get an empty tuple of handles.
        cache: Where the frames go. A run that was interrupted goes on where it stopped.
        budget: What a prompt may spend on one video.
        geometry: Patch sizes of the model.
        image_min_pixels: Least pixels of an image.
        image_max_pixels: Most pixels of an image.
        workers: Files decoded at once, each in a process of its own; one per core when left out.
        skip_errors: List bad files in the result instead of raising.
        timeout_s: Seconds that one file may take; the cache's own limit when left out.
        on_progress: Called with (media done, media in all) after each medium.

    Raises:
        PreprocessError: Files cannot be used and ``skip_errors`` is false. Everything else is in the cache by then.
    """
    started = time.perf_counter()
    media = [tuple(_media(sample)) for sample in samples]
    jobs: dict[_Medium, _Job] = {}
    for sample, of_sample in zip(samples, media, strict=True):
        for medium in of_sample:
            jobs.setdefault(medium, _Job()).sample_ids.append(sample.problem_id)

    def ensure(medium: _Medium) -> MediaHandle | str:
        try:
            if medium.kind == "image":
                return cache.ensure_image(
                    medium.path, geometry, min_pixels=image_min_pixels, max_pixels=image_max_pixels, timeout_s=timeout_s
                )
            span = {"start_s": medium.start_s, "end_s": medium.end_s}
            return cache.ensure_video(medium.path, budget, geometry, **span, timeout_s=timeout_s)
        except ValueError as error:  # DecodeError, or a budget that does not fit the file: listed by the caller
            return str(getattr(error, "reason", error))

    _run(jobs, ensure, workers or os.cpu_count() or 1, on_progress)
    failures = tuple(
        MediaFailure(str(medium.path), job.outcome, tuple(job.sample_ids))
        for medium, job in jobs.items()
        if isinstance(job.outcome, str)
    )
    if failures and not skip_errors:
        raise PreprocessError(failures)
    handles = tuple(_complete([jobs[medium].outcome for medium in of_sample]) for of_sample in media)
    return PreprocessResult(handles, failures, len(jobs), time.perf_counter() - started)


def _media(sample: Sample) -> Iterable[_Medium]:
    for path in sample.videos:
        yield _Medium("video", Path(path).absolute(), sample.video_start_s, sample.video_end_s)
    for path in sample.images:
        yield _Medium("image", Path(path).absolute())


def _run(
    jobs: dict[_Medium, _Job],
    ensure: Callable[[_Medium], MediaHandle | str],
    workers: int,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    """Threads wait, hash, resize and write; the decoding itself is done by one process per thread."""
    with ThreadPoolExecutor(workers, thread_name_prefix="evr-preprocess") as pool:
        futures: dict[Future[MediaHandle | str], _Medium] = {pool.submit(ensure, medium): medium for medium in jobs}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                jobs[futures[future]].outcome = future.result()
                if on_progress is not None:
                    on_progress(done, len(futures))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _complete(outcomes: Sequence[MediaHandle | str]) -> tuple[MediaHandle, ...] | None:
    handles = tuple(outcome for outcome in outcomes if isinstance(outcome, MediaHandle))
    return handles if len(handles) == len(outcomes) else None
