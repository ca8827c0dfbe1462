"""Which geometry a model has: by its name, its configuration, or the folder that holds one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evr_core.geometry import ModelGeometry

_QWEN2 = ModelGeometry(patch_size=14, timestamped_frames=False)
_QWEN2_5 = replace(_QWEN2, tokens_per_second=2.0)  # what the published checkpoints hold; a config file overrides it
_QWEN3 = ModelGeometry()
_TOKENS_PER_SECOND_UNSET = 4.0  # what transformers takes when a Qwen2.5-VL configuration does not say

# Searched in this order in a name or in a config's model_type.
_FAMILIES: tuple[tuple[str, re.Pattern[str], ModelGeometry], ...] = (
    ("Qwen2.5-VL", re.compile(r"qwen2[._]5[-_]?vl"), _QWEN2_5),
    ("Qwen2-VL", re.compile(r"qwen2[-_]?vl"), _QWEN2),
    ("Qwen3-VL", re.compile(r"qwen3[-_]?vl"), _QWEN3),
    ("Qwen3.5", re.compile(r"qwen3[._]5"), _QWEN3),
)


def geometry_for(model: str | Path | Mapping[str, Any] | object) -> ModelGeometry:
    """Return the geometry of a model.

    Args:
        model: A model name such as "Qwen/Qwen3-VL-8B-Instruct", a folder with a ``config.json``, such a file, a
            configuration as a mapping, or a configuration object of transformers. Sizes that a configuration leaves
            out are those of its family.

    Raises:
        ValueError: The family is unknown, or a size in the configuration is not a positive whole number.
        FileNotFoundError: The folder holds no ``config.json``.
    """
    if isinstance(model, ModelGeometry):
        return model
    if isinstance(model, str | Path) and not _is_config_path(Path(model)):
        return _family(str(model), origin="model name")
    return _from_mapping(read_config(model), origin=_origin(model))


def read_config(model: str | Path | Mapping[str, Any] | object) -> Mapping[str, Any]:
    """Return a model's configuration as a mapping, from a folder, a file, a mapping, or an object with ``to_dict``.

    Raises:
        FileNotFoundError: The folder holds no ``config.json``, or there is no such file.
        ValueError: It is none of these, or not a JSON object.
    """
    if isinstance(model, Mapping):
        return model
    if callable(getattr(model, "to_dict", None)):
        return dict(model.to_dict())  # type: ignore[attr-defined]
    if not isinstance(model, str | Path):
        raise ValueError(f"got {type(model).__name__}; give a model folder, its config.json, or a configuration")
    path = Path(model)
    path = path if path.suffix == ".json" else path / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; a model folder must hold the model's config.json")
    config = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(config).__name__}")
    return config


def _is_config_path(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".json"


def _origin(model: object) -> str:
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def _family(name: str, *, origin: str) -> ModelGeometry:
    lowered = name.lower()
    for _, pattern, geometry in _FAMILIES:
        if pattern.search(lowered):
            return geometry
    known = ", ".join(family for family, _, _ in _FAMILIES)
    raise ValueError(
        f"{origin}: no known model family in {name!r}; known families: {known}. "
        "Give the folder of the model (with its config.json), or a ModelGeometry of your own"
    )


def _from_mapping(config: Mapping[str, Any], *, origin: str) -> ModelGeometry:
    preset = _family(str(config.get("model_type", "")), origin=f"{origin}: model_type")
    vision = config.get("vision_config", config)
    if not isinstance(vision, Mapping):
        vision = vision.to_dict()

    def size(key: str, default: int) -> int:
        value = vision.get(key)
        return default if value is None else _positive_int(value, f"{origin}: vision_config.{key}")

    geometry = replace(
        preset,
        patch_size=size("patch_size", preset.patch_size),
        temporal_patch_size=size("temporal_patch_size", preset.temporal_patch_size),
        spatial_merge_size=size("spatial_merge_size", preset.spatial_merge_size),
    )
    if preset.tokens_per_second is None:
        return geometry
    return replace(geometry, tokens_per_second=float(vision.get("tokens_per_second") or _TOKENS_PER_SECOND_UNSET))


def _positive_int(value: object, where: str) -> int:
    if isinstance(value, list | tuple) and value and all(item == value[0] for item in value):
        value = value[0]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{where}: got {value!r}; expected a positive whole number, the same for height and width")
    return value
