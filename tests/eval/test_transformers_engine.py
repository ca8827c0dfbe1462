from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from evr_core import VideoBudget, geometry_for, read_samples
from evr_eval import EngineError, EvalConfig, SamplingSettings, TransformersEngine, evaluate, read_results
from evr_video import EncodedPrompt, FrameCache, encode_prompt
from support_eval import SMALL, question, write_records

BUDGET = VideoBudget(**SMALL)


@pytest.fixture(scope="module")
def engine(model_path: Path) -> TransformersEngine:
    return TransformersEngine(model_path, device="cpu")


def _prompt(model_path: Path, media_dir: Path, tmp_path: Path, video: str | None) -> EncodedPrompt:
    path = write_records(tmp_path / "one.jsonl", [question("one", video, "yes")])
    sample = read_samples(path, media_dir=media_dir).samples[0]
    geometry = geometry_for(model_path)
    cache = FrameCache(tmp_path / "frames")
    media = [cache.ensure_video(file, BUDGET, geometry) for file in sample.videos]
    tokenizer = AutoProcessor.from_pretrained(model_path).tokenizer
    return encode_prompt(sample, tokenizer, media=media, geometry=geometry)


def _generate(engine: TransformersEngine, prompt: EncodedPrompt, **fields: Any) -> tuple[int, ...]:
    return asyncio.run(engine.generate(prompt, SamplingSettings(**{"max_tokens": 8, **fields}))).token_ids


@pytest.mark.parametrize("video", ["red.mp4", None])
def test_greedy_equals_argmax_step_by_step(
    engine: TransformersEngine, model_path: Path, media_dir: Path, tmp_path: Path, video: str | None
) -> None:
    prompt = _prompt(model_path, media_dir, tmp_path, video)
    model = AutoModelForImageTextToText.from_pretrained(model_path, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(model_path)
    inputs = {"text": [prompt.text], "return_tensors": "pt"}
    if video:
        frames, metadata = prompt.media[0].open().for_transformers()
        inputs |= {"videos": [frames], "video_metadata": [metadata], "do_resize": False, "do_sample_frames": False}
    encoded = processor(**inputs)
    assert encoded["input_ids"][0].tolist() == prompt.token_ids.tolist()
    ids, forbidden = encoded.pop("input_ids"), [model.config.image_token_id, model.config.video_token_id]
    encoded.pop("attention_mask")
    types = encoded.pop("mm_token_type_ids", None)
    expected: list[int] = []
    with torch.inference_mode():
        while len(expected) < 8 and (not expected or expected[-1] != model.generation_config.eos_token_id):
            grown = torch.cat([ids, torch.tensor([expected], dtype=torch.long)], dim=1)
            padded = None if types is None else torch.nn.functional.pad(types, (0, len(expected)))
            logits = model(input_ids=grown, mm_token_type_ids=padded, **encoded).logits[0, -1]
            logits[forbidden] = -torch.inf
            expected.append(int(logits.argmax()))
    assert list(_generate(engine, prompt)) == expected


def test_samples_depend_on_seed_and_nothing_else(
    engine: TransformersEngine, model_path: Path, media_dir: Path, tmp_path: Path
) -> None:
    prompt = _prompt(model_path, media_dir, tmp_path, "red.mp4")
    first = _generate(engine, prompt, temperature=1.0, seed=1)
    torch.rand(3)
    state = torch.random.get_rng_state()
    assert _generate(engine, prompt, temperature=1.0, seed=1) == first
    assert torch.equal(torch.random.get_rng_state(), state)
    assert _generate(engine, prompt, temperature=1.0, seed=2) != first
    assert _generate(engine, prompt, temperature=1.0, top_k=1) == _generate(engine, prompt)


def test_placeholders_are_never_sampled(model_path: Path, media_dir: Path, tmp_path: Path) -> None:
    engine = TransformersEngine(model_path, device="cpu")
    config = engine._model.config
    with torch.no_grad():  # a head that wants nothing but placeholders
        engine._model.lm_head.weight[[config.image_token_id, config.video_token_id]] *= 1000
    prompt = _prompt(model_path, media_dir, tmp_path, None)
    for seed in range(5):
        drawn = _generate(engine, prompt, temperature=2.0, seed=seed, max_tokens=32)
        assert not {config.image_token_id, config.video_token_id} & set(drawn)


def test_a_prompt_without_room_is_an_engine_error(
    engine: TransformersEngine, model_path: Path, media_dir: Path, tmp_path: Path
) -> None:
    record = {**question("long", None, "yes"), "problem": "red " * 1500}
    path = write_records(tmp_path / "long.jsonl", [record])
    sample = read_samples(path, media_dir=media_dir).samples[0]
    tokenizer = AutoProcessor.from_pretrained(model_path).tokenizer
    prompt = encode_prompt(sample, tokenizer, media=[], geometry=geometry_for(model_path))
    with pytest.raises(EngineError, match="leaves no room in the model's 1024 positions"):
        _generate(engine, prompt)


def test_an_evaluation_with_the_real_engine(model_path: Path, media_dir: Path, tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", [question("a", "red.mp4", "yes"), question("b", "blue.mp4", "yes")])
    fields = {"model_path": model_path, "records": tmp_path / "r.jsonl", "media_dir": media_dir, "max_tokens": 4}
    config = EvalConfig.model_validate({**fields, "output_dir": tmp_path / "out", **SMALL})
    summary = evaluate(config)
    assert summary.outcomes["media_error"] == 0
    assert summary.output_tokens == sum(row.output_tokens for row in read_results(config.output_dir)) > 0
    raw = json.loads((config.output_dir / "summary.json").read_text())
    assert raw["settings"]["engine"] == {"name": "transformers", "dtype": "float32"}


def test_images_and_several_media_in_one_question(model_path: Path, media_dir: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 48), "red").save(media_dir / "red.png")
    both = {"problem_id": "both", "problem": "<image> Is this in <video>?", "problem_type": "boolean", "answer": "yes"}
    image = {"problem_id": "image", "problem": "Is it red?", "problem_type": "boolean", "answer": "yes"}
    range_ = question("range", "red.mp4", "yes", video_start=0.5, video_end=1.5)
    records = [
        {**both, "images": ["red.png"], "videos": ["red.mp4"]},
        {**image, "images": ["red.png"], "data_type": "image"},
        range_,
        question("text", None, "no"),
    ]
    write_records(tmp_path / "r.jsonl", records)
    fields = {"model_path": model_path, "records": tmp_path / "r.jsonl", "media_dir": media_dir, "max_tokens": 4}
    summary = evaluate(EvalConfig.model_validate({**fields, "output_dir": tmp_path / "out", **SMALL}))
    rows = {row.sample_id: row for row in read_results(tmp_path / "out")}
    assert [row.detail for row in rows.values()] == [""] * 4
    assert summary.outcomes["media_error"] + summary.outcomes["engine_error"] == 0
    assert [(use.path, use.kind) for use in rows["both"].media] == [("red.png", "image"), ("red.mp4", "video")]
    assert rows["image"].visual_tokens == 4  # 64 x 48 becomes 64 x 64: 2 x 2 tokens of 32 pixels
    assert all(0.5 <= time <= 1.5 for time in rows["range"].media[0].timestamps_s)
    assert (rows["text"].cluster, rows["text"].media) == ("text:text", ())
