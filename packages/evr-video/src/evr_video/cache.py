"""The frame cache: every video is decoded once, ever."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from evr_core import ImagePlan, ModelGeometry, VideoBudget, VideoInfo, VideoPlan, plan_image, plan_video
from evr_video._decode import TIMEOUT_S, check_backend, check_file, decode_image, decode_video, probe_image, probe_video
from evr_video._digest import digest_frames, digest_json
from evr_video._entry import EntryError, map_entry, read_meta, write_entry
from evr_video._facts import FactStore, FileFacts
from evr_video._lock import hold
from evr_video.handle import MediaHandle, entry_path, plan_from_dict

log = logging.getLogger(__name__)

#: Raised whenever the same file and plan would give other frames than before.
PIPELINE_VERSION = 1
_SMALL_PIXELS = 50_000_000  # decoding this much in one thread is quicker than starting several
_STALE_S = 3600.0


@dataclass(frozen=True)
class CacheEntry:
    """An entry as ``FrameCache.entries`` shows it; ``used_at`` is the last use in seconds since the epoch."""

    key: str
    kind: str
    source: str
    num_bytes: int
    used_at: float


class FrameCache:
    """Content-addressed store of decoded frames, safe for many threads and processes at once.

    An entry's key is the digest of the file's content, the plan, the reader asked for and the pipeline version, so a
    changed file or parameter can never find an old entry. Entries are uint8 safetensors files, written atomically
    and memory-mapped when read.

    Attributes:
        root: Folder of the cache; made when missing.
        hits: Entries found.
        misses: Entries made.
        decode_s: Seconds spent making them.
    """

    def __init__(
        self, root: str | Path, *, backend: str = "auto", timeout_s: float = TIMEOUT_S, threads: int | None = None
    ) -> None:
        """Open or make a cache.

        Args:
            root: Its folder.
            backend: Reader for videos: "auto", "pyav", "torchcodec" or "decord".
            timeout_s: Seconds that decoding one file may take.
            threads: Decoder threads for one large video; all cores, at most 8, when left out.
        """
        check_backend(backend)
        self.root = Path(root).absolute()
        self.root.mkdir(parents=True, exist_ok=True)
        self.backend, self.timeout_s = backend, timeout_s
        self.threads = threads or min(8, os.cpu_count() or 1)
        self.hits, self.misses, self.decode_s = 0, 0, 0.0
        self._facts = FactStore(self.root / "facts")
        self._counting = threading.Lock()

    def ensure_video(
        self,
        path: str | Path,
        budget: VideoBudget,
        geometry: ModelGeometry,
        *,
        start_s: float | None = None,
        end_s: float | None = None,
        timeout_s: float | None = None,
    ) -> MediaHandle:
        """Return the handle of a video's frames, decoding them when no one has yet.

        Args:
            path: The file.
            budget: What the prompt may spend on it.
            geometry: Patch sizes of the model.
            start_s: Start of the range to look at, in seconds.
            end_s: End of that range.
            timeout_s: Seconds that decoding may take; the cache's own limit when left out.

        Raises:
            DecodeError: The file cannot be read.
            ValueError: The budget does not fit the video.
        """
        source, limit_s = Path(path).absolute(), timeout_s or self.timeout_s
        check_file(source)
        facts = self._facts.video(source, lambda: probe_video(source, limit_s))
        assert isinstance(facts.info, VideoInfo)
        info, plan = facts.info, plan_video(facts.info, budget, geometry, start_s=start_s, end_s=end_s)
        threads = 1 if (plan.frame_indices[-1] + 1) * info.height * info.width < _SMALL_PIXELS else self.threads

        def decode() -> tuple[dict[str, Tensor], dict[str, Any]]:
            video = decode_video(source, plan, self.backend, limit_s, threads)
            tensors = {"frames": video.frames, "timestamps_s": video.timestamps_s}
            return tensors, {"backend": video.backend, "duration_s": info.duration_s}

        return self._ensure("video", source, facts, plan, decode)

    def ensure_image(
        self,
        path: str | Path,
        geometry: ModelGeometry,
        *,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        timeout_s: float | None = None,
    ) -> MediaHandle:
        """Return the handle of a picture's pixels; as ``ensure_video``."""
        source, limit_s = Path(path).absolute(), timeout_s or self.timeout_s
        check_file(source)
        facts = self._facts.image(source, lambda: probe_image(source, limit_s))
        assert isinstance(facts.info, tuple)
        plan = plan_image(*facts.info, geometry, min_pixels=min_pixels, max_pixels=max_pixels)

        def decode() -> tuple[dict[str, Tensor], dict[str, Any]]:
            return {"frames": decode_image(source, plan, limit_s)}, {"backend": "pillow"}

        return self._ensure("image", source, facts, plan, decode)

    def _ensure(
        self,
        kind: Literal["video", "image"],
        source: Path,
        facts: FileFacts,
        plan: VideoPlan | ImagePlan,
        decode: Callable[[], tuple[dict[str, Tensor], dict[str, Any]]],
    ) -> MediaHandle:
        key = digest_json([PIPELINE_VERSION, kind, facts.digest, asdict(plan), self.backend])
        path = entry_path(self.root, key)
        digest = self._find(path)
        if digest is None:
            with hold(self.root / "locks" / f"{key}.lock"):
                digest = self._find(path)  # someone else may have made it while we waited
                if digest is None:
                    digest = self._make(key, path, {"kind": kind, "source": str(source)}, facts, plan, decode)
        return MediaHandle(kind, str(self.root), key, plan, digest, str(source))

    def _find(self, path: Path) -> str | None:
        if not path.exists():
            return None
        try:
            digest = str(read_meta(path)["digest"])
        except EntryError as error:
            log.warning("%s; it is made again", error)
            return None
        os.utime(path)  # for pruning by last use
        with self._counting:
            self.hits += 1
        return digest

    def _make(
        self,
        key: str,
        path: Path,
        about: dict[str, Any],
        facts: FileFacts,
        plan: VideoPlan | ImagePlan,
        decode: Callable[[], tuple[dict[str, Tensor], dict[str, Any]]],
    ) -> str:
        started = time.perf_counter()
        tensors, details = decode()
        digest = digest_frames(tensors["frames"])
        meta = {**about, **details, "digest": digest, "source_digest": facts.digest, "plan": asdict(plan)}
        write_entry(path, self.root / "staging" / f"{key}.part", tensors, {**meta, "pipeline": PIPELINE_VERSION})
        with self._counting:
            self.misses += 1
            self.decode_s += time.perf_counter() - started
        return digest

    def entries(self) -> list[CacheEntry]:
        """Every entry, the least recently used first; damaged ones have the kind "damaged"."""
        found = []
        for path in self.root.glob("entries/*/*.safetensors"):
            stat = path.stat()
            try:
                meta = read_meta(path)
            except EntryError:
                meta = {"kind": "damaged", "source": ""}
            found.append(CacheEntry(path.stem, meta["kind"], meta["source"], stat.st_size, stat.st_mtime))
        return sorted(found, key=lambda entry: entry.used_at)

    def handle(self, key: str) -> MediaHandle:
        """The handle of an entry by its key."""
        meta = read_meta(entry_path(self.root, key))
        plan = plan_from_dict(meta["kind"], meta["plan"])
        return MediaHandle(meta["kind"], str(self.root), key, plan, meta["digest"], meta["source"])

    def verify(self) -> list[str]:
        """Read every entry in full and return the keys of the damaged ones."""
        damaged = []
        for entry in self.entries():
            path = entry_path(self.root, entry.key)
            try:
                sound = digest_frames(map_entry(path)["frames"]) == read_meta(path)["digest"]
            except EntryError:
                sound = False
            if not sound:
                damaged.append(entry.key)
        return damaged

    def remove(self, key: str) -> None:
        """Remove an entry; clips that have it mapped stay valid."""
        entry_path(self.root, key).unlink(missing_ok=True)

    def prune(self, max_bytes: int) -> list[CacheEntry]:
        """Remove the least recently used entries until at most ``max_bytes`` are left; returns what went.

        Leftovers of writers that died more than an hour ago go as well.
        """
        entries = self.entries()
        excess = sum(entry.num_bytes for entry in entries) - max_bytes
        gone = []
        for entry in entries:
            if excess <= 0:
                break
            self.remove(entry.key)
            excess -= entry.num_bytes
            gone.append(entry)
        for path in [*self.root.glob("staging/*.part"), *self.root.glob("facts/*/*.part")]:
            if time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink(missing_ok=True)
        return gone
