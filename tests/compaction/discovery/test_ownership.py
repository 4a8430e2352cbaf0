"""Whose unknown segments are, given what lies beside them."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.builders import a_segment, facts, unknown
from tests.compaction.discovery.test_drafted_view import ROW
from tierfold.compaction.discovery.candidates import Candidate, is_orphan
from tierfold.compaction.discovery.draft import drafted
from tierfold.compaction.discovery.ownership import (
    OF_PARTITION,
    UNSAID,
    Whose,
    beside_each_other,
    doubtful,
)
from tierfold.compaction.discovery.view import Refusal, RefusalReason

DOUBT = doubtful("it names another topic")


def test_what_says_nothing_is_doubtful_only_beside_doubt() -> None:
    assert beside_each_other([]) == ()
    assert beside_each_other([UNSAID, OF_PARTITION]) == (UNSAID, OF_PARTITION)
    first, second, third = beside_each_other([UNSAID, DOUBT, OF_PARTITION])
    assert (first.whose, second, third) == (Whose.DOUBTFUL, DOUBT, OF_PARTITION)
    assert first.why


def left(*lacking: str) -> Candidate:
    """What is left of a segment that may be another cluster's."""
    return replace(unknown(a_segment(3, 5), lacking=lacking), ownership=DOUBT)


def test_what_may_be_anothers_is_no_orphan() -> None:
    for found in (left(), left("log"), replace(left("index"), is_own_unfinished=True)):
        assert is_orphan(replace(found, ownership=OF_PARTITION), ROW)
        assert not is_orphan(found, ROW)


def test_without_a_row_any_doubt_refuses_the_partition() -> None:
    for found in (left(), left("log"), left("index")):
        refusal = drafted(facts(None, [unknown(a_segment(0, 2)), found]))
        assert isinstance(refusal, Refusal)
        assert refusal.reason is RefusalReason.UNREADABLE
        assert refusal.detail == DOUBT.why
