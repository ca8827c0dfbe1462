"""Does everything that a configuration names exist?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .data import DataConfig
from .errors import Problem
from .policy import ModelConfig
from .root import TrainConfig

_DATA_FOLDERS = ("image_dir", "preprocessed_video_dir", "val_preprocessed_video_dir")
_DATA_FILES = ("format_prompt", "override_chat_template")
_RECORD_SUFFIXES = (".json", ".jsonl", ".parquet", ".csv", ".arrow")


def file_problems(config: TrainConfig) -> Iterator[Problem]:
    """Paths that do not exist or are of the wrong kind, and names that had to be given."""
    yield from record_problems(config.data, train_needed=not config.trainer.val_only)
    yield from model_problems(config.worker.actor.model, "worker.actor.model")
    yield from data_path_problems(config.data)
    trainer = config.trainer
    yield from _expect("trainer.load_checkpoint_path", trainer.load_checkpoint_path, folder=True)
    yield from _written("trainer.save_checkpoint_path", trainer.save_checkpoint_path)
    yield from _written("trainer.report_dir", trainer.report_dir)
    yield from _reward_file(config.worker.reward.reward_function)


def data_path_problems(data: DataConfig) -> Iterator[Problem]:
    """Folders and templates of the data section."""
    for key in _DATA_FOLDERS:
        yield from _expect(f"data.{key}", getattr(data, key), folder=True)
    for key in _DATA_FILES:
        yield from _expect(f"data.{key}", getattr(data, key), folder=False)
    yield from _written("data.cache_dir", data.cache_dir)
    yield from _preprocessed(data)


def record_problems(data: DataConfig, *, train_needed: bool = True) -> Iterator[Problem]:
    """Record files that are missing. A name that does not look like a path may be a hub dataset."""
    if train_needed and not data.train_files:
        yield Problem("data.train_files", "must be given: a JSON, JSONL or Parquet file, a folder, or a hub dataset id")
    for path, text in (("data.train_files", data.train_files), ("data.val_files", data.val_files)):
        name = text.rpartition("@")[0] or text
        if text and not (_exists(text) or _exists(name)) and _looks_like_path(name, _RECORD_SUFFIXES):
            yield Problem(path, "there is no such file or folder", text)


def model_problems(model: ModelConfig, section: str) -> Iterator[Problem]:
    """Model and tokenizer folders that are missing or hold no model."""
    if not model.model_path:
        yield Problem(f"{section}.model_path", "must be given: the folder of a Hugging Face model, or a hub id")
    for key in ("model_path", "tokenizer_path"):
        text: str = getattr(model, key)
        if not text:
            continue
        if not _exists(text):
            if _looks_like_path(text):
                yield Problem(f"{section}.{key}", "there is no such folder", text)
        elif key == "model_path" and not (Path(text).expanduser() / "config.json").is_file():
            yield Problem(f"{section}.{key}", "is not the folder of a model: it holds no config.json", text)


def _written(path: str, value: Path | None) -> Iterator[Problem]:
    if value is not None and value.exists() and not value.is_dir():
        yield Problem(path, "is a file; give a folder that exists or can be made", value)


def _expect(path: str, value: Path | None, *, folder: bool) -> Iterator[Problem]:
    if value is None:
        return
    kind = "folder" if folder else "file"
    if not value.exists():
        yield Problem(path, f"there is no such {kind}", value)
    elif value.is_dir() != folder:
        yield Problem(path, f"is a {'file' if folder else 'folder'}; give a {kind}", value)


def _reward_file(spec: str) -> Iterator[Problem]:
    if not spec:
        return
    file, _, function = spec.partition(":")
    if not Path(file).expanduser().is_file():
        yield Problem("worker.reward.reward_function", f"there is no such file: {file}", spec)
    if ":" in spec and not function.isidentifier():
        reason = f"{function!r} is not the name of a function; write path/to/file.py:function"
        yield Problem("worker.reward.reward_function", reason, spec)


def _preprocessed(data: DataConfig) -> Iterator[Problem]:
    if data.video_source_mode != "preprocessed_only" or data.preprocessed_video_dir or data.frame_cache_dir.is_dir():
        return
    reason = (
        f"frames may come from the cache only, and there is none at {data.frame_cache_dir}; run evr preprocess first, "
        "give data.cache_dir or data.preprocessed_video_dir, or use prefer_preprocessed"
    )
    yield Problem("data.video_source_mode", reason, data.video_source_mode)


def _exists(text: str) -> bool:
    return Path(text).expanduser().exists()


def _looks_like_path(text: str, suffixes: tuple[str, ...] = ()) -> bool:
    """Whether a name cannot be a hub id, which is `name` or `owner/name`."""
    return text.startswith(("/", ".", "~")) or text.count("/") > 1 or "\\" in text or text.endswith(("/", *suffixes))
