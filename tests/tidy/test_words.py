"""No text uses a word that docs/glossary.md replaced, and each such word is found."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.tidy import source_tree
from tests.tidy.words import REFUSED, refused_words

LEFT_OUT: Final = frozenset(
    {"CHANGELOG.md", "docs/glossary.md", "tests/tidy/words.py", "tests/tidy/test_words.py"}
)


def example_of(alternative: str) -> str:
    """A text that one alternative of a pattern matches."""
    text = re.sub(r"\(([^|)]*)[^)]*\)\??", r"\1", alternative).replace(" ?", " ")
    return re.sub(r".\?", "", text)


def test_no_text_uses_a_replaced_word() -> None:
    texts = [text for text in source_tree.texts() if text[0] not in LEFT_OUT]
    assert [violation for path, text in texts for violation in refused_words(path, text)] == []


@pytest.mark.parametrize("why", REFUSED)
def test_a_replaced_word_is_found_in_prose_and_in_names(why: str) -> None:
    for alternative in re.split(r"\|(?![^(]*\))", REFUSED[why]):
        word = example_of(alternative)
        assert re.fullmatch(alternative, word), (alternative, word)
        name = word.replace(" ", "_")
        for line in (f"The {word} is here.", f"def test_the_{name}_is_here() -> None:"):
            assert refused_words("a.md", f"fine\n{line}\n") == [
                f"a.md:2: {why}: see docs/glossary.md"
            ]


@pytest.mark.parametrize(
    "line",
    [
        "for each in self.segments:",
        "ids = [each.key for each in partitions]",
        "def f(each: Segment) -> None:",
    ],
)
def test_a_variable_named_each_is_found(line: str) -> None:
    assert refused_words("a.py", line) == ["a.py:1: each: see docs/glossary.md"]


@pytest.mark.parametrize(
    "line",
    [
        "`BatchRetention.RETAIN_EMPTY` keeps an emptied batch.",
        "`delete.retention.ms` and `retention.ms` are Kafka's settings.",
        "Kafka's `buildRetainedRecordsInto` writes the retained messages.",
        "def test_the_record_retention_of_a_tombstone() -> None:",
        "The log is split, and the file is restored.",
        "Values of one length are told apart; see, but for example, NOBODY.",
    ],
)
def test_kafkas_own_names_and_plain_words_are_allowed(line: str) -> None:
    assert refused_words("a.md", line) == []
