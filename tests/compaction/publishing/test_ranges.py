"""Ranges of offsets, against sets of them."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.broker_events import drawn_topic, records
from tests.compaction.builders import KEY, epochs
from tierfold.compaction.brokers.event_bytes import decode, encode
from tierfold.compaction.brokers.events import NoEvent
from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.publishing.ranges import OffsetRange, joined, ranges_found, without

LINEAGE = epochs((0, 0), (1, 25), (2, 40))
RANGES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(-1, 6)).map(
        lambda drawn: OffsetRange(drawn[0], drawn[0] + drawn[1])
    ),
    max_size=6,
)


def offsets(ranges: tuple[OffsetRange, ...] | list[OffsetRange]) -> set[int]:
    """All offsets of the ranges."""
    return {offset for one in ranges for offset in range(one.first, one.last + 1)}


@given(RANGES)
def test_joined_ranges_have_the_same_offsets(ranges: list[OffsetRange]) -> None:
    found = joined(ranges)
    assert offsets(found) == offsets(ranges)
    assert all(left.last + 1 < right.first for left, right in pairwise(found))


@given(RANGES, RANGES)
def test_what_is_left(ranges: list[OffsetRange], taken: list[OffsetRange]) -> None:
    assert offsets(without(joined(ranges), joined(taken))) == offsets(ranges) - offsets(taken)


@given(st.integers(0, 2**32), st.integers(0, 70), st.integers(0, 70))
def test_ranges_are_what_look_ups_find(seed: int, first: int, last: int) -> None:
    """Against one look-up for each offset."""
    fold = MetadataFold(1)
    fold.apply(records(*(one for one in drawn_topic(Random(seed)) if one.key == KEY)))
    if KEY not in fold.partitions():
        return
    view = fold.view(KEY)
    starts = [entry.start_offset for entry in LINEAGE]
    expected = {
        offset
        for offset in range(first, last + 1)
        if view.find(sum(start <= offset for start in starts) - 1, offset) is not None
    }
    resumed = PartitionFold.resumed(view)
    assert offsets(ranges_found(resumed, LINEAGE, OffsetRange(first, last))) == expected
    assert offsets(ranges_found(resumed.copied(), LINEAGE, OffsetRange(first, last))) == expected


@given(st.integers(0, 2**32), st.integers(0, 40))
def test_a_resumed_fold_goes_on_as_the_one_that_it_is_of(seed: int, cut: int) -> None:
    drawn = (one for one in drawn_topic(Random(seed)) if one.key == KEY)
    # What brokers cannot read, the fold of a topic leaves out.
    events = [one for one in drawn if not isinstance(decode(encode(one)), NoEvent)]
    whole, part = MetadataFold(1), MetadataFold(1, [KEY])
    whole.apply(records(*events))
    part.apply(records(*events[:cut]))
    resumed = PartitionFold.resumed(part.view(KEY))
    for offset, event in enumerate(events[cut:], min(cut, len(events))):
        taken = decode(encode(event))
        if not isinstance(taken, NoEvent):
            resumed.apply(taken, 1000 + offset)
    if KEY in whole.partitions():
        view = whole.view(KEY)
        assert resumed.segments == view.segments
        assert resumed.references() == view.references
        assert resumed.unreferenced() == view.unreferenced
        assert resumed.highest_offsets() == view.highest_offsets
