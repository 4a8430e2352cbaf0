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
}
"""The replaced words and their pattern; docs/glossary.md says what to write instead."""

ALLOWED: Final = re.compile(
    r"retain_?(duplicates|empty|records|delete)"  # Kafka's own names
    r"|buildRetainedRecords|retainLegacy|RETAIN_EMPTY|RetainedRecords|retained messages"
    r"|\"tally\"",  # a stored column
    re.IGNORECASE,
)

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PATTERNS: Final = {why: re.compile(rf"\b({p})\b") for why, p in REFUSED.items()}
_EACH: Final = re.compile(
    r"\bfor each in [\w.]*(segments|partitions|batches|rounds)\b"
    r"|\beach: (Segment|PartitionState|PartitionKey|Round)\b"
)


def refused_words(path: str, text: str) -> list[str]:
    """Uses of replaced words, each with its line."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        spaced = " ".join(_WORD.findall(ALLOWED.sub("", line))).lower()
        why = [word for word, pattern in _PATTERNS.items() if pattern.search(spaced)]
        if _EACH.search(line):
            why.append("each")
        found += [f"{path}:{number}: {word}: see docs/glossary.md" for word in why]
    return found
