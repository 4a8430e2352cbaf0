"""What `rebuild` takes as part of the log, and what it leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.compaction.builders import (
    CLUSTER,
    a_chain,
    a_state,
    epochs,
    facts,
    leave_alone,
    listed,
    retired,
    seen,
)
from tests.compaction.looks import a_row, own, replacement, whole
from tests.compaction.lost_looks import lost
from tests.compaction.uploads import upload
from tierfold.compaction.brokers.broker_view import Naming
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segment_ids import Maker
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.planning.rebuild_look import (
    covered_uploads,
    unknown_uploads,
    unpublished_refusal,
    unused_refusal,
    was_never_published,
    with_uploads_only,
    without_deleted,
)

U, V, W = LIVE = a_chain(10, 10, 10)
ROW = a_state(LIVE)


def covered(row: PartitionState | None, *found: Candidate) -> list[tuple[int, int]]:
    segments = covered_uploads(facts(row, found), seen(row, found))
    return [(one.start_offset, one.end_offset) for one in segments]


def test_uploads_that_live_segments_cover_are_named_too() -> None:
    twin, beyond = upload(12, 18), upload(30, 39)
    assert covered(ROW, twin, beyond) == [(12, 18)]
    assert covered(None, upload(0, 9), upload(3, 7), upload(10, 19)) == [(3, 7)]


@pytest.mark.parametrize(
    "changes",
    [
        {"maker": Maker.THIS_CATALOG},
        {"maker": Maker.OLDER_TIERFOLD},
        {"segment": None},
    ],
)
def test_what_runs_left_and_what_cannot_be_read_is_not(changes: dict[str, Any]) -> None:
    assert covered(ROW, replace(upload(12, 18), **changes)) == []


def test_uploads_below_the_first_live_segment_or_behind_a_gap_are_not() -> None:
    assert covered(a_state(LIVE[1:]), upload(0, 9)) == []
    assert covered(ROW, upload(40, 49)) == []


def test_uploads_in_part_or_of_another_history_are_not() -> None:
    assert covered(ROW, upload(12, 18, lacking="index")) == []
    newer = a_state(LIVE, lineage=epochs((0, 0), (2, 5)))
    live = [replace(one, leader_epochs=epochs_in(newer.lineage, *span(one))) for one in LIVE]
    row = replace(newer, segments=tuple(live))
    assert covered(row, upload(12, 18, (0, 0), (2, 5))) == [(12, 18)]
    assert covered(row, upload(12, 18, (0, 0), (1, 12))) == []


def span(segment: Segment) -> tuple[int, int]:
    return segment.start_offset, segment.end_offset


def test_what_brokers_deleted_for_their_log_start_leaves_the_row() -> None:
    there = [listed(V), listed(W)]
    row = without_deleted(ROW, there, 15)
    assert row is not None
    assert (row.segments, row.log_start_offset) == ((V, W), 10)
    # Objects are there, all or some: the log start may be wrong.
    assert without_deleted(ROW, [listed(U), *there], 15) == ROW
    assert without_deleted(ROW, [listed(U, lacking=["log"]), *there], 15) == ROW
    # Objects that are lost above the log start stay in the row, so that it is refused.
    assert without_deleted(ROW, [listed(V)], 15) == replace(row, segments=(V, W))
    assert without_deleted(ROW, [], 30) == replace(ROW, segments=(), log_start_offset=30)
    assert without_deleted(None, there, 15) is None


def test_whole_uploads_that_nothing_names_are_left_for_a_person() -> None:
    """A broker that would have deleted it has restarted, or a person copied it here."""
    row = replace(a_state((V, W)), log_start_offset=10)
    there = row.named_ids | {U.segment_id}

    def unknown(row: PartitionState, *events: Event, **fields: Any) -> tuple[str, ...]:
        look = lost(row, events, whole=there, present=there, log_start=10, **fields)
        naming = {name: look.naming.get(name, Naming.NEVER_NAMED) for name in there}
        return unknown_uploads(replace(look, naming=naming))

    assert unknown(row) == (U.segment_id,)
    assert unknown(replace(row, consents=(leave_alone(U.segment_id),))) == ()
    assert unknown(replace(row, retired=(retired(U),))) == ()
    assert unknown(row, covered=[U]) == ()
    look = lost(row, log_start=10)
    never = {**look.naming, own("ours"): Naming.NEVER_NAMED}
    ours = replace(look, whole=look.whole | {own("ours")}, naming=never)
    assert unknown_uploads(ours) == ()
    named = {**look.naming, U.segment_id: Naming.NAMED}
    assert unknown_uploads(replace(look, whole=there, naming=named)) == ()


def unpublished(row: PartitionState, *events: Event) -> RefusalReason | None:
    """The reason why a row that brokers were never sent is refused beside a lost topic."""
    assert was_never_published(row)
    refusal = unpublished_refusal(lost(row, events))
    return None if refusal is None else refusal.reason


def test_replacements_that_were_never_published_are_not_named() -> None:
    """It would be their first publication, which another verb decides."""
    row = a_row([replacement("R", 0, 19), W], [U, V])
    assert unpublished(row) is RefusalReason.DELETED_KEYS
    assert unpublished(row, *whole(U, V)) is RefusalReason.DELETED_KEYS
    # Nothing of what brokers uploaded is lost.
    assert unpublished(row, *whole(U, V, W)) is None
    only = with_uploads_only(lost(row, whole(U, V, W)))
    assert only.rebuilds.keys() == {U.segment_id, V.segment_id, W.segment_id}


def test_uploads_alone_and_what_was_published_are_named() -> None:
    assert not was_never_published(None)
    assert not was_never_published(a_row([U, V], [replacement("R", 0, 19)]))
    served = a_row([replacement("R", 0, 19)], served_by=(CLUSTER,))
    assert not was_never_published(served)


def test_whole_segments_behind_a_gap_refuse() -> None:
    refusal = unused_refusal(seen(ROW, [upload(40, 49)]))
    assert refusal is not None
    assert refusal.reason is RefusalReason.GAP
    assert "offset 30 is missing" in refusal.detail
    assert unused_refusal(seen(ROW, [upload(40, 49, lacking="index")])) is None
    assert unused_refusal(seen(ROW, [upload(30, 39)])) is None
