"""``evr merge``: a checkpoint as a Hugging Face model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: evr merge --local-dir run/global_step_100/actor --model-path base-model --out-dir policy"


def merge(
    local_dir: Annotated[
        Path,
        typer.Option("--local-dir", "--local_dir", exists=True, file_okay=False, help="The checkpoint's actor folder."),
    ],
    model_path: Annotated[
        Path,
        typer.Option(
            "--model-path", "--model_path", exists=True, file_okay=False, help="Model that training started from."
        ),
    ],
    out_dir: Annotated[
        Path | None, typer.Option("--out-dir", help="Folder to write; default `huggingface` inside the actor folder.")
    ] = None,
) -> None:
    """Export a checkpoint as safetensors with tokenizer and processor, as transformers and vLLM load it."""
    from evr_apps.commands.console import console
    from evr_trainer import export_hf

    written = export_hf(local_dir, model_path, out_dir or local_dir / "huggingface")
    console().print(f"Model: {written}", soft_wrap=True)
