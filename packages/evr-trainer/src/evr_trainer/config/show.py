"""A configuration as YAML, and what differs between two."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from ._base import Section
from ._schema import known_paths, value_at


@dataclass(frozen=True)
class Difference:
    """One key with its value on either side."""

    path: str
    left: object
    right: object


def resolved_yaml(config: Section) -> str:
    """Every key with its value, as YAML that loads to an equal configuration."""
    content = config.model_dump(mode="json")
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def diff_configs(left: Section, right: Section) -> tuple[Difference, ...]:
    """The keys whose values differ, in the order of the file.

    Raises:
        ValueError: The two are of different kinds.
    """
    if type(left) is not type(right):
        raise ValueError(f"cannot compare {type(left).__name__} with {type(right).__name__}; give two of one kind")
    pairs = ((path, value_at(left, path), value_at(right, path)) for path in known_paths(type(left)))
    return tuple(
        Difference(path, ours, theirs)
        for path, ours, theirs in pairs
        if not isinstance(ours, Section) and ours != theirs
    )


class _Dumper(yaml.SafeDumper):
    """Writes 1e-06 as 1.0e-06, so that every YAML reader takes it for a number."""


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(float, _number)
