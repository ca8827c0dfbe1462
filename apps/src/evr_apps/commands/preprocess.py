"""``evr preprocess``: decode every clip once, before training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evr_video import MediaFailure

EXAMPLE = "Example: evr preprocess --input-file train.jsonl --output-dir cache --model-path Qwen/Qwen3-VL-8B-Instruct"


def preprocess(
    input_file: Annotated[str, typer.Option("--input-file", "--input_file", help="Records: JSON, JSONL or Parquet.")],
    output_dir: Annotated[Path, typer.Option("--output-dir", "--output_dir", help="Root of the frame cache.")],
    model_path: Annotated[
        str, typer.Option("--model-path", "--model_path", help="Model folder or family name; decides patch sizes.")
    ] = "qwen3_vl",
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output-file", "--output_file", help="Records to write; default preprocessed.jsonl in output-dir."
        ),
    ] = None,
    image_dir: Annotated[
        Path | None, typer.Option("--image-dir", "--image_dir", help="Folder that media paths are relative to.")
    ] = None,
    video_fps: Annotated[float, typer.Option("--video-fps", "--video_fps", help="Frames sampled per second.")] = 2.0,
    video_max_frames: Annotated[int, typer.Option("--video-max-frames", "--video_max_frames")] = 128,
    video_min_pixels: Annotated[int, typer.Option("--video-min-pixels", "--video_min_pixels")] = 262_144,
    video_max_pixels: Annotated[int, typer.Option("--video-max-pixels", "--video_max_pixels")] = 4_194_304,
    video_total_pixels: Annotated[int | None, typer.Option("--video-total-pixels", "--video_total_pixels")] = None,
    image_min_pixels: Annotated[int, typer.Option("--image-min-pixels", "--image_min_pixels")] = 262_144,
    image_max_pixels: Annotated[int, typer.Option("--image-max-pixels", "--image_max_pixels")] = 4_194_304,
    workers: Annotated[int, typer.Option(min=1, help="Processes that decode.")] = 2,
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", "--skip_errors", help="List unreadable media instead of stopping.")
    ] = False,
) -> None:
    """Fill the frame cache from a record file and write the records that can be used.

    What cannot be read is listed with its reason in a file named *.failed.jsonl beside the output. Clips that are in
    the cache already cost nothing, so an interrupted run simply starts again.
    """
    from evr_apps.commands.console import console, counting
    from evr_apps.preprocessed import write_records
    from evr_core import VideoBudget, geometry_for, read_samples
    from evr_video import FrameCache, preprocess_samples

    budget = VideoBudget(
        fps=video_fps,
        min_frames=min(VideoBudget.min_frames, video_max_frames),
        max_frames=video_max_frames,
        min_pixels=video_min_pixels,
        max_pixels=video_max_pixels,
        total_pixels=video_total_pixels or VideoBudget.total_pixels,
    )
    found = read_samples(input_file, media_dir=image_dir, require_answer=False, skip_bad_records=skip_errors)
    cache = FrameCache(output_dir)
    with counting("Decoding") as progress:
        result = preprocess_samples(
            found.samples,
            cache,
            budget,
            geometry_for(model_path),
            image_min_pixels=image_min_pixels,
            image_max_pixels=image_max_pixels,
            workers=workers,
            skip_errors=skip_errors,
            on_progress=lambda done, total: progress(done, total, ""),
        )
    out = output_file or output_dir / "preprocessed.jsonl"
    usable = [(s, h) for s, h in zip(found.samples, result.handles, strict=True) if h is not None]
    written = write_records(usable, out)
    failed = _write_failures(out, [str(record) for record in found.rejected], result.failures)
    console().print(f"{written} records ready: {out}", soft_wrap=True)
    if failed:
        console().print(f"{failed} left out, with reasons: {out.with_suffix('.failed.jsonl')}", soft_wrap=True)


def _write_failures(out: Path, rejected: Sequence[str], failures: Sequence[MediaFailure]) -> int:
    rows = [{"record": message} for message in rejected]
    for failure in failures:
        rows += [
            {"record": sample_id, "path": failure.path, "reason": failure.reason} for sample_id in failure.sample_ids
        ]
    path = out.with_suffix(".failed.jsonl")
    if rows:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        path.unlink(missing_ok=True)
    return len(rows)
