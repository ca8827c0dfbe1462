"""Records of every accepted shape, and what is said about the malformed ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from evr_core import DataType, ProblemType, RecordError, RecordFields, missing_media, parse_problem_type, read_samples

VIDEO = {
    "problem": "What color is the car?",
    "answer": "B",
    "videos": ["a/b.mp4"],
    "data_type": "video",
    "problem_type": "multiple choice",
    "options": ["A. Red", "B. Blue"],
}
TEXT = {"problem": "2+2?", "answer": 4, "problem_type": "math"}


def write(path: Path, records, *, lines: bool = True) -> Path:
    path.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records, indent=2))
    return path


def read_one(tmp_path, record, **arguments):
    (sample,) = read_samples(write(tmp_path / "r.jsonl", [record]), **arguments).samples
    return sample


def test_all_fields(tmp_path):
    record = {
        **VIDEO,
        "problem_id": 7,
        "data_source": "cars",
        "video_start": 1,
        "video_end": 2.5,
        "level": "hard",
        "images": [],
    }
    sample = read_one(tmp_path, record, media_dir=tmp_path / "media")
    assert sample.problem_id == "7"
    assert sample.problem_type is ProblemType.MULTIPLE_CHOICE
    assert sample.data_type is DataType.VIDEO
    assert sample.videos == (tmp_path / "media" / "a/b.mp4",)
    assert sample.options == ("A. Red", "B. Blue")
    assert (sample.video_start_s, sample.video_end_s, sample.data_source) == (1.0, 2.5, "cars")
    assert sample.extra == {"level": "hard"}
    assert sample.origin == f"{tmp_path / 'r.jsonl'}:1"


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("name", ["r.json", "r.jsonl"])
def test_arrays_and_lines_whatever_the_suffix(tmp_path, name, lines):
    found = read_samples(write(tmp_path / name, [TEXT, VIDEO, TEXT | {"answer": 5}], lines=lines))
    assert [sample.data_type for sample in found.samples] == ["text", "video", "text"]
    starts = [1, 2, 3] if lines else [2, 7, 20]
    assert [sample.origin for sample in found.samples] == [f"{tmp_path / name}:{line}" for line in starts]


@pytest.mark.parametrize("question", ["problem", "prompt", "question"])
@pytest.mark.parametrize("truth", ["answer", "solution"])
def test_aliases_of_question_and_truth(tmp_path, question, truth):
    sample = read_one(tmp_path, {question: "Why?", truth: "Because", "problem_type": "free_form"})
    assert (sample.problem, sample.answer, sample.problem_type) == ("Why?", "Because", ProblemType.OPEN_ENDED)
    assert sample.extra == {}


def test_configured_name_wins_and_the_other_stays_as_extra(tmp_path):
    record = {"problem": "template text", "query": "Why?", "answer": "x", "problem_type": "math"}
    sample = read_one(tmp_path, record, fields=RecordFields(prompt="query"))
    assert sample.problem == "Why?"
    assert sample.extra == {"problem": "template text"}


@pytest.mark.parametrize("kind, medium", [("video", "videos"), ("image", "images")])
def test_path_with_data_type(tmp_path, kind, medium):
    sample = read_one(tmp_path, {**TEXT, "path": "x/y.bin", "data_type": kind.upper()}, media_dir="m")
    assert getattr(sample, medium) == (Path("m/x/y.bin"),)
    assert sample.data_type == kind


def test_absolute_and_file_addresses(tmp_path):
    sample = read_one(tmp_path, {**TEXT, "images": ["/i/1.png", "file:///i/2.png", "3.png"]}, media_dir="/m")
    assert sample.images == (Path("/i/1.png"), Path("/i/2.png"), Path("/m/3.png"))


@pytest.mark.parametrize(
    "given, expected",
    [
        ("<answer>B</answer>", "B"),
        ("<think>A?</think><answer> C </answer>\n", "C"),
        ({"time": [1.5, 2]}, '{"time": [1.5, 2]}'),
        (3.5, "3.5"),
        (0, "0"),
        (True, "yes"),
        ("the tag <answer> is kept", "the tag <answer> is kept"),
    ],
)
def test_truth_forms(tmp_path, given, expected):
    assert read_one(tmp_path, {**TEXT, "answer": given}).answer == expected


@pytest.mark.parametrize(
    "name, kind",
    [
        ("Multiple_Choice", ProblemType.MULTIPLE_CHOICE),
        ("multiple-choice", ProblemType.MULTIPLE_CHOICE),
        ("SVG code", ProblemType.SVG_CODE),
        ("Spatial_Temporal_Grounding", ProblemType.SPATIAL_TEMPORAL_GROUNDING),
        ("spatial-temporal grounding", ProblemType.SPATIAL_TEMPORAL_GROUNDING),
        ("free-form", ProblemType.OPEN_ENDED),
        ("video_qa", ProblemType.OPEN_ENDED),
        ("video description", ProblemType.OPEN_ENDED),
        ("binary_classification", ProblemType.BOOLEAN),
        ("OCR", ProblemType.OCR),
        ("llava", ProblemType.PREFERENCE),
        ("critic", ProblemType.PREFERENCE),
    ],
)
def test_problem_type_aliases(name, kind):
    assert parse_problem_type(name) is kind


def test_options_alone_make_it_multiple_choice(tmp_path):
    record = {key: value for key, value in VIDEO.items() if key != "problem_type"}
    assert read_one(tmp_path, record).problem_type is ProblemType.MULTIPLE_CHOICE


@pytest.mark.parametrize(
    "change, field, message",
    [
        ({"problem_type": "multipel choice"}, "problem_type", r"did you mean 'multiple choice'.*allowed: .*tracking"),
        ({"problem_type": None, "options": None}, "problem_type", r"missing; allowed: multiple choice"),
        ({"problem": None, "porblem": "x"}, "problem", r"missing; did you mean 'porblem'.*prompt_key"),
        ({"problem": "  "}, "problem", r"not empty"),
        ({"answer": ""}, "answer", r"empty; every record needs"),
        ({"answer": None, "anwser": "B"}, "answer", r"missing; did you mean 'anwser'"),
        ({"data_type": "movie"}, "data_type", r"got 'movie'; allowed: text, image, video"),
        ({"data_type": "image"}, "data_type", r"0 images and 1 videos, so this must be 'video'"),
        ({"videos": [3]}, "videos", r"paths as texts"),
        ({"videos": {"a": 1}}, "videos", r"list of paths"),
        ({"videos": ["http://x/y.mp4"]}, "videos", r"download the file"),
        ({"problem": "<video><video> Why?"}, "videos", r"2 <video> marks but the record has 1"),
        ({"options": "A. Red"}, "options", r"list of texts"),
        ({"options": ["A", None]}, "options", r"must be a text or a number"),
        ({"video_start": "00:03"}, "video_start", r"got '00:03'; expected seconds"),
        ({"video_start": 5, "video_end": 5}, "video_end", r"later than video_start \(5.0 s\)"),
        ({"problem_id": ["x"]}, "problem_id", r"text or a whole number"),
        ({"has_offline_trajectory": "yes"}, "has_offline_trajectory", r"true or false"),
        ({"videos": [], "data_type": None, "path": "x.mp4"}, "data_type", r"image or video"),
    ],
)
def test_malformed_records_name_place_field_value_and_remedy(tmp_path, change, field, message):
    path = write(tmp_path / "r.jsonl", [TEXT, VIDEO | change])
    with pytest.raises(RecordError, match=message) as caught:
        read_samples(path)
    assert str(caught.value).startswith(f"{path}:2: field {field!r}:")
    assert caught.value.record.field == field
    found = read_samples(path, skip_bad_records=True)
    assert len(found) == 1
    assert found.rejected == (caught.value.record,)


def test_long_values_are_shortened(tmp_path):
    with pytest.raises(RecordError) as caught:
        read_one(tmp_path, {**TEXT, "problem_type": "x" * 5000})
    assert len(caught.value.record.value) == 80


def test_broken_lines_and_items_that_are_no_objects(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(f'{json.dumps(TEXT)}\n{{"problem": \n\n[1]\n{json.dumps(VIDEO)}\n')
    found = read_samples(path, skip_bad_records=True)
    assert len(found) == 2
    assert [bad.origin for bad in found.rejected] == [f"{path}:2", f"{path}:4"]
    assert "not valid JSON at column" in found.rejected[0].reason
    with pytest.raises(RecordError, match=r"r\.jsonl:2: got '\{\"problem\":'; not valid JSON"):
        read_samples(path)


@pytest.mark.parametrize(
    "text, line, message",
    [
        ('[\n{"a": 1},\n{"b": }\n]', 3, "not valid JSON at column 7"),
        ('[\n{"problem": "x"}', 2, "needs ',' or ']'"),
        ("[]\nmore", 2, "text after the array's end"),
    ],
)
def test_broken_array_is_an_error_even_when_skipping(tmp_path, text, line, message):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=message) as caught:
        read_samples(path, skip_bad_records=True)
    assert caught.value.record.origin == f"{path}:{line}"


def test_ids_are_made_from_content_and_repeats_are_numbered(tmp_path):
    records = [
        TEXT,
        VIDEO,
        TEXT,
        {**TEXT, "problem_id": "q"},
        {**VIDEO, "problem_id": "q"},
        {**TEXT, "problem_id": "q#2"},
    ]
    ids = [sample.problem_id for sample in read_samples(write(tmp_path / "a.jsonl", records)).samples]
    assert len(set(ids)) == len(ids) == 6
    assert ids[2] == f"{ids[0]}#2"
    assert ids[3:] == ["q", "q#3", "q#2"]
    again = read_samples(write(tmp_path / "b.json", [dict(reversed(TEXT.items()))], lines=False))
    assert again.samples[0].problem_id == ids[0]


def test_require_answer_can_be_waived(tmp_path):
    record = {"problem": "x", "problem_type": "ocr"}
    assert read_one(tmp_path, record, require_answer=False).answer == ""


def test_folders_and_splits(tmp_path):
    write(tmp_path / "train.jsonl", [TEXT])
    write(tmp_path / "val-00000-of-00002.json", [VIDEO], lines=False)
    write(tmp_path / "val-00001-of-00002.json", [VIDEO | {"answer": "A"}], lines=False)
    assert len(read_samples(tmp_path)) == 3
    assert len(read_samples(f"{tmp_path}@train")) == 1
    assert [sample.answer for sample in read_samples(f"{tmp_path}@val").samples] == ["B", "A"]
    with pytest.raises(ValueError, match=r"@test: no such split; the folder has \['train\.jsonl'"):
        read_samples(f"{tmp_path}@test")
    with pytest.raises(ValueError, match="this file has no splits"):
        read_samples(f"{tmp_path / 'train.jsonl'}@val")


def test_one_file_of_splits(tmp_path):
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"train": [TEXT, TEXT], "val": [VIDEO]}))
    assert [sample.origin for sample in read_samples(f"{path}@val").samples] == [f"{path}@val:1"]
    with pytest.raises(ValueError, match=r"holds the splits \['train', 'val'\]"):
        read_samples(path)


def test_nothing_to_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such record file"):
        read_samples(tmp_path / "missing.jsonl")
    with pytest.raises(ValueError, match="no record files in this folder"):
        read_samples(tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="holds no records"):
        read_samples(tmp_path / "empty.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(ValueError, match="not UTF-8 at byte 7"):
        read_samples(tmp_path / "latin.jsonl")
    (tmp_path / "r.csv").write_text("a,b")
    with pytest.raises(ValueError, match=r"unknown kind of record file '\.csv'"):
        read_samples(tmp_path / "r.csv")


def test_unusual_line_separators_stay_inside_texts(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**TEXT, "problem": "a\u2028b\u0085c"}, ensure_ascii=False), encoding="utf-8")
    assert read_samples(path).samples[0].problem == "a\u2028b\u0085c"


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path = tmp_path / "train.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([{**VIDEO, "level": 1}, {**VIDEO, "answer": None}]), path)
    found = read_samples(path, skip_bad_records=True)
    assert found.samples[0].options == ("A. Red", "B. Blue")
    assert found.samples[0].extra == {"level": 1}
    assert found.rejected[0].origin == f"{path}:2"


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "r.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"evr-core\[parquet\]"):
        read_samples(tmp_path / "r.parquet")


def test_hub_id_without_the_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(FileNotFoundError, match=r"someone/data: no such record file.*evr-core\[hub\]"):
        read_samples("someone/data@train")


def test_missing_media_lists_absent_and_empty_files(tmp_path):
    (tmp_path / "good.mp4").write_bytes(b"x")
    (tmp_path / "empty.mp4").touch()
    records = [TEXT | {"videos": [name]} for name in ("good.mp4", "empty.mp4", "gone.mp4")]
    samples = read_samples(write(tmp_path / "r.jsonl", records), media_dir=tmp_path).samples
    assert missing_media(samples) == [(samples[1], tmp_path / "empty.mp4"), (samples[2], tmp_path / "gone.mp4")]
