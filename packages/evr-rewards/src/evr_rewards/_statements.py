"""Find "the answer is ..." in many languages."""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from evr_rewards._plain import plain

_CUES = (
    # English
    r"(?:\b(?:final|correct|right|best|my|our|the|overall)\s{1,4}){0,3}\b(?:ans|answers?|(?:correct|right|best|final)\s+(?:option|choice|one))\b[\"'”]?"
    r"(?:\s+(?:to|for)\b[^.\n:]{0,80}?|\s+here|\s+choice|\s+option)?\s*(?:is|['’]s|are|was|would\s+be|should\s+be|must\s+be|has\s+to\s+be|:|=)(?!\s*not\b|n't)",
    r"\bfinal\s+answer\b\s*[-:]?",
    r"\bmy\s+(?:choice|pick|selection|vote)\s*(?:is|:)",
    r"\banswer(?=\s+\(?[A-Z]\)?\s*(?:[.,]|$))",
    # Chinese, Japanese, Korean
    r"(?:最终|最后的?|正确的?)?(?:答案?|选项)(?:应该|应当|应)?(?:是|为|选择?|:)(?!\s*不)",
    r"(?:应该?|故|所以|因此|我)选择?\s*:?",
    r"(?:最終的な)?(?:答え|正解|回答)は?\s*[:、]?",
    r"(?:최종\s*)?(?:정답|답)(?:은|:|은\s*:)",
    # Spanish, Portuguese, Italian, French, German, Dutch, Polish, Turkish, Vietnamese, Indonesian
    r"\b(?:respuesta|resposta|risposta|opción|opção)\b(?:\s+(?:correcta|correta|corretta|final|finale))?\s*(?:es|é|è|:)",
    r"\br[ée]ponse\b(?:\s+(?:correcte|finale|exacte))?\s*(?:est|:)",
    r"\b(?:antwort|antwoord)\b\s*(?:ist|lautet|is|:)",
    r"\bodpowied[źz]\b\s*(?:to|:)",
    r"\bcevap\b\s*:?",
    r"(?:đáp án|câu trả lời)(?:\s+đúng)?\s*(?:là|:)",
    r"\bjawaban(?:nya)?\b(?:\s+yang\s+benar)?\s*(?:adalah|:)",
    # Russian, Arabic, Hindi
    r"\bответ\b\s*(?:[-—–:]|это|является)?",
    r"(?:الإجابة|الجواب)(?:\s+(?:الصحيحة|الصحيح|النهائية))?\s*(?:هي|هو|:)?",
    r"(?:सही\s+)?उत्तर\s*(?:है|:)?",
)
_CUE = re.compile("|".join(f"(?:{cue})" for cue in _CUES), re.I)
_MAX_CUES: Final = 20
_MAX_LENGTH: Final = 20_000  # the end of a response states its answer
_MAX_TAIL: Final = 4000
_HINTS = re.compile(
    r"\bans|my\s|answer|correct|right|best|final|答|选|正|정답|답|resp|risp|r[ée]p|antwo|opci|opç|odpow|cevap|đáp|câu|jawab|ответ|الإ|الج|उत्तर",
    re.I,
)
_LEAD = re.compile(
    r"[\s:\-—–=,，、\"'“”]*(?:(?:that|therefore|thus|simply|definitely|clearly|likely|probably)\b[\s:,]*)*"
)


def statements(text: str) -> list[str]:
    """What follows each final-answer cue, up to the end of its line, the last cue first.

    "So the answer is **C**." gives ["C."]. A cue followed by "not" is none.
    """
    text = text[-_MAX_LENGTH:]
    if not _HINTS.search(text):
        return []
    text = plain(text)
    tails = []
    for match in deque(_CUE.finditer(text), maxlen=_MAX_CUES):
        start = _lead_end(text, match.end())
        tail = text[start : start + _MAX_TAIL].partition("\n")[0].strip()
        if tail:
            tails.append(tail)
    return tails[::-1]


def _lead_end(text: str, start: int) -> int:
    lead = _LEAD.match(text, start)
    end = lead.end() if lead else start
    # A minus sign belongs to the number behind it.
    return end - 1 if end > start and text[end - 1] == "-" and text[end : end + 1].isdigit() else end
