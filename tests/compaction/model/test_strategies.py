"""Which compaction strategies a row keeps, and the note when one changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import KEY, a_chain, a_state, cleaned_to
from tierfold.compaction.commits.commit import CommitProposal, NoteStrategy
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.strategies import (
    latest_strategy,
    strategy_change,
    strategy_name,
    with_strategy,
)

OFFSET = Rules()
TIMESTAMP = Rules(compaction_strategy=CompactionStrategy.TIMESTAMP)
HEADER = Rules(compaction_strategy=CompactionStrategy.HEADER, compaction_strategy_header="v")
CLEANED = a_state(a_chain(10), cleaner_offsets=cleaned_to(10))


def test_a_header_strategy_is_named_with_its_header() -> None:
    assert [strategy_name(rules) for rules in (OFFSET, TIMESTAMP, HEADER)] == [
        "offset",
        "timestamp",
        "header=v",
    ]


@pytest.mark.parametrize(
    ("known", "rules", "last"),
    [
        ((), TIMESTAMP, "offset"),
        (("timestamp",), OFFSET, "timestamp"),
        (("timestamp", "offset"), HEADER, "offset"),
        (("header=w",), HEADER, "header=w"),
    ],
)
def test_a_change_of_strategy_is_noted(known: tuple[str, ...], rules: Rules, last: str) -> None:
    state = replace(CLEANED, strategies=known)
    (said,) = strategy_change(state, rules)
    assert said.startswith(f"the compaction strategy was {last} and is {strategy_name(rules)} now")


@pytest.mark.parametrize(
    ("known", "rules"),
    [((), OFFSET), (("timestamp",), TIMESTAMP), (("timestamp", "header=v"), HEADER)],
)
def test_the_same_strategy_is_not_noted(known: tuple[str, ...], rules: Rules) -> None:
    assert strategy_change(replace(CLEANED, strategies=known), rules) == ()


def test_a_partition_that_was_never_compacted_has_no_change_of_strategy() -> None:
    assert strategy_change(None, TIMESTAMP) == ()
    assert strategy_change(a_state(a_chain(10)), TIMESTAMP) == ()


def test_each_strategy_is_known_once_and_the_latest_is_last() -> None:
    assert with_strategy((), "timestamp") == ("timestamp",)
    assert with_strategy(("timestamp", "offset"), "timestamp") == ("offset", "timestamp")


def test_a_commit_records_its_strategy() -> None:
    noted = CommitProposal(
        key=KEY,
        commit_id="c",
        requires=(),
        updates=(NoteStrategy(name="timestamp"),),
        at_ms=0,
    )
    assert latest_strategy(CLEANED) == "offset"
    assert latest_strategy(applied(noted, CLEANED)) == "timestamp"
