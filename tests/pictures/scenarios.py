"""Tests in a few lines: a drawn log, and the drawings of it after rounds.

    A title.
    # A comment.
    0:a=1 1:b=1 | 2:a=2 >           the log before
    now_ms=50 apart -> 0:a=1 …      after a round with these arguments of `passed`
    or now_ms=99 -> 0.. 1:b=1 …     the same, but of the log before
    -> same                         the drawing is the same as before this round
    -> unchanged                    the segments are the same, too: no object was written
    -> 1:P1:A ; P1:0-1              after `;` the entries of the transaction indexes
    + 3:a=1                         brokers upload another segment

Other words before the arrow:

    apart    every segment is a group of its own
    whole    the round covers the last segment, too, which was beyond it (`>`)
    chunk    the round is not the last chunk of its run
    vacuum   the round is due only because delete horizons have passed
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.pictures.cleaning import APART, RULES, passed, vacuumed
from tests.pictures.log_pictures import Log, drawn, grown, listed, picture
from tierfold.compaction.model.rules import Rules

WORDS: Final = frozenset({"or", "apart", "whole", "chunk", "vacuum"})


def scenarios(text: str) -> pytest.MarkDecorator:
    """Parametrize a test with the scenarios in `text`, which empty lines divide."""
    found = [block.strip().splitlines() for block in text.strip().split("\n\n")]
    titles = [title.removesuffix(".") for title, *_ in found]
    cases = [[line for line in lines if line[0] != "#"] for _, *lines in found]
    return pytest.mark.parametrize("scenario", cases, ids=titles)


def check(scenario: list[str], folder: Path, rules: Rules = RULES) -> None:
    """Draw the log, take it through the rounds, and compare each result."""
    (before, index, entries), *steps = (scenario[0].partition(" ;"), *scenario[1:])
    first = log = picture(before, folder)
    assert not index or listed(log).strip() == entries.strip()
    for step in steps:
        arguments, arrow, expected = step.rpartition("-> ")
        if not arrow:
            log = grown(log, step.removeprefix("+ "))
            continue
        words = arguments.split()
        source = first if words[:1] == ["or"] else log
        log = _after(source, words, rules)
        drawing, index, entries = expected.partition(" ;")
        if drawing == "unchanged":
            assert log.segments == source.segments
        else:
            assert drawn(log) == (drawn(source) if drawing == "same" else drawing)
        assert not index or listed(log).strip() == entries.strip()


def _after(log: Log, words: list[str], rules: Rules) -> Log:
    numbers: dict[str, Any] = {
        name: int(number) for name, is_one, number in (w.partition("=") for w in words) if is_one
    }
    unknown = {word for word in words if "=" not in word} - WORDS
    assert not unknown, f"no scenario has these words: {unknown}"
    if "apart" in words:
        rules = replace(rules, segment_bytes=APART.segment_bytes)
    if "vacuum" in words:
        return vacuumed(log, rules=rules, **numbers)
    if "whole" in words:
        log = replace(log, is_last_beyond=False)
    return passed(log, rules=rules, is_last_chunk="chunk" not in words, **numbers).log
