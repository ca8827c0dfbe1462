"""From a YAML file and dotted overrides to a configuration, with every mistake reported at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError
from yaml import YAMLError

from ._base import Section
from ._ignored import config_warnings
from ._messages import key_path, problems_of
from ._schema import field_at, plain_type, section_of
from .errors import ConfigError, Problem
from .root import TrainConfig

_log = logging.getLogger(__name__)
_MISSING = "???"

S = TypeVar("S", bound=Section)


def load_config(file: Path | str | None = None, overrides: Sequence[str] = ()) -> TrainConfig:
    """Defaults, then the YAML file, then overrides ``a.b.c=value``; the file may also come as ``config=file.yaml``.

    Interpolations such as ``${trainer.project_name}`` see defaults too. Keys without effect are logged as warnings.

    Raises:
        ConfigError: lists every unreadable file, malformed override, unknown key and wrong value at once.
    """
    return load_section(TrainConfig, file, overrides)


def load_section(root: type[S], file: Path | str | None, overrides: Sequence[str]) -> S:
    """``load_config`` for any root section."""
    config, problems = load_leniently(root, file, overrides)
    if problems:
        raise ConfigError(problems)
    log_warnings(config)
    return config


def log_warnings(config: Section) -> None:
    """Say which of the given keys have no effect."""
    for warning in config_warnings(config):
        _log.warning("%s", warning)


def load_leniently(root: type[S], file: Path | str | None, overrides: Sequence[str]) -> tuple[S, list[Problem]]:
    """The configuration without the values that are wrong (defaults in their place), and what is wrong with them."""
    problems: list[Problem] = []
    file, overrides = _split_file(file, overrides, problems)
    given = _read_file(file, problems) if file is not None else {}
    for override in overrides:
        _apply(override, given, root, problems)
    given = _resolve(_complete(given, root, "", problems), root, problems)
    try:
        return root.model_validate(given), problems
    except ValidationError as error:
        problems.extend(problems_of(error, root))
        for detail in error.errors(include_url=False):
            known = key_path(detail["loc"], root)
            unknown = detail["type"] == "extra_forbidden"
            _drop(given, [str(part) for part in detail["loc"]] if unknown else known.split("."))
        return root.model_validate(given), problems


def _split_file(
    file: Path | str | None, overrides: Sequence[str], problems: list[Problem]
) -> tuple[Path | None, list[str]]:
    files = [item.partition("=")[2] for item in overrides if item.startswith("config=")]
    rest = [item for item in overrides if not item.startswith("config=")]
    if len(files) + (file is not None) > 1:
        problems.append(
            Problem("config", "the file is given more than once; give one", [*map(str, filter(None, [file])), *files])
        )
    chosen = file if file is not None else (files[0] if files else None)
    return (Path(chosen).expanduser() if chosen is not None else None), rest


def _read_file(file: Path, problems: list[Problem]) -> dict[str, Any]:
    if not file.is_file():
        problems.append(Problem("config", "there is no such file; give the path of a YAML file", str(file)))
        return {}
    try:
        content = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
    except (YAMLError, OmegaConfBaseException, OSError, UnicodeDecodeError) as error:
        problems.append(Problem("config", f"not readable as YAML: {_one_line(error)}", str(file)))
        return {}
    if not isinstance(content, dict):
        problems.append(Problem("config", "the file must hold a mapping of sections, not a list", str(file)))
        return {}
    return {str(key): value for key, value in content.items()}


def _apply(override: str, given: dict[str, Any], root: type[Section], problems: list[Problem]) -> None:
    path, equals, text = override.partition("=")
    names = path.strip().lstrip("-").split(".")
    if not equals or not all(names):
        problems.append(Problem(override, "an override is written a.b.c=value"))
        return
    try:
        value = _parse(text, ".".join(names), root)
    except (YAMLError, OmegaConfBaseException) as error:
        problems.append(Problem(".".join(names), f"not readable as a YAML value: {_one_line(error)}", text))
        return
    section = given
    for depth, name in enumerate(names[:-1], start=1):
        inner = section.setdefault(name, {})
        if inner is None:
            inner = section[name] = {}
        if not isinstance(inner, dict):
            reason = f"{'.'.join(names[:depth])} was given a value, {inner!r}, and is no section; leave that out"
            problems.append(Problem(".".join(names), reason, value))
            return
        section = inner
    section[names[-1]] = value


def _parse(text: str, path: str, root: type[Section]) -> Any:
    """A value as YAML reads it; where a key takes text or a path, ``42`` and ``a: b`` are text too."""
    field = field_at(root, path)
    takes_text = field is not None and plain_type(field).split(",")[0] in ("text", "path")
    if takes_text and text not in ("null", "~", "") and text[:1] not in "\"'":
        return text
    return OmegaConf.to_container(OmegaConf.from_dotlist([f"value={text}"]), resolve=False)["value"]  # type: ignore[index,call-overload]


def _resolve(given: dict[str, Any], root: type[Section], problems: list[Problem]) -> dict[str, Any]:
    """``given`` with its interpolations resolved against itself and the defaults; those that fail are left out."""
    try:
        everything = OmegaConf.create(_merged(root().model_dump(mode="json"), given))
    except (OmegaConfBaseException, ValueError) as error:
        problems.append(Problem("config", f"cannot be read: {_one_line(error)}"))
        return {}
    return _resolved(given, everything, "", problems)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merged(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _resolved(given: dict[str, Any], node: Any, prefix: str, problems: list[Problem]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, dict):
            kept[key] = _resolved(value, node[key], f"{prefix}{key}.", problems)
            continue
        if "${" not in str(value):
            kept[key] = value
            continue
        try:
            found = node[key]
            kept[key] = OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found
        except OmegaConfBaseException as error:
            problems.append(Problem(f"{prefix}{key}", f"cannot be resolved: {_one_line(error)}", value))
    return kept


def _complete(given: dict[str, Any], root: type[Section], prefix: str, problems: list[Problem]) -> dict[str, Any]:
    """``given`` without empty sections and without values ``???``, each of which is a problem."""
    kept: dict[str, Any] = {}
    for key, value in given.items():
        path = f"{prefix}{key}"
        field = field_at(root, path)
        if value == _MISSING:
            problems.append(Problem(path, "has no value yet; give one in the file or as an override", value))
        elif isinstance(value, dict):
            kept[str(key)] = _complete(value, root, f"{path}.", problems)
        elif value is not None or field is None or section_of(field) is None:
            kept[str(key)] = value
    return kept


def _drop(given: dict[str, Any], names: Sequence[str]) -> None:
    section: Any = given
    for name in names[:-1]:
        section = section.get(name) if isinstance(section, dict) else None
    if isinstance(section, dict):
        section.pop(names[-1], None)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
