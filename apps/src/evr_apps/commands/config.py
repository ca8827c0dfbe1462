"""``evr config``: look at training configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Show, compare and explain training configurations.", no_args_is_help=True)
_Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Dotted overrides.")]
_ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML file with the run's settings.")]


@app.command(epilog="Example: evr config show --config run.yaml trainer.max_steps=10 --changed")
def show(
    overrides: _Overrides = None,
    config: _ConfigFile = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the defaults.")] = False,
) -> None:
    """Print the whole configuration as YAML: defaults, file and overrides together."""
    import yaml

    from evr_trainer.config import TrainConfig, diff_configs, load_config, resolved_yaml

    settings = load_config(config, tuple(overrides or ()))
    text = resolved_yaml(settings)
    if changed:
        kept = {difference.path for difference in diff_configs(TrainConfig(), settings)}
        text = yaml.safe_dump(_only(yaml.safe_load(text), kept), sort_keys=False, allow_unicode=True)
    typer.echo(text.rstrip())


@app.command(epilog="Example: evr config diff old.yaml new.yaml")
def diff(
    first: Annotated[Path, typer.Argument(help="YAML file.")],
    second: Annotated[Path, typer.Argument(help="YAML file to compare with it.")],
) -> None:
    """Print the keys whose values differ between two files, defaults filled in."""
    from rich.table import Table

    from evr_apps.commands.console import console
    from evr_trainer.config import diff_configs, load_config

    table = Table("key", str(first), str(second), box=None, pad_edge=False)
    for difference in diff_configs(load_config(first), load_config(second)):
        table.add_row(difference.path, _text(difference.left), _text(difference.right))
    if table.row_count:
        console().print(table)
    else:
        console().print("The two configurations are the same.")


@app.command(epilog="Example: evr config schema worker.rollout")
def schema(
    prefix: Annotated[str, typer.Argument(help="Only keys that start with this, such as worker.rollout.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array, for programs.")] = False,
) -> None:
    """List every key with its type, default and meaning."""

    from rich.text import Text

    from evr_apps.commands.console import console
    from evr_trainer.config import config_schema_rows

    rows = [row for row in config_schema_rows() if row.path == prefix or row.path.startswith(_section(prefix))]
    if not rows:
        raise ValueError(f"no configuration key starts with {prefix!r}; `evr config schema` lists all of them")
    if as_json:
        fields = [{"key": r.path, "type": r.type, "default": r.default, "meaning": r.description} for r in rows]
        typer.echo(json.dumps(fields, indent=2, default=str))
        return
    for row in rows:
        console().print(
            Text.assemble((row.path, "bold"), f"  {row.type}; default {_text(row.default)}"), soft_wrap=True
        )
        console().print(f"    {row.description}", style="dim", soft_wrap=True)


def _section(prefix: str) -> str:
    return f"{prefix}." if prefix else ""


def _only(values: dict[str, Any], paths: set[str], prefix: str = "") -> dict[str, Any]:
    """The part of nested values whose dotted paths are wanted."""
    kept: dict[str, Any] = {}
    for key, value in values.items():
        if f"{prefix}{key}" in paths:
            kept[key] = value
        elif isinstance(value, dict):
            inner = _only(value, paths, f"{prefix}{key}.")
            kept |= {key: inner} if inner else {}
    return kept


def _text(value: object) -> str:
    return json.dumps(value, default=str)
