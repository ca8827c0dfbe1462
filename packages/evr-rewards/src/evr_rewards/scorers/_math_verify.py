"""Symbolic comparison by math-verify. Runs in a worker process that the caller can kill; imported nowhere else."""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from math_verify import parse, verify

# Its own time-outs need signals of the main thread and are off; the notices about that say nothing new.
logging.getLogger("math_verify").setLevel(logging.CRITICAL)

_SIGNS: Final = {
    "√": r"\sqrt ",
    "π": r"\pi ",
    "∞": r"\infty ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "×": r"\times ",
    "·": r"\cdot ",
    "÷": "/",
    "−": "-",
    "°": r"^\circ ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "²": "^2",
    "³": "^3",
    "½": r"\frac12 ",
}
_SQRT: Final = re.compile(r"(?<!\\)\bsqrt\s*\(([^()]+)\)")
_PLAIN_NAMES: Final = re.compile(r"(?<!\\)\b(pi|sin|cos|tan|log|ln|exp|infinity|inf)\b")


def compare(payload: dict[str, Any]) -> dict[str, bool]:
    """Whether ``payload["answer"]`` equals ``payload["truth"]``.

    Returns:
        ``equal``, and whether each side could be parsed (``truth_parsed``, ``answer_parsed``).
    """
    truth, answer = _parse(payload["truth"]), _parse(payload["answer"])
    equal = bool(truth and answer) and bool(verify(truth, answer, timeout_seconds=None))
    return {"equal": equal, "truth_parsed": bool(truth), "answer_parsed": bool(answer)}


def _parse(text: str) -> list[Any]:
    for sign, latex in _SIGNS.items():
        text = text.replace(sign, latex)
    text = _SQRT.sub(r"\\sqrt{\1}", text).replace("**", "^")
    text = _PLAIN_NAMES.sub(lambda match: "\\infty " if match[1].startswith("inf") else f"\\{match[1]} ", text)
    if "$" not in text and "\\boxed" not in text and "\\(" not in text and "\\[" not in text:
        text = f"${text}$"
    return list(parse(text, parsing_timeout=None))


def _warm_up() -> None:
    """Load grammars and caches once, in the process that the workers are forked from."""
    for truth, answer in (("\\frac{1}{2}+x^2", "0.5+x^{2}"), ("\\{1,2\\}", "\\{2,1\\}"), ("(1,\\sqrt{2}]", "x=3")):
        compare({"truth": truth, "answer": answer})


_warm_up()
