"""Code: the share of the given tests that pass in a sandbox; similarity to a reference where there are none."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from typing import Any, Final

from rapidfuzz.distance import Indel

from evr_core.schema import Sample
from evr_rewards._pool import Task, WorkerPool, shared_pool
from evr_rewards.extraction import Extraction, Form, extract
from evr_rewards.result import Grade, TruthError
from evr_rewards.scorers._test_cases import tests_of

_FENCE: Final = re.compile(r"```[ \t]*([\w+#-]*)[^\n]*\n(.*?)(?:```|\Z)", re.S)
_HANDLER: Final = "evr_rewards.scorers._code_tests:run_tests"
_MAX_LENGTH: Final = 100_000
_PYTHON: Final = ("", "python", "py", "python3")
_SPARE_S: Final = 5.0  # for starting processes, beyond the tests' own time


def read_code(text: str, form: Form) -> str | None:
    """The last fenced block, or all of a passage that is Python."""
    if form is Form.STATEMENT:
        return None
    blocks = [block for block in _FENCE.findall(text) if block[1].strip()]
    python = [block for block in blocks if block[0].lower() in _PYTHON]
    if blocks:
        return str((python or blocks)[-1][1]).strip("\n") or None
    code = text.strip("\n` ")
    if form is Form.VALUE:
        return code or None
    return code if len(code) < _MAX_LENGTH and "\n" in code and _parses(code) else None


@dataclass(frozen=True)
class Code:
    """Scorer of programs.

    Attributes:
        time_s: Limit for one test.
        total_s: Limit for all tests of one program.
    """

    time_s: float = 4.0
    total_s: float = 8.0

    @property
    def pool(self) -> WorkerPool:
        """The processes that run sandboxes."""
        return shared_pool("evr_rewards.scorers._code_tests")

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The program."""
        return extract(response, read_code, truncated=truncated, inner_statements=False)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """Share of the tests that pass."""
        task = self.task(value, sample)
        if isinstance(task, Grade):
            return task
        return self.finish(self.pool.run(task, self.total_s + _SPARE_S), sample)

    def task(self, value: Any, sample: Sample) -> Task | Grade:
        """The tests to run; without tests the similarity to the answer."""
        tests = tests_of(sample)
        if not tests:
            return _static(value, sample)
        return Task(
            _HANDLER,
            {"code": value[:_MAX_LENGTH], "tests": tests, "time_s": self.time_s, "total_s": self.total_s},
            timeout_s=self.total_s + _SPARE_S,
        )

    def finish(self, reply: Any, sample: Sample) -> Grade:
        """Grade from the tests' results."""
        passed = reply["passed"]
        return Grade(
            sum(passed) / len(passed), {"tests": len(passed), "passed": sum(passed), "timed_out": reply["timed_out"]}
        )


def _static(code: str, sample: Sample) -> Grade:
    reference = read_code(sample.answer, Form.VALUE)
    if not reference:
        raise TruthError("the record has neither tests nor a reference program")
    if _parses(reference) and not _parses(code):
        return Grade(0.0, {"static": True, "parses": False})
    return Grade(Indel.normalized_similarity(_tokens(code), _tokens(reference)), {"static": True, "parses": True})


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


_LAYOUT: Final = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING, tokenize.ENDMARKER)


def _tokens(code: str) -> list[str]:
    """Tokens without comments and layout; words where the text is not Python."""
    code = code[:_MAX_LENGTH]
    try:
        found = list(tokenize.generate_tokens(io.StringIO(code + "\n").readline))
    except (tokenize.TokenError, SyntaxError):
        return re.findall(r"\w+|[^\w\s]", code)
    return [token.string if token.type != tokenize.INDENT else "\t" for token in found if token.type not in _LAYOUT]
