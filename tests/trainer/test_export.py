"""Exported folders are whole, hold the checkpoint's weights, and load like any model of the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException
from transformers import AutoModelForImageTextToText, AutoProcessor, GenerationConfig

from evr_trainer.checkpoint import export_hf, save_weights
from support_rollout import Scene, build_scene, perturb

# One rank without a process group is meant here.
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Its generation config names two tokens that end a response, as those of Qwen models do."""
    scene = build_scene(tmp_path_factory.mktemp("scene"))
    file = scene.model_path / "generation_config.json"
    known = json.loads(file.read_text())
    file.write_text(json.dumps({**known, "eos_token_id": [known["eos_token_id"], 7], "temperature": 0.6}))
    return scene


@pytest.fixture(scope="module")
def trained(scene: Scene) -> Any:
    """The model after some training: no weight is what it was."""
    model = AutoModelForImageTextToText.from_pretrained(scene.model_path).eval()
    perturb(model, seed=5, scale=0.1)
    return model


@pytest.fixture(scope="module")
def actor(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("global_step_3") / "actor"
    save_weights(trained, folder / "model")
    return folder


@torch.no_grad()
def logits_of(model: Any, scene: Scene) -> list[torch.Tensor]:
    """Logits over all prompts: text, image, video, mixed."""
    return [model(**scene.inputs(prompt)).logits for prompt in scene.prompts]


def test_transformers_loads_the_export_with_equal_logits(
    scene: Scene, trained: Any, actor: Path, tmp_path: Path
) -> None:
    out = export_hf(actor, scene.model_path, tmp_path / "deep" / "export")
    assert out == tmp_path / "deep" / "export"
    model, report = AutoModelForImageTextToText.from_pretrained(out, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    model.eval()
    expected = logits_of(trained, scene)
    assert all(torch.equal(f, e) for f, e in zip(logits_of(model, scene), expected, strict=True))
    before = logits_of(scene.model, scene)
    assert all(float((b - e).abs().max()) > 1e-2 for b, e in zip(before, expected, strict=True))


def test_the_export_brings_its_processor_and_generation_config(scene: Scene, actor: Path, tmp_path: Path) -> None:
    out = export_hf(actor, scene.model_path, tmp_path / "export")
    processor = AutoProcessor.from_pretrained(out)
    prompt = scene.prompts[3]
    ids = processor.tokenizer(prompt.text)["input_ids"]
    assert ids == scene.processor.tokenizer(prompt.text)["input_ids"]
    assert processor.chat_template == scene.processor.chat_template
    assert processor.image_processor.to_dict() == scene.processor.image_processor.to_dict()
    assert processor.video_processor.to_dict() == scene.processor.video_processor.to_dict()
    exported, original = (GenerationConfig.from_pretrained(folder) for folder in (out, scene.model_path))
    assert exported.eos_token_id == original.eos_token_id == [scene.processor.tokenizer.eos_token_id, 7]
    assert exported.temperature == original.temperature == 0.6
    assert not list(out.glob("*.bin"))  # nothing pickled


def test_tied_embeddings_stay_tied(scene: Scene, tmp_path: Path) -> None:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(scene.model_path)
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = True
    model = AutoModelForImageTextToText.from_config(config).eval()
    assert model.lm_head.weight is model.model.language_model.embed_tokens.weight
    model.save_pretrained(tmp_path / "model")
    scene.processor.save_pretrained(tmp_path / "model")
    perturb(model, seed=6, scale=0.1)
    save_weights(model, tmp_path / "actor" / "model")
    out = export_hf(tmp_path / "actor", tmp_path / "model", tmp_path / "export")
    loaded = AutoModelForImageTextToText.from_pretrained(out).eval()
    assert loaded.lm_head.weight is loaded.model.language_model.embed_tokens.weight
    assert all(torch.equal(a, b) for a, b in zip(logits_of(loaded, scene), logits_of(model, scene), strict=True))


def test_weights_are_written_in_the_type_of_the_model(scene: Scene, trained: Any, actor: Path, tmp_path: Path) -> None:
    """A bfloat16 model trained in float32 is exported in bfloat16, each weight rounded once."""
    half = AutoModelForImageTextToText.from_pretrained(scene.model_path, dtype=torch.bfloat16)
    half.save_pretrained(tmp_path / "model")
    scene.processor.save_pretrained(tmp_path / "model")
    out = export_hf(actor, tmp_path / "model", tmp_path / "export")
    loaded = AutoModelForImageTextToText.from_pretrained(out, dtype="auto")
    assert {p.dtype for p in loaded.parameters()} == {torch.bfloat16}
    exact = dict(trained.named_parameters())
    assert all(torch.equal(p, exact[name].to(torch.bfloat16)) for name, p in loaded.named_parameters())


def test_an_old_export_is_replaced_as_a_whole(scene: Scene, actor: Path, tmp_path: Path) -> None:
    out = export_hf(actor, scene.model_path, tmp_path / "export")
    names = sorted(file.name for file in out.iterdir())
    (out / "model-00001-of-00002.safetensors").write_text("of a larger model")
    export_hf(actor, scene.model_path, out)
    assert sorted(file.name for file in out.iterdir()) == names
    assert [folder.name for folder in tmp_path.iterdir()] == ["export"]  # nothing staged is left


def test_an_empty_folder_may_be_filled(scene: Scene, actor: Path, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    assert (export_hf(actor, scene.model_path, tmp_path / "export") / "config.json").is_file()


def test_a_folder_that_is_no_model_is_not_touched(scene: Scene, actor: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="no exported model"):
        export_hf(actor, scene.model_path, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match="no exported model"):
        export_hf(actor, scene.model_path, tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_the_model_that_the_run_started_from_is_not_replaced(scene: Scene, actor: Path) -> None:
    weights = (scene.model_path / "model.safetensors").read_bytes()
    roundabout = scene.model_path.parent / "model" / ".." / "model"
    for target in (scene.model_path, roundabout):
        with pytest.raises(ValueError, match="started from"):
            export_hf(actor, scene.model_path, target)
    assert (scene.model_path / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize("what", ["nowhere", "step"])
def test_a_folder_without_weights_is_named(scene: Scene, actor: Path, tmp_path: Path, what: str) -> None:
    folder = {"nowhere": tmp_path / "nowhere", "step": actor.parent}[what]
    with pytest.raises(ValueError, match="holds no weights") as error:
        export_hf(folder, scene.model_path, tmp_path / "export")
    assert str(folder) in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_missing_parameter_leaves_the_old_export_alone(scene: Scene, actor: Path, tmp_path: Path) -> None:
    out = export_hf(actor, scene.model_path, tmp_path / "export")
    before = (out / "model.safetensors").read_bytes()
    headless = AutoModelForImageTextToText.from_pretrained(scene.model_path)
    del headless.lm_head
    save_weights(headless, tmp_path / "broken" / "model")
    with pytest.raises(CheckpointException, match=r"lm_head\.weight"):
        export_hf(tmp_path / "broken", scene.model_path, out)
    assert (out / "model.safetensors").read_bytes() == before
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["broken", "export"]
