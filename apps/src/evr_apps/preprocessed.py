"""Record files that say where each sample's frames lie in the cache."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evr_core import Sample
    from evr_video import MediaHandle


def record_of(sample: Sample, handles: Sequence[MediaHandle], *, relative_to: Path) -> dict[str, Any]:
    """The sample as a record again, its media paths relative to a folder, with the handles of its cached frames."""
    record: dict[str, Any] = {
        **sample.extra,
        "problem_id": sample.problem_id,
        "problem": sample.problem,
        "answer": sample.answer,
        "problem_type": str(sample.problem_type),
        "data_type": str(sample.data_type),
        "images": [os.path.relpath(path, relative_to) for path in sample.images],
        "videos": [os.path.relpath(path, relative_to) for path in sample.videos],
        "options": list(sample.options),
        "data_source": sample.data_source,
        "preprocessed_media": [handle.to_dict() for handle in handles],
    }
    if sample.video_start_s is not None:
        record["video_start"] = sample.video_start_s
    if sample.video_end_s is not None:
        record["video_end"] = sample.video_end_s
    return record


def write_records(pairs: Iterable[tuple[Sample, Sequence[MediaHandle]]], path: Path) -> int:
    """Write one record a line, the whole file or nothing; the number of records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record_of(sample, handles, relative_to=path.parent)) for sample, handles in pairs]
    staged = path.with_name(path.name + ".tmp")
    staged.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    staged.replace(path)
    return len(lines)
