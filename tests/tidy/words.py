"""Finds words that docs/glossary.md replaced, in prose and in names."""

from __future__ import annotations

import re
from typing import Final

REFUSED: Final = {
    "retain, sweep": r"retain(s|ed|ing)?|sweep(s|er|ers|ing)?|swept",
    "fate": r"fated?|fates",
    "winner, contest, standing": r"winners?|contests?|standings?",
    "absorb": r"absorb(s|ed|ing)?|absorption",
    "sight": r"sight(s|ed)?",
    "mark of a transaction": r"batch ?marks|joined ?marks|scan ?marks|marks ?of",
    "believed": r"believed|believing",
    "way back": r"way ?back|put ?back",
    "wired": r"wired|wiring",
    "breach, contradiction, unmet": r"breach(es)?|contradictions?|unmet",
    "verdict": r"verdicts?",
    "dealt": r"dealt|redealt",
    "tally": r"tally|tallies|tallied",
    "breath": r"breath",
    "complaint": r"complain(s|ts?)?",
    "moment": r"moments?",
    "stranger, leftover": r"strangers?|leftovers?",
    "doom": r"doom(s|ed)?",
    "world, story, dice": r"worlds?|story|stories|dice",
    "temper, baton, meddle": r"temper|batons?|meddl(e|es|ed|ing)",
    "harm": r"harm(s|ed|ing)?",
    "house, wall, paper, room": r"house|walls?|papers?|rooms",
    "law, mind": r"laws?|mind",
    "amid, beneath": r"amid|amidst|beneath|unto|upon",
    "anew": r"anew",
    "any more": r"any more",
    "but for": r"(but|save) for",
    "the begin": r"begin of",
    "give back": r"(give|gives|gave|given|giving) back|claims? back",
    "goes by": r"(go|goes|went) by",
    "hear, heed": r"hears|heard|heed(s|ed|ing)?",
    "hence": r"hence|whence|there(by|in|of)|where(by|in|of)|albeit|forthwith|lest|likewise|shall",
    "told": r"(is|are|was|were|be|been|being) told|told (of|by)|tells (of|that|which|who|what)",
    "lives": r"(what|that|which|nothing|segment|row|data) (lives|lived)",
    "nobody": r"nobody",
    "on purpose": r"on purpose",
    "rests": r"(partition|that|what|it) rests",
    "spoken, who said": r"spoken|who (said|says)",
    "stands in": r"stands in|stood in",
    "whoever": r"whoever",
}
"""The replaced words and their pattern; docs/glossary.md says what to write instead."""

ALLOWED: Final = re.compile(
    r"retain_?(duplicates|empty|records|delete)"  # Kafka's own names
    r"|buildRetainedRecords|retainLegacy|RETAIN_EMPTY|RetainedRecords|retained messages"
    r"|[\"`]tally[\"`]"  # a stored column
    r"|told[ _]apart"
    r"|(?-i:NOBODY)"  # the user of that name
    r"|but for example",
    re.IGNORECASE,
)

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PATTERNS: Final = {why: re.compile(rf"\b({p})\b") for why, p in REFUSED.items()}
_ANY: Final = re.compile(rf"\b({'|'.join(REFUSED.values())})\b")
_EACH: Final = re.compile(
    r"\bfor each in [\w.]*(segments|partitions|batches|rounds)\b"
    r"|\beach: (Segment|PartitionState|PartitionKey|Round)\b"
)


def refused_words(path: str, text: str) -> list[str]:
    """Uses of replaced words, each with its line."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        spaced = " ".join(_WORD.findall(ALLOWED.sub("", line))).lower()
        why = []
        if _ANY.search(spaced):  # Almost no line has one.
            why = [word for word, pattern in _PATTERNS.items() if pattern.search(spaced)]
        if _EACH.search(line):
            why.append("each")
        found += [f"{path}:{number}: {word}: see docs/glossary.md" for word in why]
    return found
