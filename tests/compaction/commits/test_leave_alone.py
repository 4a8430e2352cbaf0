"""A person leaves alone exactly the segments that were there, and only what brokers never had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.compaction.beside_brokers import facts_beside, own_id
from tests.compaction.broker_events import uploaded
from tests.compaction.builders import a_segment, a_state, leave_alone, unknown
from tests.compaction.uploads import upload
from tierfold.compaction.commits.commit import proposed
from tierfold.compaction.commits.leave_alone import LeftAlone, left_alone
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind

ROW = a_state([a_segment(0, 9)])
EVENTS = uploaded(0, 0, 9)
SECOND, THIRD = upload(10, 19), upload(20, 29)


def leaving(
    row: PartitionState | None, found: Sequence[Any], *ids: str
) -> LeftAlone | Refusal:
    return left_alone(facts_beside(row, found, EVENTS), ids)


def test_the_row_notes_the_ids_that_were_given_and_no_others() -> None:
    found = leaving(ROW, [SECOND, THIRD], THIRD.segment_id)
    assert isinstance(found, LeftAlone)
    consent = found.consent(at_ms=7, run="r")
    after = applied(proposed(ROW, consent, commit_id="c", at_ms=7), ROW)
    assert after.consents == (
        Consent(
            kind=ConsentKind.LEFT_ALONE,
            given_at_ms=7,
            run="r",
            segment_ids=(THIRD.segment_id,),
        ),
    )
    assert after.left_alone_ids == {THIRD.segment_id}
    assert after.segments == ROW.segments


@pytest.mark.parametrize(
    ("found", "given"),
    [
        ([SECOND], THIRD),  # It is not there.
        ([upload(0, 9)], upload(0, 9)),  # Brokers have it.
        ([upload(10, 19, lacking="index")], SECOND),  # It is not whole, so it refuses nothing.
    ],
)
def test_any_other_segment_is_refused(found: Sequence[Any], given: Any) -> None:
    events = [*EVENTS, *uploaded("0-9", 0, 9)]
    refusal = left_alone(facts_beside(ROW, found, events), [given.segment_id])
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.NEVER_NAMED
    assert given.segment_id in refusal.detail


def test_what_a_run_wrote_is_no_persons_to_leave_alone() -> None:
    ours = unknown(a_segment(10, 19, segment_id=own_id()))
    assert isinstance(leaving(ROW, [ours], ours.segment_id), Refusal)
    theirs = unknown(a_segment(10, 19, segment_id=own_id(fingerprint=5)))
    assert isinstance(leaving(ROW, [theirs], theirs.segment_id), Refusal)


def test_what_is_left_alone_already_is_not_noted_again() -> None:
    row = a_state([a_segment(0, 9)], consents=(leave_alone(SECOND.segment_id),))
    again = leaving(row, [SECOND, THIRD], SECOND.segment_id, THIRD.segment_id)
    assert isinstance(again, LeftAlone)
    assert again.segments == (THIRD.listed,)
    assert leaving(row, [SECOND], SECOND.segment_id) == LeftAlone(segments=())
