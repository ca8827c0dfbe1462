"""What is known about source files: content digest and probe, remembered by the file's identity."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evr_core import VideoInfo
from evr_video._digest import digest_file, digest_json
from evr_video.errors import DecodeError

_SETTLE_NS = 2_000_000_000  # a file changed this recently may change again without its time stamps telling


@dataclass(frozen=True)
class FileFacts:
    """A file's content digest, and its video or image probe."""

    digest: str
    info: VideoInfo | tuple[int, int]


class FactStore:
    """Remembers facts under ``folder``, one small JSON file per path and kind.

    A record holds only as long as inode, size, modification time and change time are the same; files that changed
    within the last two seconds are read anew every time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def video(self, path: Path, probe: Callable[[], VideoInfo]) -> FileFacts:
        """Facts of a video; ``probe`` is called when they are not known."""
        return self._facts("video", path, probe, lambda fields: VideoInfo(**fields), asdict)

    def image(self, path: Path, probe: Callable[[], tuple[int, int]]) -> FileFacts:
        """Facts of an image: height and width."""
        return self._facts("image", path, probe, lambda fields: (fields[0], fields[1]), list)

    def _facts(
        self, kind: str, path: Path, probe: Callable[[], Any], load: Callable[[Any], Any], dump: Callable[[Any], Any]
    ) -> FileFacts:
        name = digest_json([kind, str(path)])
        record = self._folder / name[:2] / f"{name}.json"
        before = _identity(path)
        known = _read(record)
        if known is not None and known.get("file") == before:
            return FileFacts(known["digest"], load(known["info"]))
        facts = FileFacts(digest_file(path), probe())
        if _identity(path) != before:
            raise DecodeError(path, "file", "the file changed while it was read")
        if time.time_ns() - max(before[2], before[3]) > _SETTLE_NS:
            _write(record, {"file": before, "digest": facts.digest, "info": dump(facts.info)})
        return facts


def _identity(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _read(record: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(record.read_text())
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None


def _write(record: Path, value: dict[str, Any]) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    staging = record.with_suffix(f".{os.getpid()}.{time.monotonic_ns()}.part")
    staging.write_text(json.dumps(value))
    staging.replace(record)
