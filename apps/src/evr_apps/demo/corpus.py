"""Texts that the demo's tokenizer is trained on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from evr_apps.demo.shapes import FPS, NUM_FRAMES

_PAIR = 2  # frames that share one timestamp text


def demo_corpus(record_file: Path) -> Iterator[str]:
    """Prompts, answers and frame times as the policy will see them, record by record."""
    times = "".join(f"<{(i + i + _PAIR - 1) / 2 / FPS:.1f} seconds>" for i in range(0, NUM_FRAMES, _PAIR))
    for line in record_file.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        question = " ".join([record["problem"], *record["options"]])
        yield f"user\n{times}{question}\nassistant\n{record['answer']}"
