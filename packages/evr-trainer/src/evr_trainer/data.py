"""Records become prompts, in an order that can be taken up again anywhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evr_core import ModelGeometry, Sample, SampleSet, missing_media, read_samples
from evr_trainer.assets import ModelAssets
from evr_trainer.config import DataConfig
from evr_video import EncodedPrompt, FrameCache, MediaHandle, PreprocessError, encode_prompt, preprocess_samples

__all__ = ["EpochSampler", "PromptDataset", "media_kinds", "read_records"]

_log = logging.getLogger(__name__)


class PromptDataset:
    """Samples whose media are in the frame cache and whose prompts fit.

    Prompts are encoded when asked for; only samples and handles are held.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        handles: Sequence[tuple[MediaHandle, ...]],
        tokenizer: Any,
        geometry: ModelGeometry,
        *,
        template: Path | None = None,
        num_skipped: int = 0,
    ) -> None:
        self.samples = list(samples)
        self._handles = list(handles)
        self.tokenizer = tokenizer
        self.geometry = geometry
        self.template = template
        self.num_skipped = num_skipped  # records left out as malformed, unreadable or too long

    def __len__(self) -> int:
        return len(self.samples)

    def prompt(self, index: int) -> EncodedPrompt:
        """The encoded prompt of a sample."""
        return encode_prompt(
            self.samples[index],
            self.tokenizer,
            media=self._handles[index],
            geometry=self.geometry,
            template=self.template,
        )

    @classmethod
    def build(
        cls,
        found: SampleSet,
        data: DataConfig,
        assets: ModelAssets,
        *,
        validation: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> PromptDataset:
        """Fill the frame cache with what it lacks of the records' media, and check every prompt's length.

        Args:
            found: What ``read_records`` gave.
            data: Budgets, cache and limits.
            assets: Of the model that will see the prompts.
            validation: Whether these are the validation records, which may have a budget of their own.
            on_progress: Called with (media done, media in all).

        Raises:
            ValueError: Media that cannot be decoded (unless ``data.skip_bad_records``), an overlong prompt (unless
                ``data.filter_overlong_prompts``), or no record left.
        """
        path = _source(data, validation)
        samples = list(found.samples)
        least, most = data.image_pixels
        try:
            result = preprocess_samples(
                samples,
                FrameCache(data.frame_cache_dir),
                data.val_video_budget() if validation else data.video_budget(),
                assets.geometry,
                image_min_pixels=least,
                image_max_pixels=most,
                workers=data.preprocess_workers,
                skip_errors=data.skip_bad_records,
                timeout_s=data.decode_timeout_s,
                on_progress=on_progress,
            )
        except PreprocessError as error:
            raise ValueError(
                f"{path}: {error}\nSet data.skip_bad_records=true to train without the records of these files"
            ) from error
        for failure in result.failures:
            _log.warning("record skipped: %s", failure)
        usable = [(s, h) for s, h in zip(samples, result.handles, strict=True) if h is not None]
        dataset = cls(
            [s for s, _ in usable],
            [h for _, h in usable],
            assets.tokenizer,
            assets.geometry,
            template=data.format_prompt,
            num_skipped=len(found.rejected) + len(samples) - len(usable),
        )
        dataset._check_lengths(data.max_prompt_length, data.filter_overlong_prompts)
        if not len(dataset):
            raise ValueError(
                f"{path}: no record is left to use; {len(found.rejected)} were malformed, "
                f"{len(samples) - len(usable)} had media that cannot be read, the others were too long. The log "
                "lists them"
            )
        return dataset

    def _check_lengths(self, limit: int, drop: bool) -> None:
        lengths = [len(self.prompt(i).token_ids) for i in range(len(self))]
        overlong = [i for i, length in enumerate(lengths) if length > limit]
        if not overlong:
            return
        first = overlong[0]
        message = (
            f"{len(overlong)} of {len(self)} prompts are longer than data.max_prompt_length={limit}; the first is "
            f"{self.samples[first].problem_id} ({self.samples[first].origin}) with {lengths[first]} tokens"
        )
        if not drop:
            raise ValueError(
                f"{message}. Raise max_prompt_length, spend fewer frames or pixels, or set "
                "data.filter_overlong_prompts=true"
            )
        _log.warning("%s; they are left out", message)
        keep = [i for i, length in enumerate(lengths) if length <= limit]
        self.samples = [self.samples[i] for i in keep]
        self._handles = [self._handles[i] for i in keep]
        self.num_skipped += len(overlong)


def read_records(data: DataConfig, *, validation: bool = False) -> SampleSet:
    """The training (or validation) records, none of whose media is missing.

    Raises:
        RecordError: A malformed record (unless ``data.skip_bad_records``; then it is logged and counted).
        ValueError: Missing or empty media files (unless ``data.skip_bad_records``; decoding then counts them).
    """
    path, skip = _source(data, validation), data.skip_bad_records
    file = Path(path.partition("@")[0])
    beside = file if file.is_dir() else file.parent  # of a hub data set: the working directory
    found = read_samples(path, fields=data.record_fields, media_dir=data.image_dir or beside, skip_bad_records=skip)
    for bad in found.rejected:
        _log.warning("record skipped: %s", bad)
    if not skip:
        _refuse_missing(path, found.samples)
    return found


def media_kinds(found: SampleSet) -> set[Literal["video", "image"]]:
    """The media that the records hold."""
    kinds: set[Literal["video", "image"]] = set()
    if any(sample.videos for sample in found.samples):
        kinds.add("video")
    if any(sample.images for sample in found.samples):
        kinds.add("image")
    return kinds


def _source(data: DataConfig, validation: bool) -> str:
    return data.val_files if validation else data.train_files


def _refuse_missing(path: str, samples: Sequence[Sample]) -> None:
    missing = missing_media(samples)
    if missing:
        listed = "\n".join(f"  - {sample.origin}: {file}" for sample, file in missing[:10])
        more = f"\n  ... and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise ValueError(
            f"{path}: {len(missing)} media files are missing or empty:\n{listed}{more}\n"
            "Check data.image_dir, or set data.skip_bad_records=true to train without these records"
        )


@dataclass
class EpochSampler:
    """Every index once an epoch, shuffled by (seed, epoch). The position is all the state there is.

    An epoch's remainder that does not fill a batch is carried into the next epoch, so no sample is left out.
    """

    size: int
    seed: int
    shuffle: bool = True
    position: int = 0  # samples drawn since the start of the run

    def take(self, count: int) -> list[int]:
        """The next ``count`` indices."""
        taken = [self._order(p // self.size)[p % self.size] for p in range(self.position, self.position + count)]
        self.position += count
        return taken

    @property
    def epoch(self) -> int:
        """Full passes made."""
        return self.position // self.size

    def _order(self, epoch: int) -> list[int]:
        if not self.shuffle:
            return list(range(self.size))
        if getattr(self, "_cached_epoch", None) != epoch:
            self._cached_epoch = epoch
            self._cached_order = [int(i) for i in np.random.default_rng([self.seed, epoch]).permutation(self.size)]
        return self._cached_order
