"""Records become prompts: what is kept, what is left out and counted, and what is refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from evr_apps.demo.corpus import demo_corpus
from evr_apps.demo.data import DemoData, generate_demo_data
from evr_apps.demo.tiny_model import build_tiny_model
from evr_core import RecordError, Sample
from evr_trainer.assets import ModelAssets, load_assets
from evr_trainer.config import DataConfig
from evr_trainer.data import PromptDataset, media_kinds, read_records
from evr_video import FrameCache, encode_prompt

NUM_RECORDS = 12


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoData:
    """Records of every task: videos, pictures and plain text."""
    folder = tmp_path_factory.mktemp("demo")
    return generate_demo_data(folder, seed=5, num_train=NUM_RECORDS, num_val=10, num_sft=10)


@pytest.fixture(scope="module")
def assets(demo: DemoData, tmp_path_factory: pytest.TempPathFactory) -> ModelAssets:
    path = build_tiny_model(tmp_path_factory.mktemp("model"), seed=0, corpus=demo_corpus(demo.train_file))
    return load_assets(str(path), str(path))


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def config(demo: DemoData, cache_dir: Path, **changes: Any) -> DataConfig:
    settings: dict[str, Any] = {
        "train_files": str(demo.train_file),
        "val_files": str(demo.val_file),
        "prompt_key": "problem",
        "image_dir": str(demo.media_dir),
        "cache_dir": str(cache_dir),
        "min_pixels": 1024,
        "max_pixels": 4096,
        "video_max_frames": 8,
        "max_prompt_length": 512,
    }
    return DataConfig(**settings | changes)


def raw_records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def write(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def of_kind(demo: DemoData, kind: str, count: int = 1) -> list[dict[str, Any]]:
    return [record for record in raw_records(demo.train_file) if record["data_type"] == kind][:count]


def ids(dataset: PromptDataset) -> list[str]:
    return [sample.problem_id for sample in dataset.samples]


def build(data: DataConfig, assets: ModelAssets, **options: Any) -> PromptDataset:
    return PromptDataset.build(read_records(data, validation=options.get("validation", False)), data, assets, **options)


def files_of(sample: Sample) -> list[str]:
    return [str(path) for path in (*sample.videos, *sample.images)]


def test_every_record_becomes_a_prompt_with_its_own_media(demo: DemoData, assets: ModelAssets, cache_dir: Path) -> None:
    data = config(demo, cache_dir)
    seen: list[tuple[int, int]] = []
    dataset = build(data, assets, on_progress=lambda done, total: seen.append((done, total)))
    records = raw_records(demo.train_file)
    assert ids(dataset) == [record["problem_id"] for record in records]
    assert (len(dataset), dataset.num_skipped) == (NUM_RECORDS, 0)
    num_media = sum(record["data_type"] != "text" for record in records)
    assert seen == [(i + 1, num_media) for i in range(num_media)]

    cache = FrameCache(cache_dir)  # another way to the same frames: one file at a time
    for i, record in enumerate(records):
        sample, prompt = dataset.samples[i], dataset.prompt(i)
        assert files_of(sample) == [
            str(demo.media_dir / p) for key in ("videos", "images") for p in record.get(key, [])
        ]
        handles = [cache.ensure_video(path, data.video_budget(), assets.geometry) for path in sample.videos]
        handles += [
            cache.ensure_image(path, assets.geometry, min_pixels=1024, max_pixels=4096) for path in sample.images
        ]
        assert prompt.media == tuple(handles)
        expected = encode_prompt(sample, assets.tokenizer, media=handles, geometry=assets.geometry)
        assert (prompt.sample_id, prompt.text) == (record["problem_id"], expected.text)
        assert prompt.token_ids.tolist() == expected.token_ids.tolist()
        assert record["problem"] in prompt.text
        # 64 x 64 pixels, 8 frames at 2 fps: 4 patches of 32 x 32 pixels a frame, two frames share theirs.
        visual = {"video": 4 * 8 // 2, "image": 4, "text": 0}[record["data_type"]]
        assert int((prompt.token_types() > 0).sum()) == visual
    assert cache.misses == 0


def test_a_second_build_decodes_nothing(demo: DemoData, assets: ModelAssets, cache_dir: Path) -> None:
    """Entries are written under another name and renamed: the inode tells whether one was written again."""
    first = build(config(demo, cache_dir), assets)
    before = {path: path.stat().st_ino for path in (cache_dir / "entries").rglob("*.safetensors")}
    second = build(config(demo, cache_dir), assets)
    after = {path: path.stat().st_ino for path in (cache_dir / "entries").rglob("*.safetensors")}
    assert before == after != {}
    assert [first.prompt(i).media for i in range(NUM_RECORDS)] == [second.prompt(i).media for i in range(NUM_RECORDS)]


def test_validation_records_have_a_budget_of_their_own(demo: DemoData, assets: ModelAssets, cache_dir: Path) -> None:
    dataset = build(config(demo, cache_dir, val_video_max_frames=4), assets, validation=True)
    assert ids(dataset) == [record["problem_id"] for record in raw_records(demo.val_file)]
    clips = [handle for i in range(len(dataset)) for handle in dataset.prompt(i).media if handle.kind == "video"]
    assert clips
    assert {len(clip.plan.frame_indices) for clip in clips} == {4}
    assert {tuple(clip.open().frames.shape) for clip in clips} == {(4, 3, 64, 64)}


def test_a_prompt_template_takes_the_place_of_the_built_in_one(
    demo: DemoData, assets: ModelAssets, cache_dir: Path, tmp_path: Path
) -> None:
    template = tmp_path / "prompt.jinja"
    template.write_text("{{ problem }} ({{ demo_task }}) Be brief.")
    dataset = build(config(demo, cache_dir, format_prompt=str(template)), assets)
    for i, record in enumerate(raw_records(demo.train_file)):
        assert f"{record['problem']} ({record['demo_task']}) Be brief." in dataset.prompt(i).text


def test_media_of_both_kinds_come_in_the_order_of_the_marks(
    demo: DemoData, assets: ModelAssets, cache_dir: Path, tmp_path: Path
) -> None:
    videos = [record["videos"][0] for record in of_kind(demo, "video", 2)]
    (image,) = of_kind(demo, "image")[0]["images"]
    problem = "<video>then <image>or <video>: same?"
    record = {"problem": problem, "answer": "yes", "problem_type": "boolean", "videos": videos, "images": [image]}
    dataset = build(config(demo, cache_dir, train_files=write(tmp_path / "mixed.jsonl", [record])), assets)
    sources = [handle.source for handle in dataset.prompt(0).media]
    assert sources == [str(demo.media_dir / path) for path in (videos[0], image, videos[1])]


def test_overlong_prompts_are_left_out_and_counted(
    demo: DemoData, assets: ModelAssets, cache_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = build(config(demo, cache_dir), assets)
    lengths = [len(whole.prompt(i).token_ids) for i in range(NUM_RECORDS)]
    limit = sorted(lengths)[NUM_RECORDS // 2]  # a prompt of exactly this length still fits
    keep = [i for i, length in enumerate(lengths) if length <= limit]
    assert 0 < len(keep) < NUM_RECORDS
    with caplog.at_level(logging.WARNING):
        dataset = build(config(demo, cache_dir, max_prompt_length=limit), assets)
    assert ids(dataset) == [whole.samples[i].problem_id for i in keep]
    assert dataset.num_skipped == NUM_RECORDS - len(keep)
    for place, i in enumerate(keep):  # samples and handles were dropped alike
        assert dataset.prompt(place).media == whole.prompt(i).media
        assert dataset.prompt(place).token_ids.tolist() == whole.prompt(i).token_ids.tolist()
    assert f"{NUM_RECORDS - len(keep)} of {NUM_RECORDS} prompts are longer than data.max_prompt_length={limit}" in (
        caplog.text
    )


def test_an_overlong_prompt_is_refused_with_the_numbers(demo: DemoData, assets: ModelAssets, cache_dir: Path) -> None:
    whole = build(config(demo, cache_dir), assets)
    lengths = [len(whole.prompt(i).token_ids) for i in range(NUM_RECORDS)]
    limit = max(lengths) - 1
    first = next(i for i, length in enumerate(lengths) if length > limit)
    with pytest.raises(ValueError, match="are longer than") as refusal:
        build(config(demo, cache_dir, max_prompt_length=limit, filter_overlong_prompts=False), assets)
    assert str(refusal.value) == (
        f"{lengths.count(max(lengths))} of {NUM_RECORDS} prompts are longer than data.max_prompt_length={limit}; the "
        f"first is {whole.samples[first].problem_id} ({demo.train_file}:{first + 1}) with {max(lengths)} tokens. Raise "
        "max_prompt_length, spend fewer frames or pixels, or set data.filter_overlong_prompts=true"
    )
    fits = config(demo, cache_dir, max_prompt_length=max(lengths), filter_overlong_prompts=False)
    assert len(build(fits, assets)) == NUM_RECORDS


def test_no_record_left_is_refused(demo: DemoData, assets: ModelAssets, cache_dir: Path) -> None:
    with pytest.raises(ValueError, match=r"train\.jsonl: no record is left to use; 0 were malformed, 0 had media that"):
        build(config(demo, cache_dir, max_prompt_length=1), assets)


@pytest.fixture
def bad_records(demo: DemoData, tmp_path: Path) -> str:
    """A good record, one without truth, one whose video is no video, one whose video is not there, a good one."""
    good, other = of_kind(demo, "text")[0], of_kind(demo, "image")[0]
    torn = tmp_path / "torn.mp4"
    torn.write_bytes(b"no video at all" * 50)
    video = of_kind(demo, "video")[0]
    records = [
        good,
        {"problem_id": "no-truth", "problem": "Why?", "problem_type": "open-ended"},
        video | {"problem_id": "torn", "videos": [str(torn)]},
        video | {"problem_id": "gone", "videos": [str(tmp_path / "gone.mp4")]},
        other,
    ]
    return write(tmp_path / "bad.jsonl", records)


def test_bad_records_are_skipped_and_counted(
    demo: DemoData, assets: ModelAssets, cache_dir: Path, bad_records: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = config(demo, cache_dir, train_files=bad_records, skip_bad_records=True)
    with caplog.at_level(logging.WARNING):
        dataset = build(data, assets)
    expected = [of_kind(demo, kind)[0]["problem_id"] for kind in ("text", "image")]
    assert ids(dataset) == expected
    assert [len(dataset.prompt(i).media) for i in range(2)] == [0, 1]
    assert dataset.num_skipped == 3
    for named in ("bad.jsonl:2", "torn.mp4", "gone.mp4"):
        assert named in caplog.text


def test_the_first_malformed_record_is_refused(demo: DemoData, cache_dir: Path, bad_records: str) -> None:
    with pytest.raises(RecordError, match=r"bad\.jsonl:2"):
        read_records(config(demo, cache_dir, train_files=bad_records))


def test_a_video_that_cannot_be_decoded_is_refused(
    demo: DemoData, assets: ModelAssets, cache_dir: Path, bad_records: str, tmp_path: Path
) -> None:
    torn = [record for record in raw_records(Path(bad_records)) if record["problem_id"] == "torn"]
    data = config(demo, cache_dir, train_files=write(tmp_path / "torn.jsonl", torn))
    found = read_records(data)
    with pytest.raises(ValueError, match=r"(?s)torn\.jsonl: 1 media .*torn\.mp4.*data\.skip_bad_records=true"):
        PromptDataset.build(found, data, assets)


def test_every_record_of_a_bad_file_is_counted(
    demo: DemoData, assets: ModelAssets, cache_dir: Path, bad_records: str, tmp_path: Path
) -> None:
    """Three records share a bad video, one has two bad ones of its own: four records are left out."""
    records = raw_records(Path(bad_records))
    torn = next(record for record in records if record["problem_id"] == "torn")
    two = torn | {"problem_id": "two", "videos": [str(tmp_path / "gone-1.mp4"), str(tmp_path / "gone-2.mp4")]}
    shared = [torn | {"problem_id": f"shared-{i}"} for i in range(3)]
    file = write(tmp_path / "shared.jsonl", [records[0], *shared, two])
    dataset = build(config(demo, cache_dir, train_files=file, skip_bad_records=True), assets)
    assert (len(dataset), dataset.num_skipped) == (1, 4)


@pytest.mark.parametrize(("num_missing", "listed", "more"), [(3, 3, ""), (10, 10, ""), (12, 10, "... and 2 more")])
def test_missing_media_are_listed_up_to_ten(
    demo: DemoData, cache_dir: Path, tmp_path: Path, num_missing: int, listed: int, more: str
) -> None:
    """Before anything is decoded; an empty file counts as missing."""
    (tmp_path / "0.mp4").touch()
    (good,) = of_kind(demo, "video")
    missing = [good | {"problem_id": str(i), "videos": [str(tmp_path / f"{i}.mp4")]} for i in range(num_missing)]
    file = write(tmp_path / "records.jsonl", [good, *missing])
    with pytest.raises(ValueError, match="missing or empty") as refusal:
        read_records(config(demo, cache_dir, train_files=file))
    lines = str(refusal.value).splitlines()
    assert lines[0] == f"{file}: {num_missing} media files are missing or empty:"
    assert lines[1 : listed + 1] == [f"  - {file}:{i + 2}: {tmp_path / f'{i}.mp4'}" for i in range(listed)]
    assert [line.strip() for line in lines[listed + 1 :]] == [
        *([more] if more else []),
        "Check data.image_dir, or set data.skip_bad_records=true to train without these records",
    ]


def test_without_a_media_folder_paths_start_from_the_record_file(
    demo: DemoData, cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """data.image_dir: "null means the record file's own folder"."""
    monkeypatch.chdir(tmp_path)
    file = demo.media_dir / "beside.jsonl"
    try:
        records = of_kind(demo, "video", 2)
        found = read_records(config(demo, cache_dir, train_files=write(file, records), image_dir=None))
        assert files_of(found.samples[0]) == [str(demo.media_dir / records[0]["videos"][0])]
    finally:
        file.unlink()


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("text",), set()),
        (("video",), {"video"}),
        (("image", "text"), {"image"}),
        (("video", "image", "text"), {"video", "image"}),
    ],
)
def test_media_kinds_are_those_of_the_records(
    demo: DemoData, cache_dir: Path, tmp_path: Path, kinds: tuple[str, ...], expected: set[str]
) -> None:
    records = [record for kind in kinds for record in of_kind(demo, kind)]
    data = config(demo, cache_dir, train_files=write(tmp_path / "records.jsonl", records))
    assert media_kinds(read_records(data)) == expected


def test_validation_records_are_read_from_their_own_file(demo: DemoData, cache_dir: Path) -> None:
    data = config(demo, cache_dir)
    assert [s.problem_id[:3] for s in read_records(data, validation=True).samples] == ["val"] * 10
    assert [s.problem_id[:5] for s in read_records(data).samples] == ["train"] * NUM_RECORDS


def test_fields_have_the_names_that_the_configuration_gives_them(
    demo: DemoData, cache_dir: Path, tmp_path: Path
) -> None:
    (record,) = of_kind(demo, "video")
    renamed = {
        "q": record["problem"],
        "a": record["answer"],
        "clips": record["videos"],
        "problem_type": record["problem_type"],
        "options": record["options"],
    }
    file = write(tmp_path / "renamed.jsonl", [renamed])
    data = config(demo, cache_dir, train_files=file, prompt_key="q", answer_key="a", video_key="clips")
    (sample,) = read_records(data).samples
    assert (sample.problem, sample.answer) == (record["problem"], record["answer"])
    assert files_of(sample) == [str(demo.media_dir / record["videos"][0])]
