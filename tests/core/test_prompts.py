"""Prompts: wording by medium and problem type, user templates, and the split into message parts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evr_core import DataType, ProblemType, Sample, prompt_parts, render_prompt
from evr_core.prompts import letter_options


def make(problem="Why?", kind=ProblemType.OPEN_ENDED, *, images=0, videos=0, **fields):
    data_type = DataType.VIDEO if videos else DataType.IMAGE if images else DataType.TEXT
    return Sample(
        problem_id="7",
        problem=problem,
        answer="the secret truth",
        problem_type=kind,
        data_type=data_type,
        images=tuple(Path(f"{i}.png") for i in range(images)),
        videos=tuple(Path(f"{i}.mp4") for i in range(videos)),
        **fields,
    )


@pytest.mark.parametrize("kind", list(ProblemType))
@pytest.mark.parametrize("media", [{}, {"images": 1}, {"videos": 1}, {"videos": 2, "images": 1}])
def test_every_type_in_every_wording(kind, media):
    text = render_prompt(make("Is a < b & c?", kind, **media))
    assert text.startswith("Is a < b & c?\n\n")
    assert "between <answer> and </answer>" in text
    assert "secret" not in text
    assert ("Watch the video" in text) == ("videos" in media)
    assert ("Look closely at the image" in text) == (media == {"images": 1})
    assert "\n\n\n" not in text


def test_every_type_has_its_own_form_of_answer():
    texts = [render_prompt(make(kind=kind)) for kind in ProblemType]
    assert len(set(texts)) == len(ProblemType)


@pytest.mark.parametrize(
    "kind, keys",
    [
        (ProblemType.TEMPORAL_GROUNDING, {"time"}),
        (ProblemType.SPATIAL_GROUNDING, {"boxes"}),
        (ProblemType.SPATIAL_TEMPORAL_GROUNDING, {"time", "boxes"}),
        (ProblemType.TRACKING, {"boxes"}),
    ],
)
def test_grounding_examples_are_valid_json(kind, keys):
    example = re.search(r"<answer>(\{.*\})</answer>", render_prompt(make(kind=kind)))
    assert set(json.loads(example[1])) == keys


def test_options_are_listed_once():
    given = make(kind=ProblemType.MULTIPLE_CHOICE, options=("Red", "Blue"))
    assert "\nOptions:\nA. Red\nB. Blue\n\n" in render_prompt(given)
    lettered = make(kind=ProblemType.MULTIPLE_CHOICE, options=("A. Red", "B. Blue"))
    assert "\nA. Red\nB. Blue\n" in render_prompt(lettered)
    inside = make("Which?\nA. Red\nB. Blue", ProblemType.MULTIPLE_CHOICE, options=("Red", "Blue"))
    assert render_prompt(inside).count("Red") == 1


def test_letters_go_on_after_z():
    lettered = letter_options([f"item {i}" for i in range(28)])
    assert lettered[0] == "A. item 0"
    assert lettered[25:] == ["Z. item 25", "AA. item 26", "AB. item 27"]


def test_user_template_sees_every_field(tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text("{{ content | trim }} [{{ level }}] {{ problem_type }} {{ options | join('/') }} {{ answer }}\n")
    sample = make(" Why? ", ProblemType.MATH, options=("x", "y"), extra={"level": 3})
    assert render_prompt(sample, template=path) == "Why? [3] math x/y the secret truth"
    assert render_prompt(sample, template=str(path)) == render_prompt(sample, template=path)


def test_user_template_may_reuse_the_built_in_parts(tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text('{% from "_answer_forms.jinja" import answer_form %}{{ problem }} {{ answer_form(problem_type) }}')
    assert render_prompt(make(kind=ProblemType.BOOLEAN), template=path).startswith("Why? write only yes or no")


def test_escaping_follows_the_suffix(tmp_path):
    for suffix, expected in ((".jinja", "a < b <video>"), (".html", "a &lt; b &lt;video&gt;")):
        path = tmp_path / f"t{suffix}"
        path.write_text("{{ problem }}")
        assert render_prompt(make("a < b <video>", videos=1), template=path) == expected


@pytest.mark.parametrize(
    "source, message",
    [
        (
            "{{ levle }}",
            r"mine\.jinja, rendered for sample 7 \(r:3\): 'levle' is undefined; the names are answer",
        ),
        ("\n{% if %}", r"mine\.jinja:2: .*correct the template"),
        ("{{ problem.__class__.__mro__ }}", r"unsafe|undefined"),
        ("{% include 'gone.jinja' %}", r"gone\.jinja"),
        ("<|video_pad|>", r"sample 7 \(r:3\): the prompt holds <\|video_pad\|>"),
    ],
)
def test_broken_templates_say_where_and_what(tmp_path, source, message):
    path = tmp_path / "mine.jinja"
    path.write_text(source)
    with pytest.raises(ValueError, match=message):
        render_prompt(make(origin="r:3"), template=path)


def test_missing_template(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such prompt template"):
        render_prompt(make(), template=tmp_path / "no.jinja")


def text(value):
    return {"type": "text", "text": value}


VIDEO, IMAGE = {"type": "video"}, {"type": "image"}


@pytest.mark.parametrize(
    "prompt, media, parts",
    [
        ("Why?", {}, [text("Why?")]),
        ("Why?", {"videos": 1}, [VIDEO, text("Why?")]),
        ("Why?", {"videos": 1, "images": 2}, [VIDEO, IMAGE, IMAGE, text("Why?")]),
        ("<video>\nWhy?", {"videos": 1}, [VIDEO, text("\nWhy?")]),
        (
            "See <image>: <video><image> ok",
            {"videos": 1, "images": 2},
            [text("See "), IMAGE, text(": "), VIDEO, IMAGE, text(" ok")],
        ),
        ("Why <image>", {"videos": 1, "images": 1}, [VIDEO, text("Why "), IMAGE]),
    ],
)
def test_parts(prompt, media, parts):
    assert prompt_parts(make(**media), prompt) == parts


def test_parts_refuse_a_wrong_number_of_marks():
    with pytest.raises(ValueError, match=r"sample 7: the prompt holds 2 <video> marks but the sample has 1"):
        prompt_parts(make(videos=1), "<video> <video>")
