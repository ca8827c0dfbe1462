"""Digests of files, frames and small values."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor


def digest_file(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_json(value: Any) -> str:
    """SHA-256 of a value's canonical JSON text, in hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest_frames(frames: Tensor) -> str:
    """SHA-256 of the shape and the bytes of a uint8 tensor, in hex."""
    return digest_array(frames.contiguous().numpy())


def digest_array(array: npt.NDArray[Any]) -> str:
    """SHA-256 of the type, the shape and the bytes of an array, in hex."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
