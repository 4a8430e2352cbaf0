"""Which bytes of a partition are read: never more than the bound, each byte once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_segment
from tierfold.compaction.estimation.sources import Sources
from tierfold.compaction.estimation.windows import SampleBound, planned_sample

BOUND = SampleBound()
KIB = 2**10


def sources(sizes: list[int], competes_from: int = 0, **fields: int) -> Sources:
    """Segments of these bytes, 100 offsets each."""
    segments = tuple(
        a_segment(100 * number, 100 * number + 99, size_bytes=size_bytes, **fields)
        for number, size_bytes in enumerate(sizes)
    )
    return Sources(segments=segments, competes_from=competes_from)


@given(
    st.lists(st.integers(1, 3_000_000), min_size=1, max_size=300),
    st.integers(0, 40_000),
    st.sampled_from([1, 4096, 2**20]),
    st.integers(0, 4000),
)
def test_windows_are_disjoint_and_bounded(
    sizes: list[int], competes_from: int, unit_bytes: int, skipped_bytes: int
) -> None:
    found = sources(sizes, competes_from, skipped_bytes=skipped_bytes)
    planned = planned_sample(found, BOUND, unit_bytes)
    assert 0 < len(planned.windows) <= BOUND.windows
    total = sum(window.size_bytes for window in planned.windows)
    assert total <= max(BOUND.size_bytes, 8 * unit_bytes)
    order = [segment.segment_id for segment in found.segments]
    before: dict[str, int] = {}
    for window in planned.windows:
        name = window.segment.segment_id
        assert window.start >= before.get(name, window.segment.skipped_bytes)
        assert window.start + window.size_bytes <= window.segment.log_bytes
        before[name] = window.start + window.size_bytes
    places = [order.index(window.segment.segment_id) for window in planned.windows]
    assert places == sorted(places)
    assert planned.has_all == (total == found.size_bytes)


def test_a_thousand_segments_are_sampled_in_128_windows() -> None:
    planned = planned_sample(sources([2**30] * 1000, offset_index_bytes=2**21))
    assert len(planned.windows) == 128
    assert sum(window.size_bytes for window in planned.windows) == 8 * 2**20
    assert len({window.segment.segment_id for window in planned.windows}) > 100


def test_larger_batches_make_fewer_and_larger_windows() -> None:
    entries = 8 * (2**30 // 100_000)
    planned = planned_sample(sources([2**30], offset_index_bytes=entries))
    sizes = {window.size_bytes for window in planned.windows}
    assert len(planned.windows) == 13
    assert min(sizes) > 590_000


def test_half_of_the_windows_are_for_the_part_that_supersedes() -> None:
    planned = planned_sample(sources([2**26] * 100, 9900, offset_index_bytes=2**17))
    dirty = [one for one in planned.windows if one.segment.start_offset == 9900]
    assert len(dirty) == 64
    assert not planned.has_all_dirty
    small = planned_sample(sources([2**26] * 99 + [2**20], 9900, offset_index_bytes=2**17))
    assert small.has_all_dirty
    assert not small.has_all


def test_the_same_partition_is_read_at_the_same_places() -> None:
    found = sources([2**28] * 3, offset_index_bytes=2**19)
    assert planned_sample(found) == planned_sample(found)


def test_a_part_that_is_known_from_key_indexes_is_not_read() -> None:
    found = sources([2**26] * 100, 9900, offset_index_bytes=2**17)
    planned = planned_sample(found, knows_clean=True)
    assert {one.segment.start_offset for one in planned.windows} == {9900}
    assert len(planned.windows) == 128
    assert not planned.has_all
    small = planned_sample(sources([2**26] * 2 + [2**10], 200), knows_clean=True)
    assert small.has_all_dirty
    assert not small.has_all


def test_a_part_alone_gets_all_windows() -> None:
    for competes_from in (0, 10_000):
        planned = planned_sample(sources([2**26] * 100, competes_from, offset_index_bytes=2**17))
        assert len(planned.windows) == 128


def test_segments_with_empty_indexes_are_read() -> None:
    assert len(planned_sample(sources([2**30], offset_index_bytes=0)).windows) == 128


def test_many_small_segments_take_no_more_windows() -> None:
    for sizes in ([1000] * 200, [100_000, *[10] * 200]):
        planned = planned_sample(sources(sizes))
        assert 0 < len(planned.windows) <= BOUND.windows
        assert not planned.has_all
        assert min(window.size_bytes for window in planned.windows) > 0
        starts = [(window.segment.start_offset, window.start) for window in planned.windows]
        assert starts == sorted(set(starts))


def test_windows_are_not_evenly_spaced() -> None:
    planned = planned_sample(sources([2**30], offset_index_bytes=2**21))
    starts = [window.start for window in planned.windows]
    assert len({after - before for before, after in pairwise(starts)}) > 100
