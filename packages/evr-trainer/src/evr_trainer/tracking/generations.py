"""What the policy wrote, for people to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evr_core import Sample
from evr_trainer.tracking.trackers import rewind_jsonl
from evr_video import EncodedPrompt

__all__ = ["GenerationLog"]


class GenerationLog:
    """Appends groups to ``generations.jsonl``: question, truth, media handles, and each response with its scores."""

    def __init__(self, log_dir: Path, resumed_step: int) -> None:
        self.path = log_dir / "generations.jsonl"
        rewind_jsonl(self.path, resumed_step)

    def log(self, step: int, sample: Sample, prompt: EncodedPrompt, responses: Sequence[Mapping[str, Any]]) -> None:
        """Append one group; ``responses`` hold ``text`` and scores."""
        row = {
            "step": step,
            "problem_id": sample.problem_id,
            "problem": sample.problem,
            "answer": sample.answer,
            "problem_type": sample.problem_type.value,
            "media": [handle.to_dict() for handle in prompt.media],
            "responses": [dict(response) for response in responses],
        }
        with self.path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
