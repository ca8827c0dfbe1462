"""``evr eval``: one model on one benchmark or record file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from evr_eval import Estimate, EvalSummary

EXAMPLE = "Example: evr eval --model-path policy --records val.jsonl --output-dir eval max_frames=64"


def evaluate(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="More settings, such as max_frames=64 or image_max_pixels=802816."
        ),
    ] = None,
    model_path: Annotated[Path, typer.Option("--model-path", "--model_path", help="Hugging Face model folder.")] = ...,  # type: ignore[assignment]
    output_dir: Annotated[
        Path, typer.Option("--output-dir", "--output_dir", help="Receives results.jsonl and summary.json.")
    ] = ...,  # type: ignore[assignment]
    records: Annotated[Path | None, typer.Option(help="Record file of your own.")] = None,
    media_dir: Annotated[
        Path | None,
        typer.Option("--media-dir", "--image_dir", help="Folder of the records' media; default: beside them."),
    ] = None,
    benchmark: Annotated[str | None, typer.Option(help="Built-in benchmark, or a YAML definition.")] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Folder with the benchmark's files.")] = None,
    cache_dir: Annotated[Path | None, typer.Option("--cache-dir", "--cache_dir", help="Frame cache to use.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", "--max_tokens", help="Most tokens of a response.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    fps: Annotated[float | None, typer.Option(help="Frames sampled per second of video.")] = None,
    nframes: Annotated[int | None, typer.Option(help="An exact number of frames instead.")] = None,
    max_pixels: Annotated[
        int | None, typer.Option("--max-pixels", "--max_pixels", help="Most pixels of a frame.")
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option("--max-samples", "--max_samples", help="Take only the first.")
    ] = None,
    skip_bad_records: Annotated[
        bool, typer.Option("--skip-bad-records", help="Count malformed records as wrong.")
    ] = False,
) -> None:
    """Evaluate a model; every question counts, answered or not.

    An evaluation that was interrupted continues when the same command is given again.
    """
    from evr_apps.commands.console import console, counting
    from evr_eval import EvalConfig
    from evr_eval import evaluate as run_evaluation

    options: dict[str, Any] = {
        "model_path": model_path,
        "output_dir": output_dir,
        "records": records,
        "media_dir": media_dir,
        "benchmark": benchmark,
        "data_dir": data_dir,
        "cache_dir": cache_dir,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "fps": fps,
        "num_frames": nframes,
        "max_pixels": max_pixels,
        "max_samples": max_samples,
        "skip_bad_records": skip_bad_records or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    config = _validated(EvalConfig, given | _parsed(settings or []))
    with counting("Evaluating") as progress:
        summary = run_evaluation(config, on_progress=lambda state: progress(state.done, state.total, ""))
    console().print(_table(summary))
    console().print(f"Results: {output_dir}", soft_wrap=True)


def _parsed(settings: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} is no setting; write KEY=VALUE, such as max_frames=64")
        pairs[name.lstrip("-")] = value
    return pairs


def _validated(model: Any, values: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    try:
        return model(**values)
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, detail['loc'])) or 'settings'}: {detail['msg'].removeprefix('Value error, ')}"
            for detail in error.errors(include_url=False)
        ]
        raise ValueError("these settings cannot be used:\n" + "\n".join(f"  - {line}" for line in lines)) from error


def _table(summary: EvalSummary) -> Table:
    from rich.table import Table

    table = Table("problem type", "n", "accuracy", "95 % interval", box=None, pad_edge=False)
    for name, estimate in summary.by_problem_type.items():
        table.add_row(name, str(estimate.count), f"{estimate.value:.3f}", _interval(estimate))
    table.add_row("all", str(summary.num_expected), f"{summary.accuracy:.3f}", _interval(summary.overall), style="bold")
    return table


def _interval(estimate: Estimate) -> str:
    return "" if estimate.low is None or estimate.high is None else f"{estimate.low:.3f} to {estimate.high:.3f}"
