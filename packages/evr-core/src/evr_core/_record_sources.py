"""Where records come from: a file, a folder of files, or a data set of the hub, with an optional ``@split``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from evr_core._record_files import SUFFIXES, RawRecord, read_raw

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def open_source(source: str | Path) -> Iterator[RawRecord]:
    """Yield the raw records of a source.

    Raises:
        FileNotFoundError: There is no such file or folder.
        ValueError: The folder has no record files, or the split does not exist.
        RecordError: A file is broken.
    """
    name, split = _split_name(str(source))
    path = Path(name)
    if path.is_dir():
        return chain.from_iterable(read_raw(file) for file in _folder_files(path, split))
    if path.is_file():
        return read_raw(path, split=split)
    if _HUB_ID.fullmatch(name) and path.suffix not in SUFFIXES:
        return _read_hub(name, split)
    raise FileNotFoundError(f"{name}: no such record file or folder; the working folder is {Path.cwd()}")


def _split_name(source: str) -> tuple[str, str | None]:
    if "@" not in source or Path(source).exists():
        return source, None
    name, _, split = source.rpartition("@")
    return name, split


def _folder_files(folder: Path, split: str | None) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)
    if split is None:
        if not files:
            raise ValueError(f"{folder}: no record files in this folder; allowed: {', '.join(SUFFIXES)}")
        return files
    inside = folder / split
    if inside.is_dir():
        return _folder_files(inside, None)
    # "train.jsonl", or the shards that the hub writes: "train-00000-of-00002.parquet".
    chosen = [file for file in files if file.stem == split or re.match(rf"{re.escape(split)}-\d", file.stem)]
    if not chosen:
        raise ValueError(f"{folder}@{split}: no such split; the folder has {[file.name for file in files]}")
    return chosen


def _read_hub(name: str, split: str | None) -> Iterator[RawRecord]:
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise FileNotFoundError(
            f"{name}: no such record file or folder. If this is a data set of the hub, "
            "install the package datasets (evr-core[hub])"
        ) from error
    rows = datasets.load_dataset(name, split=split or "train")
    return (RawRecord(f"{name}@{split or 'train'}:{row}", dict(fields)) for row, fields in enumerate(rows, start=1))
