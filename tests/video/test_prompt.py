"""Prompts against the processor of transformers, and the contract."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from core.processors import processor_for
from evr_core import DataType, ProblemType, Sample, geometry_for
from evr_video import ContractError, FrameCache, encode_prompt, token_types, visual_inputs
from video.media_files import write_image

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for p in m['content'] %}"
    "{% if p['type'] == 'text' %}{{ p['text'] }}"
    "{% else %}<|vision_start|><|{{ p['type'] }}_pad|><|vision_end|>{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FAMILIES = {"qwen3_vl": "Qwen3-VL", "qwen2_5_vl": "Qwen2.5-VL", "qwen2_vl": "Qwen2-VL"}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    processor = processor_for(request.param)
    processor.tokenizer.chat_template = CHAT_TEMPLATE
    return processor, geometry_for(f"Qwen/{FAMILIES[request.param]}-7B")


@pytest.fixture(scope="module")
def qwen3():
    processor = processor_for("qwen3_vl")
    processor.tokenizer.chat_template = CHAT_TEMPLATE
    return processor


def mixed_sample(media, folder):
    second = write_image(folder / "second.png", height=40, width=200, seed=4)
    return Sample(
        problem_id="mixed",
        problem="Is <image> in <video>, or <image> in <video>?",
        answer="yes",
        problem_type=ProblemType.BOOLEAN,
        data_type=DataType.VIDEO,
        images=(media / "picture.png", second),
        videos=(media / "plain.mp4", media / "odd.mp4"),
    )


def handles_for(sample, cache, budget, geometry):
    videos = [cache.ensure_video(path, budget, geometry) for path in sample.videos]
    images = [cache.ensure_image(path, geometry, min_pixels=1024, max_pixels=9216) for path in sample.images]
    return [*videos, *images]


@pytest.fixture
def encoded(media, tmp_path, cache, budget, geometry, qwen3):
    sample = mixed_sample(media, tmp_path)
    handles = handles_for(sample, cache, budget, geometry)
    return encode_prompt(sample, qwen3.tokenizer, media=handles, geometry=geometry)


def test_ids_and_tensors_equal_those_of_the_processor(family, media, tmp_path, cache, budget):
    processor, geometry = family
    sample = mixed_sample(media, tmp_path)
    prompt = encode_prompt(
        sample, processor.tokenizer, media=handles_for(sample, cache, budget, geometry), geometry=geometry
    )
    clips = [handle.open() for handle in prompt.media]
    videos = [clip.for_transformers() for clip in clips if hasattr(clip, "frames")]
    expected = processor(
        text=[prompt.text],
        images=[clip.for_transformers() for clip in clips if not hasattr(clip, "frames")],
        videos=[frames for frames, _ in videos],
        video_metadata=[metadata for _, metadata in videos],
        do_resize=False,
        do_sample_frames=False,
        return_tensors="pt",
    )
    assert prompt.token_ids.dtype == np.int32
    assert prompt.token_ids.tolist() == expected["input_ids"][0].tolist()
    inputs = visual_inputs(prompt.media, processor)
    assert set(inputs) == {"pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw"}
    for name, tensor in inputs.items():
        assert torch.equal(tensor, expected[name])
    assert [handle.kind for handle in prompt.media] == ["image", "video", "image", "video"]


def test_token_types_and_positions_equal_those_of_transformers(encoded, qwen3):
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    config = Qwen3VLConfig(
        image_token_id=encoded.visual_ids.image,
        video_token_id=encoded.visual_ids.video,
        vision_start_token_id=qwen3.vision_start_token_id,
    )
    with torch.device("meta"):
        model = Qwen3VLForConditionalGeneration(config)
    inputs = visual_inputs(encoded.media, qwen3)
    expected, _ = model.model.get_rope_index(
        input_ids=torch.tensor(encoded.token_ids, dtype=torch.long)[None],
        mm_token_type_ids=torch.tensor(encoded.token_types(), dtype=torch.long)[None],
        image_grid_thw=inputs["image_grid_thw"],
        video_grid_thw=inputs["video_grid_thw"],
        attention_mask=torch.ones(1, len(encoded.token_ids), dtype=torch.long),
    )
    assert np.array_equal(encoded.positions(), expected[:, 0].numpy())
    counts = np.bincount(token_types(encoded.token_ids, encoded.visual_ids))
    patches = [inputs[f"{kind}_grid_thw"].prod(1).sum() for kind in ("image", "video")]
    assert counts[1:].tolist() == [count // 4 for count in patches]


def test_a_text_prompt_has_no_media(qwen3, geometry):
    sample = Sample("t", "2 + 2?", "4", ProblemType.NUMERICAL, DataType.TEXT)
    prompt = encode_prompt(sample, qwen3.tokenizer, media=[], geometry=geometry)
    prompt.check("rollout", verify=True)
    assert prompt.positions().tolist() == [list(range(len(prompt.token_ids)))] * 3
    assert visual_inputs(prompt.media, qwen3) == {}


def test_an_encoded_prompt_is_small(encoded):
    data = pickle.dumps(encoded)
    assert len(data) < 12_000
    again = pickle.loads(data)  # noqa: S301 - our own bytes
    assert np.array_equal(again.token_ids, encoded.token_ids)
    again.check("update", verify=True)


def test_missing_media_are_named(media, tmp_path, cache, budget, geometry, qwen3):
    sample = mixed_sample(media, tmp_path)
    handles = handles_for(sample, cache, budget, geometry)
    with pytest.raises(ValueError, match="sample mixed: the prompt asks for 2 images, 1 were given"):
        encode_prompt(sample, qwen3.tokenizer, media=handles[:-1], geometry=geometry)


def test_every_broken_promise_is_found(encoded):
    contract, media = encoded.contract, encoded.media
    other = "0" * 64
    broken = {
        "grid_thw": replace(contract, grid_thw=((1, 2, 2), *contract.grid_thw[1:])),
        "visual_tokens": replace(contract, visual_tokens=(1, *contract.visual_tokens[1:])),
        "placeholders": replace(contract, placeholders=(0, 0)),
        "positions_digest": replace(contract, positions_digest=other),
        "frame_digests": replace(contract, frame_digests=(other, *contract.frame_digests[1:])),
    }
    encoded.check("rollout", verify=True)
    for field, wrong in broken.items():
        assert wrong.digest != contract.digest
        with pytest.raises(ContractError, match=rf"sample mixed, stage update: {field}: expected .*, found") as caught:
            replace(encoded, contract=wrong).check("update")
        assert (caught.value.sample_id, caught.value.stage, caught.value.what) == ("mixed", "update", field)
    with pytest.raises(ContractError, match=r"grid_thw|placeholders"):
        replace(encoded, media=(media[2], media[1], media[0], media[3])).check("rollout")


def test_other_tokens_and_positions_are_found(encoded):
    ids = encoded.token_ids.copy()
    placeholder = int(np.flatnonzero(ids == encoded.visual_ids.video)[0])
    ids[placeholder] = ids[0]
    with pytest.raises(ContractError, match="video placeholders: expected"):
        encoded.check("rollout", token_ids=ids)
    with pytest.raises(ContractError, match="positions"):
        encoded.check("rollout", token_ids=np.insert(encoded.token_ids, 0, ids[0]))
    with pytest.raises(ContractError, match="positions"):
        encoded.check("update", positions=encoded.positions() + 1)


def test_other_frames_under_the_same_key_are_found(encoded, cache, tmp_path):
    from evr_video._entry import map_entry, read_meta, write_entry

    handle = encoded.media[1]
    meta, tensors = read_meta(handle.path), {name: value.clone() for name, value in map_entry(handle.path).items()}
    write_entry(handle.path, tmp_path / "part", {**tensors, "frames": tensors["frames"] ^ 1}, meta)
    encoded.check("rollout")  # the header still says the same: only reading the frames shows it
    with pytest.raises(ContractError, match=r"frames of .*plain.mp4: expected .* no longer have the digest"):
        encoded.check("rollout", verify=True)
    write_entry(handle.path, tmp_path / "part", tensors, {**meta, "digest": "0" * 64})
    with pytest.raises(ContractError, match=r"frames and grid of .*plain.mp4"):
        encoded.check("rollout")
    FrameCache(cache.root).remove(handle.key)
    with pytest.raises(ContractError, match="is gone"):
        encoded.check("rollout")


def test_a_processor_of_another_geometry_is_refused(media, cache, budget):
    other = geometry_for("Qwen/Qwen2.5-VL-7B")
    handle = cache.ensure_video(media / "plain.mp4", budget, other)
    with pytest.raises((ValueError, RuntimeError)):
        visual_inputs([handle], processor_for("qwen3_vl"))
