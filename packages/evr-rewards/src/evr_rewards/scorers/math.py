"""Mathematics: symbolic equality, in a process that can be killed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from evr_core.schema import Sample
from evr_rewards._passages import last_boxed
from evr_rewards._pool import Task, WorkerPool, shared_pool
from evr_rewards.extraction import Extraction, Form, extract
from evr_rewards.result import Grade, TruthError

_MAX_LENGTH: Final = 2000
_HANDLER: Final = "evr_rewards.scorers._math_verify:compare"
_PRELOAD: Final = "evr_rewards.scorers._math_verify"
_PLAIN: Final = re.compile(r"[-+]?(?:\d{1,15}(?:\.\d{1,15})?|\.\d{1,15})(?:/[1-9]\d{0,14})?")
_SPAN: Final = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.S)
_REASON: Final = re.compile(r"[.;]\s|,?\s+(?:because|since|which|where|as\s|so\s)|\n", re.I)
_LONG_WORD: Final = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_HAS_MATH: Final = re.compile(r"\d|\\[a-zA-Z]|[=^_√π∞∅]|^\s*[-+]?\(?[A-Za-z]\)?\s*$|\b(?:pi|sqrt|infinity)\b")


def read_math(text: str, form: Form) -> str | None:
    """The expression in a passage."""
    text = text.strip()
    if form is Form.PROSE:
        spans = _spans(text)
        if spans:
            return spans[-1]
        text = text if len(text) < 60 and "\n" not in text else ""
    if form is Form.STATEMENT:
        text = _REASON.split(text, maxsplit=1)[0]
    text = text.strip().rstrip(".。;,").strip("* \n")
    if not text or len(text) > _MAX_LENGTH or not _HAS_MATH.search(text):
        return None
    if len(spans := _spans(text)) == 1 and len(_LONG_WORD.findall(text.replace(spans[0], ""))) > 2:
        return spans[0]
    return text if form is not Form.PROSE or len(_LONG_WORD.findall(text)) <= 1 else None


def _spans(text: str) -> list[str]:
    return [next(group for group in match.groups() if group) for match in _SPAN.finditer(text)]


@dataclass(frozen=True)
class Math:
    """Scorer of mathematics.

    Attributes:
        timeout_s: Limit for one comparison outside a batch.
    """

    timeout_s: float = 10.0

    @property
    def pool(self) -> WorkerPool:
        """The processes that compare."""
        return shared_pool(_PRELOAD)

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The expression as text."""
        return extract(response, read_math, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """1 for an equal expression, else 0."""
        task = self.task(value, sample)
        return task if isinstance(task, Grade) else self.finish(self.pool.run(task, self.timeout_s), sample)

    def task(self, value: Any, sample: Sample) -> Task | Grade:
        """The comparison to run, or its result where the two are the same text or plain numbers."""
        truth = _bare(sample.answer)
        if not truth:
            raise TruthError("the answer is empty")
        found = _bare(value)
        if found == truth:
            return Grade(1.0)
        if _PLAIN.fullmatch(found) and _PLAIN.fullmatch(truth):
            return Grade(float(_exact(found, truth)))
        return Task(_HANDLER, {"truth": sample.answer.strip()[:_MAX_LENGTH], "answer": value})

    def finish(self, reply: Any, sample: Sample) -> Grade:
        """Grade from the comparison's answer."""
        if not reply["truth_parsed"]:
            raise TruthError(f"answer {sample.answer[:80]!r} is no expression that math-verify reads")
        return Grade(float(reply["equal"]), {"answer_parsed": reply["answer_parsed"]})


def _exact(found: str, truth: str) -> bool:
    """Whether two plain numbers are equal: exactly, or to 6 decimals where one is a decimal fraction."""
    first, second = _fraction(found), _fraction(truth)
    return first == second or ("." in found + truth and abs(first - second) < Fraction(1, 2_000_000))


def _fraction(text: str) -> Fraction:
    top, _, bottom = text.partition("/")
    return Fraction(top) / Fraction(bottom or 1)


def _bare(text: str) -> str:
    """The text without math signs, a box around it, and blanks."""
    text = (last_boxed(text) or text) if "\\boxed" in text else text
    text = (
        re.sub(r"\\[()\[\]]|\$|\\left|\\right|\\[,;! ]|\s+", "", text)
        .replace("\\dfrac", "\\frac")
        .replace("\\tfrac", "\\frac")
    )
    return text.strip(".")
