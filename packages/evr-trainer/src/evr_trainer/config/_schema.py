"""Rows about every key of a configuration model: its dotted path, type in plain words, default and description."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from ._base import Section, _minus_one_or_positive
from .root import TrainConfig

_PLAIN = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path"}


@dataclass(frozen=True)
class SchemaRow:
    """One key: dotted path, type in plain words, default value, what it does."""

    path: str
    type: str
    default: object
    description: str


def config_schema_rows(root: type[Section] = TrainConfig) -> tuple[SchemaRow, ...]:
    """All keys of ``root`` in the order of the file, sections left out."""
    return tuple(_rows(root))


def _rows(root: type[Section], prefix: str = "") -> Iterator[SchemaRow]:
    for name, field in root.model_fields.items():
        section = section_of(field)
        if section is not None:
            yield from _rows(section, f"{prefix}{name}.")
        else:
            default = field.get_default(call_default_factory=True)
            yield SchemaRow(f"{prefix}{name}", plain_type(field), default, field.description or "")


def section_of(field: FieldInfo) -> type[Section] | None:
    """The section that a field holds, or None for a value."""
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None


@cache
def known_paths(root: type[Section]) -> tuple[str, ...]:
    """Dotted paths of all keys and sections of ``root``."""
    return tuple(_paths(root))


def _paths(root: type[Section], prefix: str = "") -> Iterator[str]:
    for name, field in root.model_fields.items():
        yield f"{prefix}{name}"
        section = section_of(field)
        if section is not None:
            yield from _paths(section, f"{prefix}{name}.")


def field_at(root: type[Section], path: str) -> FieldInfo | None:
    """The field at a dotted path, or None when there is none."""
    section: type[Section] | None = root
    field: FieldInfo | None = None
    for name in path.split("."):
        field = section.model_fields.get(name) if section is not None else None
        if field is None:
            return None
        section = section_of(field)
    return field


def value_at(config: Section, path: str) -> Any:
    """The value at a dotted path of a configuration."""
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


def given_paths(config: Section, prefix: str = "") -> Iterator[str]:
    """Dotted paths of the keys that the user gave, in the order of the model."""
    for name in type(config).model_fields:
        if name not in config.model_fields_set:
            continue
        value = getattr(config, name)
        if isinstance(value, Section):
            yield from given_paths(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def plain_type(field: FieldInfo) -> str:
    """A field's type in plain words, with its range."""
    return _plain(field.annotation, tuple(field.metadata))


def _plain(annotation: Any, metadata: tuple[Any, ...] = ()) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _plain(annotation.__origin__, (*annotation.__metadata__, *metadata))
    if origin in (Union, types.UnionType):
        kept = [argument for argument in arguments if argument is not type(None)]
        words = " or ".join(_plain(argument, metadata) for argument in kept)
        return f"{words}, or null" if len(kept) < len(arguments) else words
    if origin is Literal:
        return "one of " + ", ".join(str(argument) for argument in arguments)
    if origin is tuple:
        return _plain_list(arguments)
    if origin in (dict, Mapping):
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "section"
    return _PLAIN.get(annotation, str(annotation)) + _range(metadata)


def _plain_list(arguments: tuple[Any, ...]) -> str:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return f"list of {_plain(arguments[0])}"
    return f"list of {len(arguments)}: " + "; ".join(_plain(argument) for argument in arguments)


def _range(metadata: tuple[Any, ...]) -> str:
    words: list[str] = []
    for item in metadata:
        for bound in item.metadata if isinstance(item, FieldInfo) else (item,):
            match bound:
                case Ge(ge=value):
                    words.append(f">= {value}")
                case Gt(gt=value):
                    words.append(f"> {value}")
                case Le(le=value):
                    words.append(f"<= {value}")
                case Lt(lt=value):
                    words.append(f"< {value}")
                case AfterValidator(func=function) if function is _minus_one_or_positive:
                    words.append(">= 1, or -1")
                case _:
                    pass
    return " " + " and ".join(words) if words else ""
