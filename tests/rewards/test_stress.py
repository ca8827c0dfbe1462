"""No response makes a scorer slow: repetitions that patterns with several ways to match would choke on."""

from __future__ import annotations

import time

import pytest

from evr_core.schema import DataType, ProblemType, Sample
from evr_rewards import score

REPEATED = (
    "a ",
    "A ",
    "(",
    "[",
    "{",
    '{"a":',
    "['",
    "[/*",
    "answer ",
    "final ",
    "the answer is ",
    "the final correct ",
    "<answer>",
    "<think>",
    "<think></think>",
    "\\boxed{",
    "\\boxed{A}",
    "\\text{",
    "1 ",
    "1,",
    "1:",
    "1/",
    "1",
    "-",
    "**a ",
    " ",
    "\n",
    "$",
    "```",
    "```\n",
    "# ",
    ", ",
    "option ",
    "not A ",
    "I think it is ",
    "response 1 ",
    "start 1 ",
    "twenty ",
    "三",
    "<svg ",
    "<svg>",
    "<html>",
    "<!doctype html ",
    "<a",
)
TRUTHS = {
    "multiple choice": "B",
    "numerical": "12",
    "boolean": "yes",
    "temporal grounding": "[1, 2]",
    "spatial grounding": "[1, 2, 3, 4]",
    "spatial-temporal grounding": '{"time": [0, 1], "boxes": {"0": [1, 2, 3, 4]}}',
    "tracking": '{"0": [1, 2, 3, 4]}',
    "open-ended": "a cat",
    "ocr": "STOP",
    "svg-code": "<svg/>",
    "html-code": "<p>a</p>",
    "preference": "tie",
}


@pytest.mark.parametrize("kind", TRUTHS)
def test_repetitions_are_scored_in_no_time(kind):
    options = ("A. Red", "B. Blue") if kind == "multiple choice" else ()
    sample = Sample("s", "q", TRUTHS[kind], ProblemType(kind), DataType.TEXT, options=options)
    slow = []
    for text in REPEATED:
        for response in (text * 3000, f"<answer>{text * 3000}</answer>"):
            started = time.process_time()
            score(response, sample)
            if (took := time.process_time() - started) > 1.5:
                slow.append((text, response[:8], round(took, 2)))
    assert slow == []
