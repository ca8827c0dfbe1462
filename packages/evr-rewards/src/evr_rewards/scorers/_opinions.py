"""Choices stated in free text without an answer mark: "I think it is B", "so option C fits"."""

from __future__ import annotations

import re
from typing import Final

from evr_rewards._plain import key
from evr_rewards.extraction import AMBIGUOUS, Ambiguous
from evr_rewards.scorers._mentions import EXPLICIT, LEAD, leading, listed, whole
from evr_rewards.scorers._options import Options

_OPINION: Final = re.compile(
    r"(?:\bI(?:\s+would|['’]d|['’]ll|\s+will|\s+am|['’]m)?\s+(?:think|believe|guess|say|choose|pick|select|going with"
    r"|go with|going for|go for|opt for|vote for)"
    r"|\b(?:it|this|that)(?:\s+is|['’]s|\s+must\s+be|\s+should\s+be|\s+would\s+be)"
    r"|\b(?:so|therefore|thus|hence|conclusion|choose|select|pick|selecting|choosing)"
    r"|我(?:认为|觉得)|选(?!项)|应该是|所以|因此)"
    r"(?:\s+(?:that|it\s+is|it['’]s|it\s+must\s+be|the|is|must\s+be|be|correct|right|clearly|definitely|probably|likely|obviously)\b|[\s:,：，是选])*",
    re.I,
)
_END: Final = re.compile(
    r"\s*[)\]\"'”}]*\s*(?:[.,;:!?。，；：！]|$|\n|because|since|as\b|for\b|not\b|rather\b|instead\b)", re.I
)
_AFFIRMED: Final = re.compile(
    r"(?:\b(?:option|choice)\s*[(\[\"'“]?\s*([A-Za-z]{1,2})(?!\w)[)\]\"'”]?\s*(?:is|fits|matches|best|seems)\b"
    r"(?!\s*(?:not\b|n't|wrong|incorrect|false)))"
    r"|(?<![A-Za-z0-9])\(?([A-Z]{1,2})\)?\s+is\s+(?:the\s+)?(?:most\s+)?(?:correct|right|best|final|accurate|answer)\b",
)
_LABEL_START: Final = re.compile(
    r"[\s\"'“*]*(?:[(\[【]\s*[A-Za-z]{1,2}\s*[)\]】]|[A-Z]{1,2}\b|(?:[Oo]ption|OPTION|[Cc]hoice|CHOICE)\b)"
)
_SENTENCE_END: Final = re.compile(r"[.!?。！？\n]")
_MAX_LENGTH: Final = 4000


def stated_choice(text: str, options: Options) -> str | Ambiguous | None:
    """The option that free text settles on; AMBIGUOUS when it settles on several.

    A text that merely mentions options ("let me compare A and B", "person B leaves") settles on none.
    """
    text = text[-_MAX_LENGTH:]
    opinions = {choice for match in _OPINION.finditer(text) if (choice := _opinion(text[match.end() :], options))}
    if opinions:
        return opinions.pop() if len(opinions) == 1 else AMBIGUOUS
    if (label := whole(text, options)) is not None:
        return label
    # A lead such as "B." or "(a)"; "a dog" and "A dog" are none: `leading` asks for punctuation behind.
    if _LABEL_START.match(text) and (found := leading(text, options)) is not None:
        return found
    affirmed = {(match[1] or match[2]).upper() for match in _AFFIRMED.finditer(text)} & set(options.labels)
    return AMBIGUOUS if len(affirmed) > 1 else next(iter(affirmed), None)


def _opinion(rest: str, options: Options) -> str | Ambiguous | None:
    """The choice behind "I think": a label that ends its clause, or a sentence that is an option's text."""
    match = LEAD.match(rest)
    if match and match[1].upper() in options.labels and _END.match(rest, match.end()):
        label = match[1].upper()
        if not match[1].islower():
            return AMBIGUOUS if listed(rest[match.end() :].split("\n", 1)[0], options, label) else label
        if EXPLICIT.search(rest[: match.start(1)]):
            return label
    return options.by_key.get(key(_SENTENCE_END.split(rest, maxsplit=1)[0]))
