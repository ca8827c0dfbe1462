"""Memory estimates against hand calculation and against real models."""

from __future__ import annotations

import pytest
import torch

from evr_core import (
    ModelShape,
    StepShape,
    VideoBudget,
    VideoInfo,
    estimate_memory,
    geometry_for,
    kv_bytes_per_token,
    model_shape,
    plan_image,
    plan_video,
)

QWEN3 = geometry_for("Qwen3-VL")
SHAPE = ModelShape(36, 36, 4096, 32, 8, 128, 12288, 151936, 8_000_000_000)
STEP = StepShape(
    prompts=64,
    responses_per_prompt=8,
    prompt_tokens=20_000,
    response_tokens=1000,
    micro_batch_tokens=32_768,
    devices=8,
)
CLIP = plan_video(VideoInfo(1920, 30.0, 512, 512, 64.0), VideoBudget(max_frames=128, max_pixels=512 * 512), QWEN3)


def test_by_hand():
    found = estimate_memory(SHAPE, STEP, QWEN3, media=CLIP)
    assert found.frames_per_clip == 128 * 3 * 512 * 512 == 100_663_296
    assert found.host_frames == 64 * 100_663_296
    assert found.pixel_values_per_clip == 100_663_296 * 4  # the same values, as float32
    assert found.object_store == 64 * (80_000 + 2048) + 512 * 1000 * 16
    assert found.object_store_with_frames - found.object_store == 512 * 100_663_296
    assert found.parameters == 2_000_000_000
    assert found.optimizer == 12_000_000_000
    assert kv_bytes_per_token(SHAPE) == 147_456
    assert found.kv_cache == 147_456 * (8 * 20_000 + 64 * 1000)
    inner = 2 * 4 * (4096 + 4096 + 1024 + 12288) + 4 * (2 * 4096 + 4096 + 1024)
    assert found.activations == 32_768 * (2 * 36 * 4096 + inner)
    assert found.logits == 8000 * 151_936 * 8
    assert found.device_update > found.activations + found.optimizer


def test_fewer_sequences_at_a_time_need_less_cache():
    limited = StepShape(**{**STEP.__dict__, "concurrent_sequences": 16})
    assert estimate_memory(SHAPE, limited, QWEN3).kv_cache == 147_456 * (2 * 20_000 + 16 * 1000)


def test_images_and_text():
    plan = plan_image(640, 480, QWEN3)
    assert estimate_memory(SHAPE, STEP, QWEN3, media=plan).frames_per_clip == 640 * 480 * 3
    assert estimate_memory(SHAPE, STEP, QWEN3).host_frames == 0


def test_no_room_for_text_is_refused_with_the_ways_out():
    full = StepShape(**{**STEP.__dict__, "prompt_tokens": 16_384})
    with pytest.raises(ValueError, match=r"16384 visual tokens leave no room.* 16384 tokens; lower.*fewer.*longer"):
        estimate_memory(SHAPE, full, QWEN3, media=CLIP)
    with pytest.raises(ValueError, match=r"StepShape\.devices is 0"):
        StepShape(**{**STEP.__dict__, "devices": 0})


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"])
def test_parameter_count_of_real_models(family):
    import transformers as hf

    config = hf.AutoConfig.for_model(family)
    with torch.device("meta"):
        model = hf.AutoModelForImageTextToText.from_config(config)
    shape = model_shape(config)
    assert shape.parameters == pytest.approx(sum(p.numel() for p in model.parameters()), rel=0.02)
    text = config.text_config
    assert (shape.layers, shape.kv_heads, shape.vocab_size) == (
        text.num_hidden_layers,
        text.num_key_value_heads,
        text.vocab_size,
    )


def test_hybrid_models_cache_only_their_attention_layers():
    import transformers as hf

    config = hf.AutoConfig.for_model("qwen3_5")
    shape = model_shape(config)
    assert shape.attention_layers == config.text_config.layer_types.count("full_attention") < shape.layers


def test_a_missing_size_is_named(tmp_path):
    with pytest.raises(ValueError, match="hidden_size is None"):
        model_shape({"model_type": "qwen3_vl"})
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        model_shape(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_activations_of_a_real_decoder_layer(dtype):
    import transformers as hf
    from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3

    config = hf.AutoConfig.for_model("qwen3_vl")
    text = config.text_config
    text.update({"hidden_size": 256, "intermediate_size": 768, "head_dim": 32, "num_hidden_layers": 1})
    text.update({"num_attention_heads": 8, "num_key_value_heads": 2})
    text._attn_implementation = "sdpa"
    layer = qwen3.Qwen3VLTextDecoderLayer(text, 0).to(dtype)
    tokens = 256
    hidden = torch.randn(1, tokens, 256, dtype=dtype, requires_grad=True)
    rotary = qwen3.Qwen3VLTextRotaryEmbedding(text)(hidden, torch.arange(tokens).expand(3, 1, -1))
    owned = {parameter.data_ptr() for parameter in layer.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer(hidden, position_embeddings=rotary)
    step = StepShape(1, 1, tokens, 1, tokens, value_bytes=dtype.itemsize)
    inputs = tokens * 256 * dtype.itemsize
    estimate = estimate_memory(model_shape(config), step, QWEN3).activations - inputs
    assert estimate == pytest.approx(sum(size for size, _ in kept.values()), rel=0.1)
