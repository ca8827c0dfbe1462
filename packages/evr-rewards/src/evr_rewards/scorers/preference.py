"""Preference between two responses: Response 1, Response 2, or Tie."""

from __future__ import annotations

import re
from typing import Any, Final

from evr_core.schema import Sample
from evr_rewards._plain import plain
from evr_rewards.extraction import AMBIGUOUS, Ambiguous, Extraction, Form, extract
from evr_rewards.result import Grade, TruthError

_WHOLE: Final = {"1": "1", "2": "2", "a": "1", "b": "2", "first": "1", "second": "2", "one": "1", "two": "2"}
_TIES: Final = ("tie", "equal", "equally good", "both", "draw", "neither", "same", "平局", "一样好")
_NAMED: Final = re.compile(
    r"\b(?:response|answer|assistant|model|candidate|option)\s*[#:]?\s*\(?(1|2|a|b|one|two)\b|\b(?:the\s+)?(first|second)(?:\s+(?:response|answer|one))?\b"
    r"|(?:回答|回复)\s*([12一二])",
    re.I,
)
_TIE: Final = re.compile(
    r"\b(?:tie|tied|draw|equally (?:good|bad)|no (?:clear )?(?:preference|winner))\b|平局|一样好", re.I
)
_BETTER: Final = re.compile(
    r"\s*\)?\s*(?:is|was|seems|looks|performs)\s+(?:\w+\s+)?(?:better|best|superior|preferred|preferable"
    r"|more\s+\w+|stronger|the winner)|\s*(?:wins\b|>|is the better)",
    re.I,
)
_WORSE: Final = re.compile(
    r"\s*\)?\s*(?:is|was|seems|looks|performs)\s+(?:\w+\s+)?(?:worse|inferior|weaker|less\s+\w+)|\s*(?:loses\b|<)", re.I
)
_CHOSEN: Final = re.compile(
    r"\b(?:better|best|preferred|superior|stronger|winner|choose|prefer|pick|select|verdict)(?:\s+\w+){0,2}?\s*(?:is|:)?\s*(?:the\s+)?[\[\"']*$",
    re.I,
)
_MAX_LENGTH: Final = 4000
_THAN: Final = re.compile(r"(?:\bthan|\bover|>|\bbeats|\bnot|\binstead of|比)\s*(?:the\s+)?$", re.I)


def read_preference(text: str, form: Form) -> str | Ambiguous | None:
    """ "1", "2" or "tie"."""
    text = plain(text[-_MAX_LENGTH:]).strip()
    bare = text.strip(" .!?,;:()[]\"'").casefold()
    if form is not Form.PROSE and bare in _WHOLE:
        return _WHOLE[bare]
    if bare in _TIES:
        return "tie"
    sayings = [saying for match in _NAMED.finditer(text) if (saying := _saying(text, match))]
    decided = {name for name, verdict in sayings if verdict}
    named = decided or {name for name, verdict in sayings if verdict is None}
    if form is Form.PROSE:
        named = decided or (named if len(text) < 40 else set())
    if _TIE.search(text):
        return "tie" if not decided else AMBIGUOUS
    if len(named) > 1:
        return AMBIGUOUS
    return next(iter(named), None)


def _saying(text: str, match: re.Match[str]) -> tuple[str, bool | None] | None:
    """Which response a mention names and whether it is called better (None: only named); a loser is the other's win."""
    ""
    word = next(group for group in match.groups() if group).casefold()
    name = "1" if word in ("1", "a", "one", "first", "一") else "2"
    before = text[max(0, match.start() - 80) : match.start()]
    if _THAN.search(before):
        return None
    if _BETTER.match(text, match.end()) or _CHOSEN.search(before):
        return name, True
    if _WORSE.match(text, match.end()):
        return ("2" if name == "1" else "1"), True
    return name, None


class Preference:
    """Scorer of preferences."""

    def extract(self, response: str, sample: Sample, *, truncated: bool = False) -> Extraction:
        """The preferred response."""
        return extract(response, read_preference, truncated=truncated)

    def grade(self, value: Any, sample: Sample) -> Grade:
        """1 for the same preference."""
        truth = read_preference(sample.answer, Form.VALUE)
        if not isinstance(truth, str):
            raise TruthError(f"answer {sample.answer[:80]!r} is none of Response 1, Response 2, Tie")
        return Grade(float(value == truth), {"truth": truth})
