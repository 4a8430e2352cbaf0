"""Merges: planned by what the row says that each segment gives, committed, and published."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.builders import KEY, a_segment, a_view, cleaned_to
from tests.compaction.hash_keys import FINGERPRINT, HASH_KEY
from tests.compaction.looks import NOW_MS, a_look, a_row, replacement, started, whole
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.commit import CommitProposal
from tierfold.compaction.commits.invariants import violations
from tierfold.compaction.commits.receipts import (
    GroupReceipt,
    GroupResult,
    VerifiedParts,
    WrittenSegment,
)
from tierfold.compaction.commits.round_commit import proposal_of
from tierfold.compaction.commits.row_changes import applied
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.units import LOG_BYTES_MAX, OFFSET_SPAN_MAX
from tierfold.compaction.planning.merges import merge_plan, unread_beside, why_not_one
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Done, Merge, Send

U, V, W = (a_segment(start, start + 9) for start in (0, 10, 30))
R = replacement("R", 0, 19)
LATE = a_segment(10, 29, segment_id="n" * 21 + "A")
"""A new leader's upload, which was finished between a look and a batch."""
TAKEN = replace(LATE, start_offset=20, skipped_offsets=10, size_bytes=600, skipped_bytes=400)
"""The same as discovery takes it."""
SHORTER = a_segment(10, 25, segment_id="o" * 21 + "A")
"""Another leader's, which gives nothing to the log."""
ROW = a_row([R], [U, V], cleaner_offsets=cleaned_to(20))
CLAIMED = replace(ROW, segments=(R, TAKEN, W))
TOPIC = [*whole(U, V, SHORTER, LATE, W), started(R)]
RULES = Rules(cleanup_policy=frozenset({"compact"}))


def view_of(row: PartitionState, topic: list[Event]) -> PartitionView:
    """The view of a row that discovery has added to."""
    brokers = brokers_have(topic, row.named_ids)
    return replace(a_view(row.segments), state=ROW, segments=row.segments, brokers=brokers)


def asked_for(row: PartitionState, topic: list[Event]) -> Merge:
    step = next_step(a_look(row, topic))
    assert isinstance(step, Merge)
    return step


def ids(segments: tuple[Segment, ...]) -> list[str]:
    return [segment.segment_id for segment in segments]


def committed(row: PartitionState, plan: Compact, new: Segment) -> PartitionState:
    """The row after the merge wrote one segment."""
    proposal = proposal_after(row, plan, new)
    after = applied(proposal, row)
    assert not violations(row, after)
    return after


def proposal_after(row: PartitionState, plan: Compact, new: Segment) -> CommitProposal:
    work = Round(
        index=0,
        state=row,
        plan=PartitionPlan(key=KEY, rules=RULES, choice=plan),
        now_ms=NOW_MS,
        hash_key=HASH_KEY,
        fingerprint=FINGERPRINT,
    )
    written = WrittenSegment(segment=new, staged=(), verified=VerifiedParts(), stored=())
    receipt = GroupReceipt(
        group_index=0,
        result=GroupResult.WRITTEN,
        counts=Counts(),
        bytes_read=0,
        bytes_written=new.size_bytes,
        written=(written,),
    )
    return proposal_of(work, [receipt], "commit", NOW_MS, {})


def test_a_merge_is_of_its_group_alone_and_keeps_the_cleaner_offset() -> None:
    plan = merge_plan(view_of(CLAIMED, TOPIC), asked_for(ROW, TOPIC))
    (group,) = plan.groups
    assert group.segments == (R, TAKEN)
    assert (group.is_for_brokers, group.own_start_offset, group.end_offset) == (True, 0, 29)
    assert (plan.is_merge, plan.is_partial, plan.bytes_in) == (True, True, 1600)
    assert ids(plan.beside) == [SHORTER.segment_id]
    assert "another segment beside a replacement" in plan.detail


def test_a_merge_is_committed_and_published() -> None:
    plan = merge_plan(view_of(CLAIMED, TOPIC), asked_for(ROW, TOPIC))
    new = replacement("merged", 0, 29)
    row = committed(CLAIMED, plan, new)
    assert ids(row.segments) == ids((new, W))
    assert row.retired_ids == {one.segment_id for one in (U, V, R, LATE, SHORTER)}
    assert (row.cleaner_offsets, row.strategies) == (ROW.cleaner_offsets, ROW.strategies)
    topic = [*TOPIC]
    while isinstance(step := next_step(a_look(row, topic)), Send):
        topic += step.events
    assert step == Done()
    found = [a_look(row, topic).view.find(0, offset) for offset in range(40)]
    read = ["" if one is None else one.added.segment_id for one in found]
    assert [name for name, _ in groupby(read)] == ids((new, W))


def test_an_upload_that_the_row_has_gives_what_lies_beyond() -> None:
    topic = [*whole(U, V, LATE, W), started(R)]
    plan = merge_plan(view_of(CLAIMED, topic), asked_for(CLAIMED, topic))
    assert (plan.sources, plan.beside) == ((R, TAKEN), ())


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (("m" * 21 + "A",), "neither the row of orders-3 nor brokers have"),
        ((SHORTER.segment_id,), "no neighbours"),
        ((R.segment_id, W.segment_id), "no neighbours"),
    ],
)
def test_only_neighbours_that_are_known_are_merged(wanted: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        merge_plan(view_of(CLAIMED, TOPIC), Merge(segment_ids=wanted, why="for once"))


def test_what_gives_nothing_to_the_log_may_go_with_a_merge() -> None:
    plan = merge_plan(view_of(CLAIMED, TOPIC), asked_for(ROW, TOPIC))
    assert unread_beside(plan, 0) == ""
    assert why_not_one(plan) == ""


@pytest.mark.parametrize(
    ("segment", "log_start", "is_unread"),
    [
        (a_segment(10, 29), 0, False),
        (a_segment(10, 30), 0, True),
        (a_segment(3, 29), 5, False),
        (a_segment(3, 29), 4, True),
    ],
)
def test_what_has_more_of_the_log_than_a_merge_is_named(
    segment: Segment, log_start: int, is_unread: bool
) -> None:
    plan = merge_plan(view_of(CLAIMED, TOPIC), asked_for(ROW, TOPIC))
    (group,) = plan.groups
    group = replace(group, segments=(replace(R, start_offset=5), TAKEN))
    why = unread_beside(replace(plan, groups=(group,), beside=(segment,)), log_start)
    assert (segment.segment_id in why) is is_unread


@pytest.mark.parametrize(
    ("end_offset", "size_bytes", "why"),
    [
        (OFFSET_SPAN_MAX, LOG_BYTES_MAX, ""),
        (OFFSET_SPAN_MAX + 1, 1, "are too many for one segment: an index holds at most 2 147"),
        (29, LOG_BYTES_MAX + 1, "too large to be one: a .log has at most 2 147"),
    ],
)
def test_one_segment_holds_only_so_much(end_offset: int, size_bytes: int, why: str) -> None:
    plan = merge_plan(view_of(CLAIMED, TOPIC), asked_for(ROW, TOPIC))
    (group,) = plan.groups
    large = replace(TAKEN, end_offset=end_offset, size_bytes=size_bytes - R.size_bytes)
    group = replace(group, segments=(R, large))
    found = why_not_one(replace(plan, groups=(group,)))
    assert why in found
    assert bool(found) is bool(why)
