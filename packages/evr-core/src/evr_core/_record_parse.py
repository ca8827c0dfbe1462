"""From a raw record to a Sample: every field is checked, and a wrong one is named with its remedy."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evr_core._record_errors import FieldError
from evr_core.problem_types import parse_problem_type
from evr_core.schema import DataType, ProblemType, RecordFields, Sample

PROMPT_NAMES = ("problem", "prompt", "question")
ANSWER_NAMES = ("answer", "solution")
_ANSWER_TAG = re.compile(r"<answer>((?:(?!<answer>).)*)</answer>\s*$", re.DOTALL)
_OPTIONAL_KINDS: dict[str, type] = {
    "preprocessed_video": str,
    "offline_output": str,
    "has_offline_trajectory": bool,
}
_KNOWN_NAMES = {
    *PROMPT_NAMES,
    *ANSWER_NAMES,
    *_OPTIONAL_KINDS,
    *("images", "videos", "path", "data_type", "problem_type", "options"),
    *("problem_id", "data_source", "video_start", "video_end"),
}


def parse_record(
    raw: Mapping[str, Any], *, fields: RecordFields, media_dir: Path | None, require_answer: bool, origin: str
) -> Sample:
    """Return the sample that a raw record describes.

    Raises:
        FieldError: A field is missing or wrong.
    """
    record = {key: value for key, value in raw.items() if value is not None}
    used: set[str] = set()
    problem = _problem(record, fields.prompt, used)
    answer = _answer(record, fields.answer, used, required=require_answer)
    images, videos, data_type = _media(record, fields, media_dir, used)
    _check_marks(problem, images, videos, fields)
    options = _options(record, used)
    start_s, end_s = _time_range(record, used)
    problem_type = _problem_type(record, options, used)
    problem_id = _name(record, "problem_id", used) or content_id(raw)
    data_source = _name(record, "data_source", used)
    _check_optional_kinds(record)
    return Sample(
        problem_id=problem_id,
        problem=problem,
        answer=answer,
        problem_type=problem_type,
        data_type=data_type,
        images=images,
        videos=videos,
        options=options,
        video_start_s=start_s,
        video_end_s=end_s,
        data_source=data_source,
        extra={key: value for key, value in record.items() if key not in used},
        origin=origin,
    )


def content_id(raw: Mapping[str, Any]) -> str:
    """Return an id made from a record's content: the same record has the same id in every file and on every machine."""
    text = json.dumps(raw, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _pick(record: Mapping[str, Any], name: str, aliases: tuple[str, ...], used: set[str]) -> str | None:
    candidates = (name, *aliases) if name in aliases else (name,)
    found = next((key for key in candidates if key in record), None)
    if found is not None:
        used.add(found)
    return found


def _nearest(name: str, record: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, [key for key in record if key not in _KNOWN_NAMES], n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}? " if near else ""


def _problem(record: Mapping[str, Any], name: str, used: set[str]) -> str:
    key = _pick(record, name, PROMPT_NAMES, used)
    if key is None:
        names = PROMPT_NAMES if name in PROMPT_NAMES else (name,)
        raise FieldError(
            name,
            f"missing; {_nearest(name, record)}give the question as one of {', '.join(names)}, or name the field "
            f"(prompt_key). The record has {sorted(record)}",
        )
    value = record[key]
    if not isinstance(value, str) or not value.strip():
        raise FieldError(key, "expected a text that is not empty", value)
    return value


def _answer(record: Mapping[str, Any], name: str, used: set[str], *, required: bool) -> str:
    key = _pick(record, name, ANSWER_NAMES, used)
    value = "" if key is None else record[key]
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, bool):
        value = "yes" if value else "no"
    elif isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise FieldError(key or name, "expected a text, a number, or JSON", value)
    tagged = _ANSWER_TAG.search(value)
    text = (tagged.group(1) if tagged else value).strip()
    if required and not text:
        state = "missing" if key is None else "empty"
        raise FieldError(key or name, f"{state}; {_nearest(name, record)}every record needs its ground truth here")
    return text


