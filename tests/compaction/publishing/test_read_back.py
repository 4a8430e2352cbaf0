"""Whether brokers took a batch as it was sent."""

from __future__ import annotations

import pytest

from tests.compaction.broker_events import FINISHED, GONE, LISTED
from tests.compaction.builders import a_segment
from tests.compaction.looks import a_look, a_row, given, replacement, started, whole
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.publishing.read_back import unlike_expected

U = a_segment(0, 9)
R = replacement("R", 0, 9)
ROW = a_row([R], [U])
SWAP = (given(R, FINISHED), given(U, LISTED))


@pytest.mark.parametrize(
    "later", [[], [given(U, GONE)], [given(R, LISTED)], [given(R, LISTED), given(R, GONE)]]
)
def test_brokers_may_have_gone_on(later: list[Event]) -> None:
    """They list and delete what lies below their log start."""
    look = a_look(ROW, [*whole(U), started(R), *SWAP, *later])
    assert unlike_expected(look.view, SWAP) == ""
    assert unlike_expected(look.view, (started(R),)) == ""


def test_what_was_not_taken_is_named() -> None:
    look = a_look(ROW, [*whole(U), started(R)])
    assert R.segment_id in unlike_expected(look.view, SWAP)
    assert "COPY_STARTED" in unlike_expected(look.view, SWAP)
    look = a_look(ROW, [*whole(U), started(R), SWAP[0]])
    difference = unlike_expected(look.view, SWAP)
    assert difference == (
        f"segment {U.segment_id} is in COPY_FINISHED, and DELETE_STARTED was sent and acknowledged"
    )


def test_of_several_events_of_a_segment_the_last_counts() -> None:
    look = a_look(ROW, [*whole(U), started(R), *SWAP])
    assert unlike_expected(look.view, (given(U, LISTED), given(U, GONE))) != ""
    assert unlike_expected(look.view, (given(U, FINISHED), given(U, LISTED))) == ""
