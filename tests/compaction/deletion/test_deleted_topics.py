"""What of a deleted topic goes, and what shows that it only looks deleted (PUBLISHING 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.beside_brokers import CATALOG, brokers_have, own_id
from tests.compaction.broker_events import GONE, LISTED
from tests.compaction.builders import (
    CLUSTER,
    a_chain,
    a_state,
    leave_alone,
    listed,
    retired,
    segment_id,
)
from tests.compaction.deletion.test_makers import OLDER_ID
from tests.compaction.looks import given, own, started, whole
from tests.storage.new_ids import foreign_id
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.commits.commit import failed_requirements, proposed
from tierfold.compaction.commits.invariants import COMMIT_INVARIANTS, ensure
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS, deletion_invariants
from tierfold.compaction.deletion.deleted_topics import (
    DeletedPartition,
    TopicKept,
    deleted_topic_plan,
    topic_kept,
)
from tierfold.compaction.deletion.deletion_plan import DeletionPlan, VacuumLimits
from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.rules import DAY_MS
from tierfold.compaction.model.segments import PartitionState, Segment

U, V, W, X = a_chain(10, 10, 10, 10)
R: Final = replace(W, segment_id=own("R", CATALOG), origin=Compacted("run"))
OLD_R: Final = replace(V, segment_id=own("old R", CATALOG), origin=Compacted("earlier"))
ROW: Final = replace(
    a_state([R, X], retired=(retired(U), retired(OLD_R), retired(W))),
    served_by=(CLUSTER,),
    epoch=1,
)
ALIVE: Final = [*whole(U, W, R, X), given(U, LISTED), given(U, GONE), given(W, LISTED)]
"""Brokers serve R and X, and list W; of U they know that it is gone."""
DELETED: Final = [*ALIVE, *(given(one, LISTED) for one in (W, R, X)), given(W, GONE)]
"""Brokers have listed what they had. R and X are not gone yet."""
NOW_MS: Final = 100 * DAY_MS
TIMES: Final = VacuumLimits(now_ms=NOW_MS, publishes=True)
LATE: Final = replace(R, segment_id=own("late", CATALOG))


def partition(
    events: Sequence[Event], row: PartitionState | None = ROW, last_ms: int | None = None
) -> DeletedPartition:
    """What is known of a partition; `last_ms`: when its last event was sent."""
    brokers = brokers_have(events, () if row is None else row.named_ids)
    if last_ms is not None:
        brokers = replace(brokers, view=replace(brokers.view, last_timestamp_ms=last_ms))
    return DeletedPartition(row=row, brokers=brokers)


def why_kept(*partitions: DeletedPartition, times: VacuumLimits = TIMES) -> str:
    kept = topic_kept(partitions, times)
    return "" if kept is None else kept.why


@pytest.mark.parametrize(
    ("events", "count"),
    [
        (ALIVE, 2),
        (whole(X), 1),  # A catalog that was set back: the row has R, and brokers do not.
        ([*ALIVE, *whole(LATE)], 3),  # The same: brokers have one that the row does not name.
        ([*DELETED, started(replace(V, segment_id=segment_id("new")))], 1),
        ([*DELETED, started(replace(V, segment_id=foreign_id()))], 1),
        ([*DELETED, started(U)], 1),  # An upload, although the row names it.
        ([*DELETED, started(LATE), given(LATE, LISTED), *whole(V)], 1),
    ],
)
def test_a_topic_that_brokers_have_not_listed_only_looks_deleted(
    events: Sequence[Event], count: int
) -> None:
    """Such as to a client that may not describe it."""
    assert why_kept(partition(events)).startswith(f"brokers have {count} segment")
    # Also if it is only one partition of several, or one that no run has claimed.
    assert "did not list" in why_kept(partition(DELETED), partition(events))
    assert "did not list" in why_kept(partition(DELETED), partition(events, None))


def test_a_topic_that_brokers_listed_was_deleted() -> None:
    assert why_kept(partition(DELETED)) == ""
    assert why_kept(partition(DELETED), partition([])) == ""


@pytest.mark.parametrize("name", [LATE.segment_id, OLDER_ID])
def test_a_replacement_that_brokers_never_learned_of_does_not_count(name: str) -> None:
    """By its mark, or because the row says so of an id from before marks."""
    late = replace(LATE, segment_id=name)
    row = replace(ROW, retired=(*ROW.retired, retired(late)))
    assert why_kept(partition([*DELETED, started(late)], row)) == ""
    assert why_kept(partition([*DELETED, started(LATE)])) == ""
    assert "1 segment" in why_kept(partition([*DELETED, *whole(late)], row))


def test_of_a_topic_that_brokers_never_named_nothing_is_known() -> None:
    assert "never named a segment" in why_kept(partition([]), partition([], None))
    assert "never named a segment" in why_kept()


def test_brokers_are_given_the_orphan_age_since_their_last_event() -> None:
    last_ms = NOW_MS - DAY_MS
    assert topic_kept([partition(DELETED, last_ms=last_ms)], TIMES) is None
    young = partition(DELETED, last_ms=last_ms + 1)
    kept = topic_kept([partition(DELETED), young, partition(DELETED)], TIMES)
    assert kept == TopicKept(why="its brokers may still delete their part", until_ms=NOW_MS + 1)
    assert topic_kept([young], replace(TIMES, orphan_age_ms=DAY_MS - 1)) is None


def found(segment: Segment | str, *, age_ms: int = DAY_MS, **fields: object) -> ListedSegment:
    one = segment if isinstance(segment, Segment) else replace(V, segment_id=segment)
    return replace(listed(one), modified_ms=NOW_MS - age_ms, **fields)


def planned(
    *listing: ListedSegment,
    row: PartitionState = ROW,
    uploads: Sequence[IncompleteUpload] = (),
    events: Sequence[Event] = DELETED,
) -> DeletionPlan:
    ids = {*row.named_ids, *(one.segment_id for one in listing)}
    return deleted_topic_plan(row, brokers_have(events, ids), listing, uploads, TIMES)


def test_what_tierfold_wrote_goes_and_what_brokers_left_stays() -> None:
    plan = planned(found(R), found(OLD_R), found(X))
    # X, which brokers left behind, is retired and stays; of U and W no object is left.
    assert {*plan.marked_ids} == {one.segment_id for one in (R, OLD_R, U, W)}
    assert plan.notes[0].startswith("1 segment kept")
    assert planned(found(R)).notes == ()
    assert plan.events == 0


def committed(row: PartitionState, plan: DeletionPlan, gone: Sequence[str]) -> PartitionState:
    """The row after a vacuum by that plan, which checks each commit."""
    held = claimed(row, run="vacuum", commit_id="1", at_ms=NOW_MS)
    first = plan.updates(at_ms=NOW_MS, run="vacuum")
    for updates, requires in ((first, plan.requires), (plan.last_updates(gone), ())):
        proposal = proposed(held, *updates, commit_id="2", at_ms=NOW_MS, requires=requires)
        assert failed_requirements(proposal.requires, held) == ()
        after = applied(proposal, held)
        rules = (*COMMIT_INVARIANTS, *SERVED_INVARIANTS, *deletion_invariants(proposal))
        ensure(held, after, rules)
        held = after
    return held


def test_of_the_row_only_what_brokers_left_stays() -> None:
    never = replace(V, segment_id=own("never", CATALOG), origin=Compacted("run"))
    row = replace(ROW, retired=(*ROW.retired, replace(retired(never), deletion_started_at_ms=7)))
    plan = planned(found(R), found(OLD_R), found(X), found(never), row=row)
    after = committed(row, plan, [one.segment_id for one in (R, OLD_R, U, W, never)])
    assert (after.segments, after.log_start_offset) == ((), ROW.next_offset)
    assert after.retired_ids == {X.segment_id}
    assert after.marked_ids == frozenset()
    # Once that is gone, too, the next run has nothing to retire.
    plan = planned(row=after)
    assert committed(after, plan, [X.segment_id]).named_ids == frozenset()
    assert planned(row=replace(after, retired=())).is_nothing


def test_what_was_retired_meanwhile_is_not_marked() -> None:
    plan = planned(found(R), found(OLD_R))
    ids = {name for need in plan.requires for name in need.ids}
    assert ids == {one.segment_id for one in (R, X, OLD_R, U, W)}


def test_only_old_orphans_of_this_catalog_go() -> None:
    orphan, young, mine = own_id(), own_id(), own_id()
    row = replace(ROW, consents=(leave_alone(mine),))
    strange = [foreign_id(), OLDER_ID, segment_id("upload")]
    plan = planned(
        found(orphan),
        found(young, age_ms=DAY_MS - 1),
        found(mine),
        *map(found, strange),
        row=row,
    )
    assert [one.segment_id for one in plan.orphans] == [orphan]
    assert plan.notes[0].startswith("5 segments kept")


def test_only_old_unfinished_uploads_of_this_catalog_go() -> None:
    def left(name: str, age_ms: int = DAY_MS) -> IncompleteUpload:
        return IncompleteUpload(
            object_key=name, size_bytes=1, modified_ms=NOW_MS - age_ms, segment_id=name
        )

    ours = left(own_id())
    others = [left(foreign_id()), left(segment_id("upload")), left(own_id(), DAY_MS - 1)]
    assert planned(uploads=[*others, ours]).incomplete_uploads == (ours,)