def _media(
    record: Mapping[str, Any], fields: RecordFields, media_dir: Path | None, used: set[str]
) -> tuple[tuple[Path, ...], tuple[Path, ...], DataType]:
    images = _paths(record, fields.images, media_dir, used)
    videos = _paths(record, fields.videos, media_dir, used)
    given = _data_type(record, used)
    if "path" in record and not images and not videos:
        paths = _paths(record, "path", media_dir, used)
        if given is None or (given is DataType.TEXT and paths):
            raise FieldError("data_type", "a record with 'path' must say here what it is: image or video", given)
        images, videos = (paths, ()) if given is DataType.IMAGE else ((), paths)
    derived = (
        DataType.VIDEO if videos or "preprocessed_video" in record else DataType.IMAGE if images else DataType.TEXT
    )
    if given is not None and given is not derived:
        raise FieldError(
            "data_type",
            f"the record has {len(images)} images and {len(videos)} videos, so this must be {derived.value!r} "
            "(or be left out); check the media fields",
            given.value,
        )
    return images, videos, derived


def _data_type(record: Mapping[str, Any], used: set[str]) -> DataType | None:
    if "data_type" not in record:
        return None
    used.add("data_type")
    value = record["data_type"]
    try:
        return DataType(value.strip().lower())
    except (ValueError, AttributeError):
        raise FieldError("data_type", f"allowed: {', '.join(DataType)}", value) from None


def _paths(record: Mapping[str, Any], key: str, media_dir: Path | None, used: set[str]) -> tuple[Path, ...]:
    if key not in record:
        return ()
    used.add(key)
    value = record[key]
    items: Iterable[object] = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise FieldError(key, "expected a list of paths", value)
    return tuple(_path(item, key, media_dir) for item in items)


def _path(item: object, key: str, media_dir: Path | None) -> Path:
    if not isinstance(item, str) or not item.strip():
        raise FieldError(key, "expected paths as texts that are not empty", item)
    text = item.removeprefix("file://")
    if "://" in text or text.startswith("data:"):
        raise FieldError(key, "records name local files; download the file and give its path", item)
    return Path(text) if media_dir is None else media_dir / text


def _check_marks(problem: str, images: tuple[Path, ...], videos: tuple[Path, ...], fields: RecordFields) -> None:
    for mark, paths, key in (("<image>", images, fields.images), ("<video>", videos, fields.videos)):
        marks = problem.count(mark)
        if marks not in (0, len(paths)):
            raise FieldError(
                key,
                f"the question holds {marks} {mark} marks but the record has {len(paths)} such files; "
                "give one file per mark, or leave the marks out (media then come first)",
                [path.name for path in paths],
            )


def _options(record: Mapping[str, Any], used: set[str]) -> tuple[str, ...]:
    used.add("options")
    value = record.get("options", [])
    if not isinstance(value, list | tuple):
        raise FieldError("options", "expected a list of texts", value)
    for item in value:
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            raise FieldError("options", "every option must be a text or a number", item)
    return tuple(str(item) for item in value)


def _problem_type(record: Mapping[str, Any], options: tuple[str, ...], used: set[str]) -> ProblemType:
    used.add("problem_type")
    value = record.get("problem_type")
    if value is None:
        if options:
            return ProblemType.MULTIPLE_CHOICE
        hint = _nearest("problem_type", record)
        raise FieldError("problem_type", f"missing; {hint}allowed: {', '.join(map(str, ProblemType))}")
    if not isinstance(value, str):
        raise FieldError("problem_type", f"allowed: {', '.join(map(str, ProblemType))}", value)
    try:
        return parse_problem_type(value)
    except ValueError as error:
        raise FieldError("problem_type", str(error), value) from None


def _time_range(record: Mapping[str, Any], used: set[str]) -> tuple[float | None, float | None]:
    times: list[float | None] = []
    for key in ("video_start", "video_end"):
        used.add(key)
        value = record.get(key)
        if value is not None:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < 0:
                raise FieldError(key, "expected seconds as a number that is not negative", value)
        times.append(None if value is None else float(value))
    start_s, end_s = times
    if end_s is not None and end_s <= (start_s or 0.0):
        raise FieldError("video_end", f"must be later than video_start ({start_s or 0.0} s)", end_s)
    return start_s, end_s


def _name(record: Mapping[str, Any], key: str, used: set[str]) -> str:
    used.add(key)
    value = record.get(key, "")
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # data frames turn columns of whole numbers with gaps into floats
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise FieldError(key, "expected a text or a whole number", value)
    return str(value).strip()


def _check_optional_kinds(record: Mapping[str, Any]) -> None:
    for key, kind in _OPTIONAL_KINDS.items():
        if key in record and not isinstance(record[key], kind):
            raise FieldError(key, f"expected {'a text' if kind is str else 'true or false'}", record[key])
