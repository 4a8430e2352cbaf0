"""Whether `vacuum` may continue right before it deletes: everything that stops it, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import (
    KEY,
    a_chain,
    a_segment,
    a_state,
    leave_alone,
    listed,
    retired,
    segment_id,
)
from tierfold.compaction.commits.commit import proposed
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.deletion.deletion_checks import (
    changed_ids,
    changed_uploads,
    deletion_violations,
)
from tierfold.compaction.deletion.deletion_plan import DeletionPlan
from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.model.segments import PartitionState, Segment

CHAIN: Final = a_chain(10, 10, 10)
LIVE: Final = CHAIN[1:]
A: Final = CHAIN[0].segment_id
ORPHAN: Final = a_segment(15, 20, segment_id=segment_id("stray15"))
APART: Final = a_segment(25, 35, segment_id=segment_id("apart"))
DELETION: Final = DeletionPlan(
    key=KEY,
    starting=(retired(CHAIN[0]),),
    orphans=(listed(ORPHAN),),
    set_apart=(listed(APART),),
)
FOUND: Final = a_state(LIVE, retired=(retired(CHAIN[0]),), epoch=2, commit_id="found")
CLAIMED: Final = claimed(FOUND, run="we", commit_id="claim", at_ms=6)
START: Final = proposed(
    CLAIMED, *DELETION.updates(at_ms=7, run="we"), commit_id="start", at_ms=7
)
STARTED: Final = applied(START, CLAIMED)
UNMARKED: Final = (f"segment {A} is not marked as being deleted",)


def also_retired(segment: Segment) -> PartitionState:
    return replace(STARTED, retired=(*STARTED.retired, retired(segment)))


def left_alone(segment: Segment) -> PartitionState:
    return replace(STARTED, consents=(leave_alone(segment.segment_id),))


def test_the_row_decides_what_is_deleted() -> None:
    assert deletion_violations(DELETION, STARTED) == ()
    for row, violation in (
        (replace(STARTED, segments=CHAIN, retired=()), f"segment {A} is live"),
        (replace(STARTED, segments=CHAIN), f"segment {A} is live"),
        (replace(STARTED, retired=(retired(CHAIN[0]),)), *UNMARKED),
        (replace(STARTED, retired=()), *UNMARKED),
        (replace(STARTED, segments=(*LIVE, ORPHAN)), f"segment {ORPHAN.segment_id} is live"),
        (replace(STARTED, segments=(*LIVE, APART)), f"segment {APART.segment_id} is live"),
        (also_retired(ORPHAN), f"segment {ORPHAN.segment_id} is retired, not an orphan"),
        (also_retired(APART), f"segment {APART.segment_id} is retired, not an orphan"),
        (left_alone(ORPHAN), f"segment {ORPHAN.segment_id} is left alone"),
        (left_alone(APART), f"segment {APART.segment_id} is left alone"),
    ):
        assert deletion_violations(DELETION, row) == (violation,)


def test_segments_that_an_earlier_run_marked_are_checked_too() -> None:
    going = DeletionPlan(key=KEY, going=STARTED.retired)
    assert deletion_violations(going, STARTED) == ()
    assert deletion_violations(going, CLAIMED) == UNMARKED


def test_all_violations_are_named() -> None:
    row = replace(STARTED, segments=(*LIVE, ORPHAN, APART), retired=())
    names = sorted((APART.segment_id, ORPHAN.segment_id))
    expected = (*(f"segment {name} is live" for name in names), *UNMARKED)
    assert deletion_violations(DELETION, row) == expected


def other(segment: ListedSegment) -> dict[str, ListedSegment]:
    """What a later listing may show instead."""
    parts = segment.parts
    return {
        "one part more": replace(segment, parts=(*parts, ("txnindex", 34))),
        "one part fewer": replace(segment, parts=parts[1:]),
        "another size": replace(segment, parts=((parts[0][0], parts[0][1] + 1), *parts[1:])),
        "a later time": replace(segment, modified_ms=segment.modified_ms + 1),
    }


@pytest.mark.parametrize("was", [listed(ORPHAN), listed(APART)], ids=["orphan", "set apart"])
@pytest.mark.parametrize("change", other(listed(ORPHAN)))
def test_an_orphan_that_changed_after_the_listing_stays(was: ListedSegment, change: str) -> None:
    listing = map(listed, (*CHAIN, ORPHAN, APART))
    now = [other(segment)[change] if segment == was else segment for segment in listing]
    assert changed_ids(DELETION, now) == {was.segment_id}


@pytest.mark.parametrize("change", [{"size_bytes": 8}, {"modified_ms": 3}])
def test_an_upload_that_went_on_stays(change: dict[str, int]) -> None:
    upload = IncompleteUpload(
        object_key="f/a?uploadId=1", size_bytes=7, modified_ms=2, segment_id="a"
    )
    other_one = replace(upload, object_key="f/b?uploadId=2")
    deletion = replace(DELETION, incomplete_uploads=(upload,))
    assert changed_uploads(deletion, [replace(upload, **change), other_one]) == {upload.object_key}
    for listed_now in ([upload, other_one], [other_one], []):
        assert changed_uploads(deletion, listed_now) == frozenset()


def test_an_orphan_listed_as_before_or_not_at_all_has_not_changed() -> None:
    live = replace(listed(CHAIN[1]), modified_ms=9)
    for listing in ([live, listed(ORPHAN), listed(APART)], [live, listed(APART)], [live], []):
        assert changed_ids(DELETION, listing) == frozenset()
