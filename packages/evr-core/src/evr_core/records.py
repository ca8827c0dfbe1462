"""Read training and evaluation records into samples."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from evr_core._record_errors import BadRecord, FieldError, RecordError
from evr_core._record_files import RawRecord
from evr_core._record_parse import parse_record
from evr_core._record_sources import open_source
from evr_core.schema import RecordFields, Sample

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SampleSet:
    """The samples of a source, in file order, and the records that were left out."""

    samples: tuple[Sample, ...]
    rejected: tuple[BadRecord, ...] = ()

    def __len__(self) -> int:
        return len(self.samples)


def read_samples(
    path: str | Path,
    *,
    fields: RecordFields | None = None,
    media_dir: str | Path | None = None,
    require_answer: bool = True,
    skip_bad_records: bool = False,
) -> SampleSet:
    """Read all records of a source.

    Args:
        path: A JSON array, a JSON lines or Parquet file, a folder of them, or the id of a hub data set; "path@split"
            takes one split.
        fields: Names of the configurable fields.
        media_dir: Folder that relative media paths start from; they stay as written without it. Whether the files
            exist is the business of ``missing_media``.
        require_answer: Whether a record without ground truth is malformed.
        skip_bad_records: List malformed records in ``rejected`` and go on, instead of raising.

    Raises:
        RecordError: A record is malformed (or a file is not readable from some place on, whatever
            ``skip_bad_records`` says).
        FileNotFoundError: There is no such file or folder.
        ValueError: The source holds no records, has no such split, or is of an unknown kind.
    """
    names = fields or RecordFields()
    folder = None if media_dir is None else Path(media_dir)
    samples: list[Sample] = []
    rejected: list[BadRecord] = []
    for raw in open_source(path):
        result = _sample_or_bad(raw, names, folder, require_answer)
        if isinstance(result, Sample):
            samples.append(result)
        elif skip_bad_records:
            rejected.append(result)
        else:
            raise RecordError(result)
    if not samples and not rejected:
        raise ValueError(f"{path}: holds no records")
    if rejected:
        _logger.warning("%s: left out %d of %d records", path, len(rejected), len(rejected) + len(samples))
    return SampleSet(_with_unique_ids(samples), tuple(rejected))


def missing_media(samples: Iterable[Sample]) -> list[tuple[Sample, Path]]:
    """Return the media files that are not there or are empty, each with the sample that names it."""
    state: dict[Path, bool] = {}
    missing = []
    for sample in samples:
        for path in (*sample.images, *sample.videos):
            if path not in state:
                state[path] = path.is_file() and path.stat().st_size > 0
            if not state[path]:
                missing.append((sample, path))
    return missing


def _sample_or_bad(
    raw: RawRecord, fields: RecordFields, media_dir: Path | None, require_answer: bool
) -> Sample | BadRecord:
    if raw.error is not None:
        return raw.error
    try:
        return parse_record(
            raw.fields, fields=fields, media_dir=media_dir, require_answer=require_answer, origin=raw.origin
        )
    except FieldError as error:
        return BadRecord(raw.origin, error.field, error.value, error.reason)


def _with_unique_ids(samples: list[Sample]) -> tuple[Sample, ...]:
    """Keep every sample: the second sample with an id becomes "id#2", the third "id#3"."""
    counts = Counter(sample.problem_id for sample in samples)
    repeated = sum(count - 1 for count in counts.values())
    if not repeated:
        return tuple(samples)
    _logger.warning("%d records repeat the id of an earlier one; they are numbered (id#2, id#3, ...)", repeated)
    taken = set(counts)
    seen: Counter[str] = Counter()
    unique = []
    for sample in samples:
        name = sample.problem_id
        seen[name] += 1
        if seen[name] > 1:
            while (name := f"{sample.problem_id}#{seen[sample.problem_id]}") in taken:
                seen[sample.problem_id] += 1
            taken.add(name)
        unique.append(replace(sample, problem_id=name))
    return tuple(unique)
