from __future__ import annotations

from pathlib import Path

import pytest

from evr_eval import Benchmark, EvalConfig, benchmark_from_records, builtin_benchmarks, load_benchmark


@pytest.mark.parametrize(("name", "count", "media"), [("videomme", 2700, "Video-MME"), ("mvbench", 3586, "MVBench")])
def test_builtin_definitions(name: str, count: int, media: str) -> None:
    benchmark = load_benchmark(name)
    assert benchmark.expected_count == count
    assert benchmark.record_path(Path("/data")) == Path("/data/valid_data") / f"{name}.json"
    assert benchmark.media_path(Path("data")) == Path("data").absolute() / media
    assert name in builtin_benchmarks()


def test_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'videomme'"):
        load_benchmark("video-mme")


def test_definition_from_a_file_with_its_own_template(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("{name: mine, version: 2, record_file: a.jsonl, prompt_template: ask.jinja}")
    benchmark = load_benchmark(path)
    assert benchmark.label == "mine@2"
    assert benchmark.prompt_template == str(tmp_path / "ask.jinja")


def test_a_definition_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("{name: mine, version: 1, record_file: a.jsonl, expected: 3}")
    with pytest.raises(ValueError, match=r"mine\.yaml: not a benchmark definition[\s\S]*expected"):
        load_benchmark(path)


def test_group_mean_needs_groups() -> None:
    with pytest.raises(ValueError, match="give at least one"):
        Benchmark(name="x", version=1, record_file="a", aggregation="mean_of_groups")


def test_relative_paths_need_a_data_folder() -> None:
    with pytest.raises(ValueError, match="give data_dir"):
        load_benchmark("mvbench").record_path(None)


def test_own_records(tmp_path: Path) -> None:
    benchmark = benchmark_from_records(tmp_path / "Held Out.jsonl", group_keys=("split",))
    assert benchmark.name == "held-out"
    assert benchmark.media_path(None) == tmp_path
    assert [key.name for key in benchmark.group_keys] == ["split"]


def test_config_refuses_unknown_keys_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown evaluation key 'max_token'; did you mean 'max_tokens'"):
        EvalConfig.model_validate({"model_path": "m", "output_dir": "o", "records": "r", "max_token": 3})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "exactly one of records"),
        ({"records": "r", "benchmark": "mvbench"}, "exactly one of records"),
        ({"benchmark": "mvbench", "media_dir": "m"}, "media lie under data_dir"),
        ({"records": "r", "min_frames": 9, "max_frames": 8}, "min_frames 9 exceeds max_frames 8"),
        ({"records": "r", "temperature": -1}, "temperature"),
    ],
)
def test_config_checks(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EvalConfig.model_validate({"model_path": "m", "output_dir": "o", **fields})
