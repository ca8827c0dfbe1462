"""What can go wrong between a media file and a model's input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class DecodeError(ValueError):
    """A media file could not be read.

    Attributes:
        path: The file.
        backend: The reader that refused it, or ``"file"`` when the file never reached one.
        reason: Why, in words.
    """

    def __init__(self, path: str | Path, backend: str, reason: str) -> None:
        super().__init__(f"{path}: {reason} [{backend}]")
        self.path = str(path)
        self.backend = backend
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodeError, (self.path, self.backend, self.reason)


class ContractError(ValueError):
    """A prompt and its media no longer say what they said when the prompt was built.

    Attributes:
        sample_id: Whose prompt it is.
        stage: Where the disagreement was seen ("encode", "rollout", "update", ...).
        what: The quantity that disagrees.
        expected: Its value in the contract.
        found: Its value now.
    """

    def __init__(self, sample_id: str, stage: str, what: str, expected: object, found: object) -> None:
        super().__init__(f"sample {sample_id}, stage {stage}: {what}: expected {expected}, found {found}")
        self.sample_id = sample_id
        self.stage = stage
        self.what = what
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[Any, ...]:
        return ContractError, (self.sample_id, self.stage, self.what, self.expected, self.found)


@dataclass(frozen=True)
class MediaFailure:
    """A file that preprocessing could not use, and the samples that need it."""

    path: str
    reason: str
    sample_ids: tuple[str, ...]


class PreprocessError(ValueError):
    """Some media of a sample set cannot be used; ``failures`` holds all of them, the message the first ten."""

    shown = 10

    def __init__(self, failures: Sequence[MediaFailure]) -> None:
        lines = [f"  {f.path}: {f.reason} (sample {f.sample_ids[0]})" for f in failures[: self.shown]]
        if len(failures) > self.shown:
            lines.append(f"  ... and {len(failures) - self.shown} more")
        head = f"{len(failures)} media files cannot be used; mend or remove them, or skip them with skip_errors=True:"
        super().__init__("\n".join([head, *lines]))
        self.failures = tuple(failures)

    def __reduce__(self) -> tuple[Any, ...]:
        return PreprocessError, (self.failures,)
