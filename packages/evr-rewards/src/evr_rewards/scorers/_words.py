"""Split text of any script into words for ROUGE and word error rates."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Scripts written without spaces: every character is a word.
_UNSPACED: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003134f\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_TOKEN: Final = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[\w\u0300-\u036f\u0900-\u0dff])+")
_CHAR: Final = re.compile(rf"([{_UNSPACED}])")


def words(text: str) -> list[str]:
    """Case-folded words without punctuation; characters for scripts without spaces."""
    if text.isascii():
        return re.findall(r"[a-z0-9]+", text.lower())
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [token for token in _TOKEN.findall(folded) if token.strip("_")]


def spaced(text: str) -> str:
    """The text with single blanks between words; characters of scripts without spaces stand alone. Case is kept."""
    text = unicodedata.normalize("NFC", text)
    if not text.isascii():
        text = _CHAR.sub(r" \1 ", text)
    return " ".join(text.split())
