"""Groups of neighbouring segments respect the size, index and offset limits, as in Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_chain, a_segment
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import OFFSET_SPAN_MAX
from tierfold.compaction.planning.grouping import grouped


def starts(segments: Sequence[Segment], **limits: int) -> list[list[int]]:
    groups = grouped(segments, Rules(**limits))
    return [[segment.start_offset for segment in group.segments] for group in groups]


CHAIN = a_chain(10, 10, 10, 10, 10)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        # Kafka CleanerTest.testSegmentGrouping: very large values, a single group.
        ({}, [[0, 10, 20, 30, 40]]),
        # The same: very small values, groups of one.
        ({"segment_bytes": 1}, [[0], [10], [20], [30], [40]]),
        ({"segment_index_bytes": 1}, [[0], [10], [20], [30], [40]]),
        # The limit itself is allowed; 1000 bytes of log, 8 and 12 of indexes each.
        ({"segment_bytes": 2000}, [[0, 10], [20, 30], [40]]),
        ({"segment_bytes": 1999}, [[0], [10], [20], [30], [40]]),
        ({"segment_index_bytes": 24}, [[0, 10], [20, 30], [40]]),
        ({"segment_index_bytes": 23}, [[0], [10], [20], [30], [40]]),
    ],
)
def test_groups_keep_every_limit(limits: dict[str, int], expected: list[list[int]]) -> None:
    assert starts(CHAIN, **limits) == expected


def test_each_index_is_summed_separately() -> None:
    # Kafka: indexSize and timeIndexSize are two sums, each against segment.index.bytes.
    for field in ("offset_index_bytes", "time_index_bytes"):
        chain = a_chain(10, 10, 10, **{field: 50})
        assert starts(chain, segment_index_bytes=100) == [[0, 10], [20]]


def test_the_offset_span_fits_31_bits() -> None:
    # Kafka CleanerTest.testSegmentGroupingWithSparseOffsets.
    first = a_segment(0, 99)
    at_limit = a_segment(100, OFFSET_SPAN_MAX)
    beyond = a_segment(100, OFFSET_SPAN_MAX + 1)
    assert starts([first, at_limit]) == [[0, 100]]
    assert starts([first, beyond]) == [[0], [100]]


def test_the_span_counts_from_the_groups_first_segment() -> None:
    start = OFFSET_SPAN_MAX - 5
    chain = [a_segment(0, start - 1), a_segment(start, start + 99), a_segment(start + 100, 2**32)]
    assert starts(chain) == [[0], [start], [start + 100]]


def test_no_segments_make_no_group() -> None:
    assert grouped([], Rules()) == ()


def test_a_group_knows_its_offsets_and_bytes() -> None:
    group, *_ = grouped(CHAIN[1:3], Rules())
    assert (group.start_offset, group.end_offset, group.size_bytes) == (10, 29, 2000)


@st.composite
def chains(draw: st.DrawFn) -> list[Segment]:
    """Contiguous segments of every size, some long enough to break the 31 bits."""
    parts = st.tuples(
        st.integers(1, 9) | st.integers(2**29, 2**31),
        st.integers(1, 20),
        st.integers(0, 6),
        st.integers(0, 6),
    )
    chain: list[Segment] = []
    start = 0
    for length, log_bytes, offset_index_bytes, time_index_bytes in draw(st.lists(parts)):
        chain.append(
            a_segment(
                start,
                start + length - 1,
                size_bytes=log_bytes,
                offset_index_bytes=offset_index_bytes,
                time_index_bytes=time_index_bytes,
            )
        )
        start += length
    return chain


def fits(segments: Sequence[Segment], rules: Rules) -> bool:
    """The model: the four limits, as in SEMANTICS 7."""
    return (
        sum(segment.size_bytes for segment in segments) <= rules.segment_bytes
        and sum(segment.offset_index_bytes for segment in segments) <= rules.segment_index_bytes
        and sum(segment.time_index_bytes for segment in segments) <= rules.segment_index_bytes
        and segments[-1].end_offset - segments[0].start_offset <= 2**31 - 1
    )


@given(chains(), st.integers(1, 40), st.integers(1, 12))
def test_groups_are_neighbours_within_the_limits_and_as_long_as_possible(
    chain: list[Segment], segment_bytes: int, segment_index_bytes: int
) -> None:
    rules = Rules(segment_bytes=segment_bytes, segment_index_bytes=segment_index_bytes)
    groups = grouped(chain, rules)
    assert [segment for group in groups for segment in group.segments] == chain
    assert all(len(group.segments) == 1 or fits(group.segments, rules) for group in groups)
    for group, following in pairwise(groups):
        assert not fits((*group.segments, following.segments[0]), rules)
