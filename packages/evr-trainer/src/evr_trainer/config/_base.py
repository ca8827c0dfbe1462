"""What every section of a configuration has in common, and the value types they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class Section(BaseModel):
    """A frozen section: unknown keys and values of another type are refused, nothing is converted silently."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, protected_namespaces=()
    )


def _null_is_empty(value: Any) -> Any:
    return "" if value is None else value


def _one_is_a_list(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _minus_one_or_positive(value: int) -> int:
    if value == -1 or value >= 1:
        return value
    raise ValueError("must be -1 (off) or at least 1")


_DTYPE_NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float": "fp32", "half": "fp16"}


def _short_dtype(value: Any) -> Any:
    return _DTYPE_NAMES.get(value, value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_null_is_empty)]
"""Text whose absence is the empty string, so that null in a file means "not given"."""

LocalPath = Annotated[Path, Field(strict=False), AfterValidator(Path.expanduser)]
"""A path on this machine; ``~`` is expanded, existence is checked by ``check_config``."""

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveFloat = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
CountOrOff = Annotated[int, AfterValidator(_minus_one_or_positive)]
"""At least 1, or -1 for "off", "all" or "no limit"."""

Dtype = Annotated[Literal["bf16", "fp16", "fp32"], BeforeValidator(_short_dtype)]
Device = Literal["auto", "cpu", "cuda"]
LoggerName = Literal["console", "file", "tensorboard", "wandb", "swanlab", "mlflow"]
Loggers = Annotated[tuple[LoggerName, ...], Field(strict=False), BeforeValidator(_one_is_a_list)]
