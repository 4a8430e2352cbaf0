"""Of live segments that another live one contains, brokers must have the outer one alone."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import example
from hypothesis import given as drawn
from hypothesis import strategies as st

from tests.compaction.builders import LINEAGE, a_segment, epochs, segment_id
from tests.compaction.looks import (
    LONG_AGO_MS,
    NOW_MS,
    a_look,
    a_row,
    replacement,
    shown,
    started,
    whole,
)
from tests.compaction.lost_looks import AGAIN, U, lost, named, sent, step
from tierfold.compaction.brokers.events import Event, SegmentAdded
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing.lost_metadata import NothingLost
from tierfold.compaction.publishing.must_be_finished import must_be_finished
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.ranges import OffsetRange, ranges_found
from tierfold.compaction.publishing.steps import Done


def outer(*ranges: tuple[int, int]) -> list[int]:
    """The places of those that brokers must have."""
    live = {f"{place}": OffsetRange(*one) for place, one in enumerate(ranges)}
    return sorted(map(int, must_be_finished(live)))


def test_only_what_another_contains_needs_not_be_finished() -> None:
    assert outer() == []
    assert outer((0, 4), (5, 9), (10, 12)) == [0, 1, 2]
    assert outer((0, 6), (5, 9), (8, 12)) == [0, 1, 2]
    assert outer((0, 4), (5, 9), (3, 12), (13, 20)) == [0, 2, 3]
    assert outer((5, 9), (5, 12)) == [1]
    assert outer((5, 12), (7, 12)) == [0]
    assert outer((5, 9), (6, 8), (5, 12), (7, 7)) == [2]


def test_of_the_same_offsets_one_is_enough() -> None:
    assert outer((5, 9), (5, 9)) == [0]


def test_brokers_that_go_on_from_memory_still_find_what_lies_behind_an_inner_segment() -> None:
    """A leader had uploaded the last of two segments again, as a part of a larger one."""
    first, inner, behind = a_segment(0, 4), a_segment(5, 9), a_segment(13, 20)
    larger = a_segment(10, 12, segment_id=AGAIN, skipped_offsets=7, skipped_bytes=70)
    row = a_row([first, inner, larger, behind])
    uploads = whole(first, inner, a_segment(3, 12, segment_id=AGAIN), behind)
    look = a_look(row, [*uploads, *sent(row)])
    found = ranges_found(PartitionFold.resumed(look.view), LINEAGE, OffsetRange(0, 20))
    assert found == (OffsetRange(0, 20),)
    ends = [one.segment_id for one in sent(row) if not isinstance(one, SegmentAdded)]
    assert ends == [first.segment_id, AGAIN, behind.segment_id]


def test_what_brokers_uploaded_again_since_as_a_part_of_more_is_only_started() -> None:
    again = a_segment(10, 14, segment_id=AGAIN, skipped_offsets=10, skipped_bytes=100)
    row = a_row([U, again])
    topic = whole(a_segment(0, 14, segment_id=AGAIN))
    found = named(lost(row, topic))
    assert [one.segment_id for one in found.events] == [U.segment_id]
    assert found.events_left == 1
    assert step(lost(row, [*topic, *found.events])) == NothingLost()


def test_what_a_larger_upload_contains_is_finished_while_that_is_at_work() -> None:
    """Its leader may have died: look-ups must not wait for it."""
    again = a_segment(10, 14, segment_id=AGAIN, skipped_offsets=10, skipped_bytes=100)
    row = a_row([U, again])
    topic = [started(again)]
    begun = [*topic, *named(lost(row, topic)).events]
    ends = named(lost(row, begun)).events
    assert [one.segment_id for one in ends] == [U.segment_id]
    assert step(lost(row, [*begun, *ends])) == NothingLost()


def test_a_pass_over_both_drops_both() -> None:
    again = a_segment(10, 14, segment_id=AGAIN, skipped_offsets=10, skipped_bytes=100)
    events = sent(a_row([U, again]))
    assert next_step(a_look(a_row([U, again]), events)) == Done()
    r = replacement("r", 0, 14)
    swap = next_step(a_look(a_row([r], [U, again]), [*events, started(r)]))
    sends = shown(swap, r, U, again, names=["R", "U", "again"])
    assert sorted(sends) == ["DELETE_STARTED U", "DELETE_STARTED again", "FINISHED R"]


# By chance: brokers uploaded these in turn, and remember all of it, or nothing.


@drawn(
    uploads=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=6),
    borders=st.sets(st.integers(1, 20), max_size=2),
)
@example(uploads=[(0, 5), (0, 5), (7, 3), (0, 8)], borders=set())
def test_all_is_found_after_a_rebuild_from_memory_and_after_a_restart(
    uploads: list[tuple[int, int]], borders: set[int]
) -> None:
    lineage = epochs((0, 0), *enumerate(sorted(borders), 1))
    live: list[Segment] = []
    for place, (back, length) in enumerate(uploads):
        begin = live[-1].end_offset + 1 if live else 0
        skipped, end = min(back, begin), begin + length - 1
        live.append(
            a_segment(
                begin,
                end,
                segment_id=segment_id(f"n{place}"),
                skipped_offsets=skipped,
                skipped_bytes=skipped,
                leader_epochs=epochs_in(lineage, begin - skipped, end),
            )
        )
    row = a_row(live, lineage=lineage)
    again = sent(row, lineage=lineage)
    bounds = OffsetRange(0, live[-1].end_offset)
    for memory in ([], whole(*live)):
        fold = after(memory)
        for event in again:
            fold.apply(event, NOW_MS)
            if memory and not borders:
                assert ranges_found(fold, lineage, bounds) == (bounds,)
        assert ranges_found(fold, lineage, bounds) == (bounds,)


def after(events: Iterable[Event]) -> PartitionFold:
    fold = PartitionFold()
    for event in events:
        fold.apply(event, LONG_AGO_MS)
    return fold
