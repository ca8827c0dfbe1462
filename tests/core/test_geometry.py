"""Geometries by name and by configuration, against the configuration classes of transformers."""

from __future__ import annotations

import json

import pytest

from evr_core import ModelGeometry, geometry_for


@pytest.mark.parametrize(
    "name, patch, timestamps, tokens_per_second",
    [
        ("Qwen/Qwen2-VL-7B-Instruct", 14, False, None),
        ("Qwen/Qwen2.5-VL-3B-Instruct", 14, False, 2.0),
        ("Qwen/Qwen3-VL-8B-Instruct", 16, True, None),
        ("qwen3_vl_moe", 16, True, None),
        ("Qwen/Qwen3.5-9B", 16, True, None),
        ("/models/Qwen3-VL-2B-Thinking", 16, True, None),
    ],
)
def test_presets_by_name(name, patch, timestamps, tokens_per_second):
    assert geometry_for(name) == ModelGeometry(patch, 2, 2, timestamps, tokens_per_second)


def test_unknown_name_says_what_is_known():
    with pytest.raises(ValueError, match=r"'llava-1.5'.*Qwen2.5-VL, Qwen2-VL, Qwen3-VL, Qwen3.5"):
        geometry_for("llava-1.5")


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"])
def test_every_form_of_a_configuration_agrees(model_type, tmp_path):
    from transformers import AutoConfig

    config = AutoConfig.for_model(model_type)
    vision = config.vision_config
    expected = ModelGeometry(
        vision.patch_size,
        vision.temporal_patch_size,
        vision.spatial_merge_size,
        model_type not in ("qwen2_vl", "qwen2_5_vl"),
        getattr(vision, "tokens_per_second", None),
    )
    config.save_pretrained(tmp_path)
    assert geometry_for(config) == expected
    assert geometry_for(config.to_dict()) == expected
    assert geometry_for(tmp_path) == expected
    assert geometry_for(str(tmp_path / "config.json")) == expected
    assert geometry_for({"model_type": model_type}) == expected


def test_sizes_of_a_configuration_win():
    config = {"model_type": "qwen3_vl", "vision_config": {"patch_size": [8, 8], "spatial_merge_size": 4}}
    assert geometry_for(config) == ModelGeometry(8, 2, 4)
    assert geometry_for(config).factor == 32


@pytest.mark.parametrize("value", [0, "16", [16, 14], True, 2.5])
def test_wrong_size_names_the_key(value):
    with pytest.raises(ValueError, match=r"vision_config\.patch_size: got"):
        geometry_for({"model_type": "qwen3_vl", "vision_config": {"patch_size": value}})


def test_folder_without_config(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        geometry_for(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="expected a JSON object"):
        geometry_for(tmp_path)
