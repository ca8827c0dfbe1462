"""The answer of a free-text question."""

from __future__ import annotations

import re
from typing import Final

from evr_rewards.extraction import Extraction, Form, Source, extract

_LABEL: Final = re.compile(r"(?:^|\n)[\s*#_>]*(?:final\s+)?answer[\s*_]*[:：][\s*_]*|(?:最终)?答案[:：]\s*", re.I)


def extract_text(response: str, *, truncated: bool = False) -> Extraction:
    """The answer as text: tag, box, what follows an "Answer:" label, or all text outside thinking."""
    found = extract(response, _read, truncated=truncated, inner_statements=False)
    if found.source is Source.TEXT and (labels := list(_LABEL.finditer(found.value))):
        tail = found.value[labels[-1].end() :].strip()
        if tail:
            return Extraction(tail, Source.STATEMENT, 0.85, tail, found.tagged)
    return found


def _read(text: str, form: Form) -> str | None:
    if form is Form.STATEMENT:  # "the answer is" is part of many a sentence: it marks nothing in free text
        return None
    return text.strip() or None
