"""The tiny policy: reproducible files that transformers loads offline, and a tokenizer fit for the demo's records."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from evr_apps.demo.corpus import demo_corpus
from evr_apps.demo.data import DemoData, generate_demo_data
from evr_apps.demo.settings import PIXELS, video_budget
from evr_apps.demo.tiny_model import VOCAB_SIZE, build_tiny_model
from evr_apps.demo.tokenizer import SPECIAL_TOKENS, build_tokenizer
from evr_core import Sample, geometry_for, read_samples
from evr_video import EncodedPrompt, FrameCache, encode_prompt, visual_inputs

PROMPT = Path(build_tiny_model.__code__.co_filename).with_name("prompt.jinja")


@dataclass(frozen=True)
class Policy:
    """A model folder beside the records that its tokenizer was made for."""

    data: DemoData
    folder: Path
    tokenizer: Any
    processor: Any


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    from transformers import AutoProcessor, AutoTokenizer

    root = tmp_path_factory.mktemp("policy")
    data = generate_demo_data(root / "data", seed=1, num_train=80, num_val=10, num_sft=120)
    folder = build_tiny_model(root / "model", seed=1, corpus=demo_corpus(data.sft_file))
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return Policy(data, folder, tokenizer, AutoProcessor.from_pretrained(folder, local_files_only=True))


@pytest.fixture(scope="module")
def encode(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Sample, EncodedPrompt]]:
    """Encodes the first training sample of a data type as the demo's stages do."""
    cache, geometry = FrameCache(tmp_path_factory.mktemp("frames")), geometry_for(policy.folder)
    samples = read_samples(policy.data.train_file, media_dir=policy.data.media_dir).samples

    def first(data_type: str) -> tuple[Sample, EncodedPrompt]:
        sample = next(s for s in samples if s.data_type == data_type)
        media = [cache.ensure_video(path, video_budget(), geometry) for path in sample.videos]
        media += [cache.ensure_image(p, geometry, min_pixels=PIXELS, max_pixels=PIXELS) for p in sample.images]
        prompt = encode_prompt(sample, policy.tokenizer, media=media, geometry=geometry, template=PROMPT)
        return sample, prompt

    return first


def file_digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def train_records(policy: Policy) -> list[dict[str, Any]]:
    return [json.loads(line) for line in policy.data.train_file.read_text(encoding="utf-8").splitlines()]


def test_the_same_seed_gives_the_same_files(policy: Policy, tmp_path: Path) -> None:
    torch.manual_seed(99)  # what a caller drew before plays no part
    before = torch.get_rng_state()
    again = build_tiny_model(tmp_path / "again", seed=1, corpus=demo_corpus(policy.data.sft_file))
    assert torch.equal(torch.get_rng_state(), before)
    assert file_digests(again) == file_digests(policy.folder)


def test_another_seed_gives_other_weights_alone(policy: Policy, tmp_path: Path) -> None:
    other = build_tiny_model(tmp_path / "other", seed=2, corpus=demo_corpus(policy.data.sft_file))
    first, second = file_digests(policy.folder), file_digests(other)
    assert {name for name in first if first[name] != second[name]} == {"model.safetensors"}


