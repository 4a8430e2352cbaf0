"""A rebuild has an order also beside what leaders have uploaded again since the loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tests.compaction.builders import a_segment, epochs
from tests.compaction.looks import a_look, a_row, own, replacement, whole
from tests.compaction.lost_looks import AGAIN, ROW, TWIN, R, W, lost, named, sent, step
from tierfold.compaction.brokers.events import Event, SegmentUpdated
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState
from tierfold.compaction.publishing.event_check import (
    Checked,
    EventRule,
    ForbiddenEvent,
    checked,
)
from tierfold.compaction.publishing.lost_metadata import NothingLost
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.ranges import OffsetRange, ranges_found
from tierfold.compaction.publishing.steps import Done, RefusalCode, Refused, Retire, Send

TWO_EPOCHS = epochs((0, 0), (1, 7))
EARLIER = a_segment(0, 9, leader_epochs=TWO_EPOCHS)
"""Uploaded before the loss."""
LATER = a_segment(
    10, 14, segment_id=AGAIN, skipped_offsets=3, skipped_bytes=30, leader_epochs=epochs((1, 7))
)
"""Uploaded since by another leader: it begins at offset 7, as the other one does in epoch 1."""
BEHIND = a_segment(15, 20, leader_epochs=epochs((1, 15)))
ALIKE = a_row([EARLIER, LATER, BEHIND], lineage=TWO_EPOCHS)
SINCE = whole(replace(LATER, start_offset=7, skipped_offsets=0, skipped_bytes=0), BEHIND)

UNLISTED = whole(a_segment(0, 34, segment_id=AGAIN))
"""Brokers have uploaded it since, and the listing does not show it."""


def found(
    row: PartitionState, events: Sequence[Event], lineage: tuple[LeaderEpoch, ...]
) -> tuple[OffsetRange, ...]:
    """What look-ups find of a row's offsets after these events."""
    look = a_look(row, events, lineage=lineage)
    bounds = OffsetRange(0, row.next_offset - 1)
    return ranges_found(PartitionFold.resumed(look.view), lineage, bounds)


def finished_ids(events: Iterable[Event]) -> list[str]:
    return [one.segment_id for one in events if isinstance(one, SegmentUpdated)]


def test_of_two_that_begin_alike_the_later_one_is_finished_again_in_the_same_batch() -> None:
    events = [*SINCE, *named(lost(ALIKE, SINCE, lineage=TWO_EPOCHS)).events]
    look = lost(ALIKE, events, lineage=TWO_EPOCHS)
    ends = named(look)
    assert finished_ids(ends.events) == [EARLIER.segment_id, AGAIN]
    assert ends.events_left == 2
    assert isinstance(checked(look, ends.events), Checked)
    events += ends.events
    assert step(lost(ALIKE, events, lineage=TWO_EPOCHS)) == NothingLost()
    assert found(ALIKE, events, TWO_EPOCHS) == (OffsetRange(0, 20),)


def test_what_is_finished_again_keeps_what_its_plugin_noted() -> None:
    noted = [SINCE[0], SINCE[1]._replace(custom_metadata=b"plugin"), *SINCE[2:]]
    events = [*noted, *named(lost(ALIKE, noted, lineage=TWO_EPOCHS)).events]
    look = lost(ALIKE, events, lineage=TWO_EPOCHS)
    *_, again = named(look).events
    assert again.custom_metadata == b"plugin"


def test_the_check_forbids_a_batch_that_ends_while_offsets_are_hidden() -> None:
    events = [*SINCE, *named(lost(ALIKE, SINCE, lineage=TWO_EPOCHS)).events]
    look = lost(ALIKE, events, lineage=TWO_EPOCHS)
    earlier, later = named(look).events
    for batch in ((earlier,), (later, earlier)):
        forbidden = checked(look, batch)
        assert isinstance(forbidden, ForbiddenEvent)
        assert forbidden.rule is EventRule.FOUND
        assert "offsets 10 to 14" in forbidden.why


def test_of_two_that_begin_alike_the_later_one_is_last_also_beside_a_restore() -> None:
    """What a restore brings back is finished from the end, as far as that hides nothing."""
    back = replacement("back", 21, 29, segment_id=own("back", is_restored=True))
    back = replace(back, leader_epochs=epochs((1, 21)))
    old = replacement("old", 21, 29, leader_epochs=epochs((1, 21)))
    row = a_row([EARLIER, LATER, BEHIND, back], [old], lineage=TWO_EPOCHS)
    ids = finished_ids(sent(row, lineage=TWO_EPOCHS))
    assert ids.index(EARLIER.segment_id) < ids.index(AGAIN)


def test_what_is_finished_again_must_not_hide_what_stays_hidden() -> None:
    """Another upload reaches further, begins where R does, and is not whole in the listing."""
    w = a_segment(20, 29, skipped_offsets=5, skipped_bytes=50)
    since = [*whole(a_segment(15, 29, segment_id=w.segment_id)), *UNLISTED]
    refused = step(lost(a_row([R, w]), since))
    assert isinstance(refused, Refused)
    assert refused.code is RefusalCode.NO_ORDER


def test_what_an_upload_hides_of_what_is_named_again_compact_mends() -> None:
    """A leader has uploaded a part of R since, and another one far beyond."""
    since = whole(a_segment(5, 10, segment_id=AGAIN), a_segment(40, 50, segment_id=TWIN))
    events = list(since)
    while not isinstance(decision := step(look := lost(events=events)), NothingLost):
        assert isinstance(checked(look, named(look).events), Checked), decision
        events += named(look).events
    whole_log = (OffsetRange(0, 29),)
    assert found(ROW, events, look.lineage) == (OffsetRange(0, 10), OffsetRange(20, 29))
    retire = next_step(a_look(ROW, events))
    assert isinstance(retire, Retire)
    assert retire.segment_ids == (AGAIN,)
    row = a_row([R, W], [a_segment(5, 10, segment_id=AGAIN)])
    row = replace(row, retired=(*ROW.retired, *row.retired))
    while isinstance(following := next_step(a_look(row, events)), Send):
        events += following.events
    assert following == Done()
    assert found(row, events, look.lineage) == whole_log


def test_a_refusal_names_what_is_not_whole_and_once_it_is_whole_a_rebuild_goes_on() -> None:
    """It reaches further than all that is live, and the listing did not show it."""
    since = list(UNLISTED)
    refused = step(lost(events=since))
    assert isinstance(refused, Refused)
    assert refused.code is RefusalCode.NO_ORDER
    assert "offsets 30 to 34" in refused.why
    assert AGAIN in refused.why
    seen = a_segment(30, 34, segment_id=AGAIN, skipped_offsets=30, skipped_bytes=300)
    row = replace(ROW, segments=(*ROW.segments, seen))
    events = [*since, *named(lost(row, since)).events]
    assert step(lost(row, events)) == NothingLost()
    assert found(row, events, row.lineage) == (OffsetRange(0, 34),)
