"""Hashes that decide whether a stored row still answers the question."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_MODEL_SUFFIXES = {".json", ".jinja", ".txt", ".safetensors", ".model"}


def digest_of(value: Any, *, length: int = 16) -> str:
    """Hex digest of a JSON-able value."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def token_digest(token_ids: npt.NDArray[np.int32] | Sequence[int]) -> str:
    """Hex digest of a prompt's token ids. [P]"""
    return hashlib.sha256(np.ascontiguousarray(token_ids, dtype="<i4").tobytes()).hexdigest()[:16]


def model_digest(model_path: Path) -> str:
    """Hex digest over the content of a model folder's weights, configuration, tokenizer and templates.

    Raises:
        ValueError: The folder does not exist or holds no ``config.json``.
    """
    if not (model_path / "config.json").is_file():
        raise ValueError(f"model_path {model_path} is no local Hugging Face folder (it has no config.json)")
    files = sorted(path for path in model_path.iterdir() if path.is_file() and path.suffix in _MODEL_SUFFIXES)
    with ThreadPoolExecutor(max_workers=4) as pool:
        digests = list(pool.map(_file_digest, files))
    return digest_of([[path.name, digest] for path, digest in zip(files, digests, strict=True)])


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
