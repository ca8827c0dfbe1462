"""Take presentation away: full-width forms, markdown, LaTeX wrappers, code fences."""

from __future__ import annotations

import re
import unicodedata

_FENCE = re.compile(r"```[\w+-]*[ \t]*\n?(.*?)```", re.S)
_LATEX_WRAP = re.compile(
    r"\\(?:text|textbf|textit|textrm|texttt|mathrm|mathbf|mathit|mathsf|mathtt|mbox|boxed|fbox|emph|operatorname)\s*"
    r"\{([^{}]*)\}"
)
_LATEX_SIGN = re.compile(r"\\[()\[\]]|(?<!\\)\$|\\(?:displaystyle|left|right|quad|qquad)\b|\\[,;:! ]")
_BOLD = re.compile(r"(?<!\w)(\*\*\*|\*\*|__)(?=\S)(.{1,300}?)(?<=\S)\1")
_ITALIC = re.compile(r"(?<![\w*])\*(?=\S)([^*\n]{1,300}?)(?<=\S)\*(?![\w*])")
_HEADING = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?)", re.M)


def plain(text: str) -> str:
    """NFKC text without markdown emphasis, headings, code marks, LaTeX wrappers and math signs."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("−", "-").replace("\u200b", "")
    if text.isalnum():
        return text
    if "`" in text:
        text = _FENCE.sub(r"\1", text).replace("`", "")
    if "\\" in text or "$" in text:
        text = _plain_latex(text)
    if "*" in text or "__" in text:
        text = _ITALIC.sub(r"\1", _BOLD.sub(r"\2", text))
    if "#" in text or ">" in text:
        text = _HEADING.sub("", text)
    return text


def _plain_latex(text: str) -> str:
    for _ in range(4):
        text, count = _LATEX_WRAP.subn(r"\1", text)
        if not count:
            break
    return _LATEX_SIGN.sub(" ", text).replace("\\%", "%").replace("\\$", "$").replace("{,}", ",")


def squash(text: str) -> str:
    """White space collapsed to single blanks."""
    return " ".join(text.split())


_PUNCT = re.compile(r"[^\w%+\-./:°]+|(?<!\d)[./:\-]|[./:\-](?!\d)")


def key(text: str) -> str:
    """Form of a short text for comparison: plain, case-folded, without punctuation and a leading article."""
    folded = squash(_PUNCT.sub(" ", plain(text).casefold()).replace("_", " "))
    first, _, rest = folded.partition(" ")
    return rest if rest and first in ("a", "an", "the") else folded
