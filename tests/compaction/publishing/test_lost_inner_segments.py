"""Of live segments that another live one contains, a rebuild finishes the outer one alone."""

from __future__ import annotations

from tests.compaction.builders import LINEAGE, a_segment
from tests.compaction.looks import a_look, a_row, whole
from tests.compaction.lost_looks import AGAIN, U, lost, named, sent, step
from tierfold.compaction.brokers.events import SegmentAdded
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.publishing.lost_metadata import NothingLost
from tierfold.compaction.publishing.ranges import OffsetRange, ranges_found


def test_brokers_that_go_on_from_memory_still_find_what_lies_behind_an_inner_segment() -> None:
    """A leader had uploaded the last of two segments again, as a part of a larger one."""
    first, inner, behind = a_segment(0, 4), a_segment(5, 9), a_segment(13, 20)
    outer = a_segment(10, 12, segment_id=AGAIN, skipped_offsets=7, skipped_bytes=70)
    row = a_row([first, inner, outer, behind])
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
