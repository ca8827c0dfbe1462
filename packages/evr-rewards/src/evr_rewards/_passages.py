"""Split a response into the passages that may hold its answer, in the order of trust.

Thinking never decides. A tag that only repeats the prompt's template is no answer. A tag that was opened and never
closed means that the response was cut off inside its answer: what stands in it is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from evr_rewards._statements import statements


class Source(StrEnum):
    """Where an answer stood."""

    TAG = "tag"
    BOXED = "boxed"
    STATEMENT = "statement"
    TEXT = "text"
    LAST_LINE = "last_line"


@dataclass(frozen=True)
class Passage:
    """A stretch of text that may hold the answer."""

    text: str
    source: Source


@dataclass(frozen=True)
class Location:
    """A response taken apart.

    Attributes:
        tag: Content of the last complete answer tag, None without one.
        tagged: There is an answer tag (complete, not an echo of the template).
        body: Text outside thinking and outside dropped tags.
        statements_only: Traces of a template or a cut-off tag were dropped: loose text no longer counts.
    """

    tag: str | None
    tagged: bool
    body: str
    statements_only: bool

    def passages(self) -> Iterator[Passage]:
        """Candidates, most trusted first."""
        if self.tag is not None:
            yield Passage(self.tag, Source.TAG)
            return
        box = last_boxed(self.body)
        if box is not None:
            yield Passage(box, Source.BOXED)
            return
        for tail in statements(self.body):
            yield Passage(tail, Source.STATEMENT)
        if self.statements_only or not self.body:
            return
        yield Passage(self.body, Source.TEXT)
        yield Passage(self.body.rsplit("\n", 1)[-1].strip(), Source.LAST_LINE)


_THINK = re.compile(r"<\s*(/?)\s*(?:think|thinking|thought|reasoning)\s*>|◁(/?)think▷", re.I)
_ANSWER = re.compile(r"<\s*answer\s*>((?:(?!<\s*/?\s*answer\s*>).)*)<\s*/\s*answer\s*>", re.I | re.S)
_OPEN = re.compile(r"<\s*answer\s*>", re.I)
_STRAY = re.compile(r"<\s*/?\s*answer\s*>", re.I)
_SPECIAL = re.compile(r"<\|[^|<>\n]{0,60}\|>")
_ECHO_WORDS = frozenset(
    [
        "put",
        "insert",
        "write",
        "place",
        "your",
        "the",
        "my",
        "final",
        "single",
        "correct",
        "only",
        "option",
        "options",
        "letter",
        "choice",
        "answer",
        "answers",
        "here",
        "goes",
        "number",
        "and",
        "or",
        "tag",
        "tags",
        "to",
        "of",
        "in",
        "a",
        "is",
        "text",
        "content",
        "value",
    ]
)
_ECHO_KEYS = frozenset({"answer", "answers", "tag", "tags"})
_ECHOES = frozenset({"and", "letter", "the letter", "option letter", "option", "choice", "your choice", "letter here"})
_BRACE = re.compile(r"\\(?:boxed|fbox)\s{0,8}\{|\\[{}]|[{}]")
_WORD = re.compile(r"\w+")
_LOOSE_SIGNS = re.compile(r"[-+*/=<>.…_ \s\[\](){}]*")


def locate(response: str) -> Location:
    """Take a response apart: thinking away, tags found."""
    text = outside_thinking(response)
    if "<|" in text:
        text = _SPECIAL.sub(" ", text)
    if "<" not in text:
        return Location(None, False, text.strip(), False)
    dropped = False
    for match in reversed(list(_ANSWER.finditer(text))):
        if not is_placeholder(match[1]):
            return Location(match[1].strip(), True, text.strip(), False)
        dropped = True
    body = _ANSWER.sub(" ", text) if dropped else text
    opening = _OPEN.search(body)
    if opening:
        body = body[: opening.start()]
    return Location(None, False, _STRAY.sub(" ", body).strip(), dropped or opening is not None)


def outside_thinking(text: str) -> str:
    """The text without thinking: closed blocks go; an unclosed one takes the rest, an unopened one all before it."""
    if "think" not in text.lower() and "reasoning" not in text and "thought" not in text:
        return text
    kept: list[str] = []
    position, inside = 0, False
    for match in _THINK.finditer(text):
        closing = "/" in match[0]
        if closing and not inside:
            kept.clear()
        elif not closing and not inside:
            kept.append(text[position : match.start()])
        inside = not closing
        position = match.end()
    if not inside:
        kept.append(text[position:])
    return "\n".join(kept) if len(kept) > 1 else "".join(kept)


def is_placeholder(content: str) -> bool:
    """Whether a tag's content is empty or an echo of the prompt's template ("your answer", "...")."""
    content = content.strip()
    if len(content) <= 2:
        return not content or content == ".."
    if _LOOSE_SIGNS.fullmatch(content):
        return True
    if len(content) > 80 or not content.isascii():
        return False
    words = _WORD.findall(content.lower())
    if " ".join(words) in _ECHOES:
        return True
    return not _ECHO_KEYS.isdisjoint(words) and _ECHO_WORDS.issuperset(words)


def last_boxed(text: str) -> str | None:
    r"""Content of the last complete ``\boxed{...}`` (or ``\fbox``) with balanced braces."""
    if "box" not in text:
        return None
    found: tuple[int, int] | None = None
    opened: list[tuple[bool, int]] = []
    for match in _BRACE.finditer(text):
        sign = match[0]
        if sign == "}":
            boxed, start = opened.pop() if opened else (False, 0)
            if boxed and (found is None or start > found[0]) and not is_placeholder(text[start : match.start()]):
                found = start, match.start()
        elif sign[0] != "\\" or len(sign) > 2:
            opened.append((len(sign) > 1, match.end()))
    return text[found[0] : found[1]].strip() if found else None
