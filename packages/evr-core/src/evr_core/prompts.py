"""The prompt of a sample: a template rendered over its fields, then split into the parts of a chat message.

Templates are Jinja files. They run in Jinja's sandbox, which keeps a template from reaching Python's internals, and an
undefined name is an error instead of an empty text. HTML escaping follows the template's suffix: it is on for ``.html``
and ``.xml`` and off for the rest, because a prompt is read by a tokenizer and not by a browser. Escaping ``<video>``,
``<answer>`` or ``a < b`` would change the question and lose the media marks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evr_core.placeholders import VISION_TOKENS
from evr_core.schema import Sample

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

_BUILT_IN = Path(__file__).parent / "templates"
_MARKS = re.compile(r"<(video|image)>")
_LETTERED = re.compile(r"\s*\(?[A-Z]{1,2}[.):]")


def render_prompt(sample: Sample, *, template: str | Path | None = None) -> str:
    """Return the prompt text of a sample, with the ``<video>`` and ``<image>`` marks of its question.

    Args:
        sample: The sample; its truth reaches user templates as ``answer`` but is in no built-in one.
        template: Path of a Jinja file that takes the place of the built-in wording for video, image and text. It sees
            ``problem`` (also as ``content``), ``problem_type``, ``data_type``, ``options``, ``lettered_options``,
            ``options_in_problem``, ``images``, ``videos``, ``video_start``, ``video_end``, ``problem_id``,
            ``data_source``, ``answer``, and every extra field of the record. It may include files of its folder.

    Raises:
        FileNotFoundError: There is no such template file.
        ValueError: The template is broken, uses an unknown name or a forbidden operation, or the result holds
            vision tokens of the chat format.
    """
    import jinja2

    path = Path(template) if template is not None else _BUILT_IN / f"{sample.data_type.value}.jinja"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such prompt template; give the path of a Jinja file, or leave it out")
    fields = template_fields(sample)
    try:
        text = _environment(path.parent.resolve()).get_template(path.name).render(fields)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"{error.filename or path}:{error.lineno}: {error.message}; correct the template") from error
    except jinja2.TemplateError as error:
        raise ValueError(
            f"{path}, rendered for {_where(sample)}: {error}; the names are {', '.join(sorted(fields))}"
        ) from error
    return _without_vision_tokens(text.strip(), sample)


def template_fields(sample: Sample) -> dict[str, Any]:
    """Return what a template sees of a sample; own fields win over extra fields of the same name."""
    options = list(sample.options)
    return {
        **sample.extra,
        "problem": sample.problem,
        "content": sample.problem,
        "answer": sample.answer,
        "problem_id": sample.problem_id,
        "problem_type": sample.problem_type.value,
        "data_type": sample.data_type.value,
        "data_source": sample.data_source,
        "options": options,
        "lettered_options": letter_options(options),
        "options_in_problem": bool(options) and all(option in sample.problem for option in options),
        "images": [str(path) for path in sample.images],
        "videos": [str(path) for path in sample.videos],
        "video_start": sample.video_start_s,
        "video_end": sample.video_end_s,
    }


def letter_options(options: list[str]) -> list[str]:
    """Return the options with letters in front (A. to Z., then AA.), unless every one already has its letter."""
    if options and all(_LETTERED.match(option) for option in options):
        return options
    return [f"{option_letter(index)}. {option}" for index, option in enumerate(options)]


def option_letter(index: int) -> str:
    """Return the letter of the option at a position: A to Z, then AA, AB and so on."""
    head, tail = divmod(index, 26)
    return (chr(ord("A") + head - 1) if head else "") + chr(ord("A") + tail)


def prompt_parts(sample: Sample, text: str) -> list[dict[str, str]]:
    """Split a rendered prompt into the parts of a chat message.

    Every ``<video>`` and ``<image>`` mark becomes ``{"type": "video"}`` or ``{"type": "image"}``, the text between them
    ``{"type": "text", "text": ...}``. Media of a kind without marks come first: videos, then images.

    Raises:
        ValueError: A kind has marks, but not one per file of the sample.
    """
    files = {"video": len(sample.videos), "image": len(sample.images)}
    lead: list[dict[str, str]] = []
    for kind, count in files.items():
        marks = text.count(f"<{kind}>")
        if marks == 0:
            lead += [{"type": kind}] * count
        elif marks != count:
            raise ValueError(
                f"{_where(sample)}: the prompt holds {marks} <{kind}> marks but the sample has {count} such files; "
                "give one file per mark, or write no marks"
            )
    pieces = _MARKS.split(text)  # text, kind, text, kind, ..., text
    parts = [{"type": piece} if i % 2 else {"type": "text", "text": piece} for i, piece in enumerate(pieces) if piece]
    return [dict(part) for part in lead] + parts


@lru_cache(maxsize=16)
def _environment(folder: Path) -> SandboxedEnvironment:
    from jinja2 import FileSystemLoader, StrictUndefined, select_autoescape
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(
        loader=FileSystemLoader([folder, _BUILT_IN]),
        undefined=StrictUndefined,
        autoescape=select_autoescape(enabled_extensions=("html", "htm", "xml"), default=False),
        keep_trailing_newline=True,
    )


def _without_vision_tokens(text: str, sample: Sample) -> str:
    found = [token for token in VISION_TOKENS if token in text]
    if found:
        raise ValueError(
            f"{_where(sample)}: the prompt holds {', '.join(found)}, which only the chat template may write; "
            "mark media with <video> and <image>"
        )
    return text


def _where(sample: Sample) -> str:
    return f"sample {sample.problem_id}" + (f" ({sample.origin})" if sample.origin else "")
