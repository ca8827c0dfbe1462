"""Reading a finished run back."""

from __future__ import annotations

from pathlib import Path

from evr_eval._store import read_rows
from evr_eval.rows import ResultRow
from evr_eval.summary import RESULTS_FILE, load_summary


def read_results(output_dir: str | Path) -> list[ResultRow]:
    """The rows that the summary of this folder was made of, sorted by sample id; one per sample.

    Raises:
        ValueError: The folder holds no finished run, or a damaged row.
    """
    folder = Path(output_dir)
    config_hash = load_summary(folder).config_hash
    rows = {row.sample_id: row for row in read_rows(folder / RESULTS_FILE) if row.config_hash == config_hash}
    return [rows[sample_id] for sample_id in sorted(rows)]
