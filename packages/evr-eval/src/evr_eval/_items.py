"""From a benchmark's records to the questions of a run, each with a stable identity."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evr_core import BadRecord, Sample, read_samples, render_prompt
from evr_eval._digest import digest_of
from evr_eval.benchmark import Benchmark

MISSING_GROUP = "(none)"


@dataclass(frozen=True)
class Item:
    """One question of the run.

    Attributes:
        sample_id: The record's id, unique in the file.
        record_digest: Digest of everything of the record that can move the row.
        cluster: Its media, or its own id without media.
        groups: Value of each group key.
        sample: The record.
    """

    sample_id: str
    record_digest: str
    cluster: str
    groups: dict[str, str]
    sample: Sample


@dataclass(frozen=True)
class ItemSet:
    """The questions, the records that could not be read, and the number there should be."""

    items: tuple[Item, ...]
    rejected: tuple[BadRecord, ...]
    num_expected: int
    count_note: str


def read_items(
    benchmark: Benchmark,
    *,
    data_dir: Path | None,
    template: str | Path | None,
    skip_bad_records: bool,
    max_samples: int | None,
) -> ItemSet:
    """Reads and identifies the questions; nothing that the file holds leaves the denominator.

    Raises:
        RecordError: A record is malformed and ``skip_bad_records`` is off.
    """
    found = read_samples(
        benchmark.record_path(data_dir),
        fields=benchmark.fields.record_fields(),
        media_dir=benchmark.media_path(data_dir),
        skip_bad_records=skip_bad_records,
    )
    items = identify(found.samples, benchmark, media_dir=benchmark.media_path(data_dir), template=template)
    num_found = len(found.samples) + len(found.rejected)
    num_expected, note = _expected(benchmark, num_found)
    if max_samples is not None and max_samples < num_expected:
        note = f"first {max_samples} of {num_expected} samples" + (f"; {note}" if note else "")
        return ItemSet(items[:max_samples], found.rejected, max_samples, note)
    return ItemSet(items, found.rejected, num_expected, note)


def identify(
    samples: Sequence[Sample], benchmark: Benchmark, *, media_dir: Path, template: str | Path | None
) -> tuple[Item, ...]:
    """Gives every sample what a run keeps apart and adds up by; ids are unique as ``read_samples`` leaves them."""
    if benchmark.problem_type is not None:
        samples = [dataclasses.replace(sample, problem_type=benchmark.problem_type) for sample in samples]
    items = []
    for sample in samples:
        media = [media_name(path, media_dir) for path in (*sample.videos, *sample.images)]
        cluster = "|".join(media) if media else f"text:{sample.problem_id}"
        groups = {key.name: _group_value(sample, key.fields) for key in benchmark.group_keys}
        items.append(Item(sample.problem_id, _record_digest(sample, media, template), cluster, groups, sample))
    return tuple(items)


def by_media(items: Sequence[Item]) -> list[list[Item]]:
    """Questions on the same media together, in the order in which the media first appear."""
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.cluster].append(item)
    return list(groups.values())


def media_name(path: Path, media_dir: Path) -> str:
    """The path below the media folder, or the whole path of a file outside it."""
    return path.relative_to(media_dir).as_posix() if path.is_relative_to(media_dir) else path.as_posix()


def _record_digest(sample: Sample, media: list[str], template: str | Path | None) -> str:
    return digest_of(
        [
            render_prompt(sample, template=template),
            sample.problem_type.value,
            sample.answer,
            sample.options,
            media,
            sample.video_start_s,
            sample.video_end_s,
        ]
    )


def _group_value(sample: Sample, fields: tuple[str, ...]) -> str:
    for field in fields:
        value = sample.extra.get(field)
        if value is not None:
            return str(value)
        if field == "data_source" and sample.data_source:
            return sample.data_source
    return MISSING_GROUP


def _expected(benchmark: Benchmark, num_found: int) -> tuple[int, str]:
    expected = benchmark.expected_count
    if expected is None or expected == num_found:
        return num_found, ""
    note = f"{benchmark.label} has {expected} questions, the record file holds {num_found}"
    return max(expected, num_found), note