def test_it_loads_without_a_network(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

    def refuse(*_: Any) -> None:
        raise AssertionError("loading the tiny model opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    model, info = AutoModelForImageTextToText.from_pretrained(policy.folder, output_loading_info=True)
    assert type(model).__name__ == "Qwen3VLForConditionalGeneration"
    assert not any(info.values())
    assert 0.8e6 < sum(parameter.numel() for parameter in model.parameters()) < 1.5e6
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    tokenizer = AutoTokenizer.from_pretrained(policy.folder)
    processor = AutoProcessor.from_pretrained(policy.folder)
    assert type(processor).__name__ == "Qwen3VLProcessor"
    assert processor.tokenizer.get_vocab() == tokenizer.get_vocab()
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id


def test_image_and_video_processor_normalise_alike(policy: Policy) -> None:
    image, video = policy.processor.image_processor, policy.processor.video_processor
    assert list(image.image_mean) == list(video.image_mean) == [0.5, 0.5, 0.5]
    assert list(image.image_std) == list(video.image_std) == [0.5, 0.5, 0.5]
    for name in ("patch_size", "temporal_patch_size", "merge_size"):
        assert getattr(image, name) == getattr(video, name)


@pytest.mark.parametrize("token", [*SPECIAL_TOKENS, "<answer>", "</answer>"])
def test_a_marker_is_one_token(policy: Policy, token: str) -> None:
    (token_id,) = policy.tokenizer(token, add_special_tokens=False)["input_ids"]
    assert policy.tokenizer.convert_ids_to_tokens(token_id) == token
    assert (token_id in policy.tokenizer.all_special_ids) == (token in SPECIAL_TOKENS)
    assert len(policy.tokenizer(f"a{token}b", add_special_tokens=False)["input_ids"]) == 3


def test_the_config_names_the_tokenizers_ids(policy: Policy) -> None:
    config = json.loads((policy.folder / "config.json").read_text(encoding="utf-8"))
    names = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"}
    names |= {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    for key, token in names.items():
        assert config[key] == policy.tokenizer.convert_tokens_to_ids(token)
    assert config["text_config"]["vocab_size"] == len(policy.tokenizer) <= VOCAB_SIZE


def test_every_answer_survives_the_tokenizer(policy: Policy) -> None:
    for record in train_records(policy):
        response = f"<answer>{record['answer']}</answer>"
        ids = policy.tokenizer(response, add_special_tokens=False)["input_ids"]
        assert policy.tokenizer.decode(ids, skip_special_tokens=True) == response
        assert len(ids) + 1 <= 16  # with the end token; far from the demo's limit of 48


@pytest.mark.parametrize("data_type", ["video", "image", "text"])
def test_prompt_ids_equal_those_of_the_processor(
    policy: Policy, encode: Callable[[str], tuple[Sample, EncodedPrompt]], data_type: str
) -> None:
    sample, prompt = encode(data_type)
    parts = [{"type": "video"}] * len(sample.videos) + [{"type": "image"}] * len(sample.images)
    question = " ".join([sample.problem, *sample.options])
    messages = [{"role": "user", "content": [*parts, {"type": "text", "text": question}]}]
    text = policy.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert prompt.text == text
    clips = [handle.open().for_transformers() for handle in prompt.media]
    videos = clips if data_type == "video" else []
    expected = policy.processor(
        text=[text],
        images=clips if data_type == "image" else None,
        videos=[frames for frames, _ in videos] or None,
        video_metadata=[metadata for _, metadata in videos] or None,
        do_resize=False,
        do_sample_frames=False,
        return_tensors="pt",
    )
    assert prompt.token_ids.tolist() == expected["input_ids"][0].tolist()
    inputs = visual_inputs(prompt.media, policy.processor) if prompt.media else {}
    assert inputs.keys() == {name for name in expected if name.startswith(("pixel", "image_grid", "video_grid"))}
    assert all(torch.equal(tensor, expected[name]) for name, tensor in inputs.items())


def test_a_prompt_ends_with_the_generation_prompt(
    policy: Policy, encode: Callable[[str], tuple[Sample, EncodedPrompt]]
) -> None:
    sample, prompt = encode("video")
    start, assistant = "<|im_start|>", "assistant\n"
    assert prompt.text.endswith(f"{sample.problem}<|im_end|>\n{start}{assistant}")
    tail = policy.tokenizer(f"{start}{assistant}", add_special_tokens=False)["input_ids"]
    assert prompt.token_ids[-len(tail) :].tolist() == tail
    closed = policy.tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert closed == f"{start}user\nHi<|im_end|>\n"


def test_the_corpus_holds_the_frame_times_of_a_prompt(
    policy: Policy, encode: Callable[[str], tuple[Sample, EncodedPrompt]]
) -> None:
    shown = policy.tokenizer.decode(encode("video")[1].token_ids, skip_special_tokens=True)
    times = [part + " seconds>" for part in shown.split(" seconds>")[:-1]]
    assert len(times) == 4  # one for each pair of frames
    line = next(iter(demo_corpus(policy.data.train_file)))
    assert "".join(times).removeprefix("user\n") in line


def test_a_vocabulary_without_room_for_the_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="vocab_size=200: at least 272"):
        build_tokenizer(["text"], vocab_size=200)
