"""One cache entry: a safetensors file with the frames, their times, and what they are as JSON in the header."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

_MAX_HEADER_BYTES = 1 << 24


class EntryError(ValueError):
    """A cache entry is missing or damaged."""


def write_entry(path: Path, staging: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Write beside, flush to disk, then rename: a reader sees the whole entry or none."""
    staging.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        save_file(tensors, staging, metadata={"evr": json.dumps(meta, sort_keys=True)})
        with staging.open("rb") as file:
            os.fsync(file.fileno())
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)


def read_meta(path: Path) -> dict[str, Any]:
    """The JSON of an entry's header, without touching the frames."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MAX_HEADER_BYTES:
                raise EntryError(f"cache entry {path} is damaged: header of {length} bytes")
            header = json.loads(file.read(length))
        meta: dict[str, Any] = json.loads(header["__metadata__"]["evr"])
        return meta
    except FileNotFoundError as error:
        raise EntryError(f"cache entry {path} is gone; run the preprocessing again") from error
    except (struct.error, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise EntryError(f"cache entry {path} is damaged: {error!r}") from error


def map_entry(path: Path) -> dict[str, Tensor]:
    """The entry's tensors, mapped from the file: pages are read when touched, and writes do not reach the file."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except FileNotFoundError as error:
        raise EntryError(f"cache entry {path} is gone; run the preprocessing again") from error
    except (SafetensorError, OSError) as error:
        raise EntryError(f"cache entry {path} is damaged: {error}") from error
