"""A benchmark is data: where its records are, how many there must be, how they are asked and added up."""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evr_core import ProblemType, RecordFields

Aggregation = Literal["mean", "mean_of_groups"]


class FieldNames(BaseModel):
    """Names of the record fields; the defaults are those of the training records."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str = "problem"
    answer: str = "answer"
    images: str = "images"
    videos: str = "videos"

    def record_fields(self) -> RecordFields:
        """The same names as evr_core takes them."""
        return RecordFields(prompt=self.prompt, answer=self.answer, images=self.images, videos=self.videos)


class GroupKey(BaseModel):
    """A table of the report: its name and the record fields, in order of preference, that hold the value."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    fields: tuple[str, ...] = Field(min_length=1)


class Benchmark(BaseModel):
    """The definition of one benchmark, as a versioned YAML file holds it.

    Attributes:
        name: Short name, as in ``load_benchmark(name)``.
        version: Rises with every change that can move a number.
        title: The benchmark's own name.
        source: Where the numbers of this definition come from.
        record_file: Records, relative to the data folder, or absolute.
        media_dir: Folder that the records' paths are relative to; relative to the data folder, or absolute.
        fields: Names of the record fields.
        expected_count: Questions the benchmark has. The denominator even when the file holds fewer.
        problem_type: Takes the place of the records' own problem type (and so of their scorer).
        prompt_template: A Jinja file, relative to the definition; None for the standard prompt of the problem type.
        group_keys: Tables of the report.
        aggregation: ``mean`` over all questions, or ``mean_of_groups``: the mean of the first group key's accuracies.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    version: int = Field(ge=1)
    title: str = ""
    source: str = ""
    record_file: str
    media_dir: str = "."
    fields: FieldNames = FieldNames()
    expected_count: int | None = Field(default=None, ge=1)
    problem_type: ProblemType | None = None
    prompt_template: str | None = None
    group_keys: tuple[GroupKey, ...] = ()
    aggregation: Aggregation = "mean"

    @model_validator(mode="after")
    def _check_aggregation(self) -> Benchmark:
        if self.aggregation == "mean_of_groups" and not self.group_keys:
            raise ValueError("aggregation mean_of_groups averages over the first of group_keys; give at least one")
        return self

    @property
    def label(self) -> str:
        """``name@version``, as rows and summaries carry it."""
        return f"{self.name}@{self.version}"

    def record_path(self, data_dir: Path | None) -> Path:
        """Path of the record file."""
        return _resolve(self.record_file, data_dir, self.name)

    def media_path(self, data_dir: Path | None) -> Path:
        """Path of the media folder."""
        return _resolve(self.media_dir, data_dir, self.name)


def builtin_benchmarks() -> list[str]:
    """Names of the definitions that come with the package."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _builtin_files())


def load_benchmark(name_or_path: str | Path) -> Benchmark:
    """A definition by its built-in name or from a YAML file.

    Raises:
        ValueError: There is no such definition (with the nearest name), or the file breaks the schema.
    """
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"}:
        if not path.is_file():
            raise ValueError(f"benchmark definition {path} does not exist; built-in names: {builtin_benchmarks()}")
        return _parse(path)
    for entry in _builtin_files():
        if entry.name == f"{name_or_path}.yaml":
            return _parse(entry)
    names = builtin_benchmarks()
    nearest = difflib.get_close_matches(str(name_or_path), names, n=1)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise ValueError(f"unknown benchmark {str(name_or_path)!r}: {hint}built-in are {names}; or give a .yaml file")


def benchmark_from_records(
    records_file: str | Path,
    media_dir: str | Path | None = None,
    *,
    name: str | None = None,
    group_keys: tuple[str, ...] = (),
) -> Benchmark:
    """A definition for a set of one's own; the media folder defaults to the record file's folder."""
    records = Path(records_file).absolute()
    media = Path(media_dir).absolute() if media_dir is not None else records.parent
    return Benchmark(
        name=name or _slug(records.stem),
        version=1,
        record_file=str(records),
        media_dir=str(media),
        group_keys=tuple(GroupKey(name=key, fields=(key,)) for key in group_keys),
    )


def _builtin_files() -> list[Path]:
    folder = Path(str(resources.files("evr_eval"))) / "definitions"
    return sorted(folder.glob("*.yaml"))


def _parse(path: Path) -> Benchmark:
    try:
        benchmark = Benchmark.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise ValueError(f"{path}: not a benchmark definition: {error}") from error
    if benchmark.prompt_template is None:
        return benchmark
    return benchmark.model_copy(update={"prompt_template": str(path.parent / benchmark.prompt_template)})


def _resolve(value: str, data_dir: Path | None, name: str) -> Path:
    path = Path(value)
    if path.is_absolute():
        return path
    if data_dir is None:
        raise ValueError(f"benchmark {name!r} has the relative path {value!r}; give data_dir, the folder it lies in")
    return data_dir.absolute() / path


def _slug(stem: str) -> str:
    slug = "".join(char if (char.isalnum() and char.isascii()) or char in "_.-" else "-" for char in stem.lower())
    return slug.lstrip("_.-") or "records"
