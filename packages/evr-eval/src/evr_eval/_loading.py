"""The load stage: plan, decode into the cache, build the prompt."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evr_core import ModelGeometry, VideoBudget
from evr_eval._items import Item
from evr_eval._pipeline import Failed, Loaded
from evr_eval.rows import Outcome
from evr_video import ContractError, DecodeError, FrameCache, encode_prompt

if TYPE_CHECKING:
    from evr_video import MediaHandle


class Loader:
    """Loads questions of one run; safe to call from several threads.

    Args:
        cache: Receives the frames.
        tokenizer: The model's; used under a lock, since fast tokenizers are not made for several threads.
        geometry: The model's.
        video: Budget of a video.
        image_pixels: Least and most pixels of an image; None for the defaults.
        template: Prompt template, or None for the standard one.
    """

    def __init__(
        self,
        *,
        cache: FrameCache,
        tokenizer: Any,
        geometry: ModelGeometry,
        video: VideoBudget,
        image_pixels: tuple[int | None, int | None],
        template: str | Path | None,
    ) -> None:
        self._cache = cache
        self._tokenizer = tokenizer
        self._geometry = geometry
        self._video = video
        self._image_pixels = image_pixels
        self._template = template
        self._lock = threading.Lock()

    def __call__(self, item: Item) -> Loaded | Failed:
        """Never raises for a bad file: what is wrong with the media becomes the row's outcome."""
        start = time.perf_counter()
        try:
            media = self._media(item)
            with self._lock:
                prompt = encode_prompt(
                    item.sample, self._tokenizer, media=media, geometry=self._geometry, template=self._template
                )
        except (DecodeError, ContractError, OSError, ValueError) as error:
            return Failed(item, Outcome.MEDIA_ERROR, _one_line(error), time.perf_counter() - start)
        return Loaded(item, prompt, time.perf_counter() - start)

    def _media(self, item: Item) -> list[MediaHandle]:
        sample = item.sample
        low, high = self._image_pixels
        videos = [
            self._cache.ensure_video(
                path, self._video, self._geometry, start_s=sample.video_start_s, end_s=sample.video_end_s
            )
            for path in sample.videos
        ]
        images = [
            self._cache.ensure_image(path, self._geometry, min_pixels=low, max_pixels=high) for path in sample.images
        ]
        return [*images, *videos]


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
