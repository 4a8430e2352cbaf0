"""The dirty ratio counts the same bytes as Kafka and must exceed its threshold."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.builders import a_chain, a_segment, a_state, a_view, cleaned_to
from tierfold.compaction.discovery.facts import from_log_start
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.kept_sums import KeptSums, clean_bytes
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.planning.eligibility import DirtyRatio, dirty_ratio
from tierfold.compaction.planning.regions import LastStable, Regions, regions_of

NOW_MS = 2_000_000
SIZES = (1, 20, 300, 4000)


def ratio_of(
    *, cleaned: int | None = None, last_stable: int | None = None, forced: int | None = None
) -> DirtyRatio:
    """The ratio of four segments of 100 offsets, with sizes that a sum shows."""
    chain = tuple(
        a_chain(100, start_offset=place * 100, size_bytes=size)[0]
        for place, size in enumerate(SIZES)
    )
    view = a_view(chain, cleaner_offsets=() if cleaned is None else cleaned_to(cleaned))
    hold = None if last_stable is None else LastStable(offset=last_stable)
    regions = regions_of(view, hold, Rules(), NOW_MS, forced_first_dirty=forced)
    assert isinstance(regions, Regions)
    return dirty_ratio(view, regions, Rules(), NOW_MS)


@pytest.mark.parametrize(
    ("cleaned", "last_stable", "clean_bytes", "cleanable_bytes"),
    [
        # Never cleaned: all is cleanable.
        (None, None, 0, 4321),
        # Kafka LogToClean: segments below the first dirty offset are clean.
        (200, None, 21, 4300),
        # The first dirty offset inside a segment: logSegments(from, to) starts with the segment
        # that holds `from`, logSegments(-1, to) ends with it, so it counts on both sides.
        (250, None, 321, 4300),
        # All clean: calculateCleanableBytes over an empty span.
        (400, None, 4321, 0),
        # Segments that an open transaction holds back count on neither side.
        (None, 350, 0, 321),
        (100, 250, 1, 20),
        # The hold lies below the first dirty offset.
        (150, 160, 21, 0),
        (150, 20, 21, 0),
    ],
)
def test_bytes_are_counted_as_kafka_counts_them(
    cleaned: int | None, last_stable: int | None, clean_bytes: int, cleanable_bytes: int
) -> None:
    assert ratio_of(cleaned=cleaned, last_stable=last_stable) == DirtyRatio(
        clean_bytes=clean_bytes, cleanable_bytes=cleanable_bytes
    )


def test_a_forced_first_dirty_offset_counts_from_there() -> None:
    assert ratio_of(cleaned=400, forced=300) == DirtyRatio(clean_bytes=321, cleanable_bytes=4000)


def summed(view: PartitionView, regions: Regions) -> DirtyRatio:
    """The ratio by a look at every segment."""
    dirty, segments = regions.dirty, view.segments
    is_cleanable = [
        not dirty.is_empty and one.next_offset > dirty.start and one.start_offset < dirty.end
        for one in segments
    ]
    return DirtyRatio(
        clean_bytes=sum(one.size_bytes for one in segments if one.start_offset < dirty.start),
        cleanable_bytes=sum(
            one.size_bytes for one, counts in zip(segments, is_cleanable, strict=True) if counts
        ),
    )


@st.composite
def read_views(draw: st.DrawFn) -> tuple[PartitionView, Regions]:
    """A partition beside the sums that were read with its row, whatever has happened since."""
    sizes = draw(st.lists(st.integers(1, 10**6), min_size=1, max_size=8))
    chain = tuple(
        a_segment(at * 10, at * 10 + 9, size_bytes=size) for at, size in enumerate(sizes)
    )
    begin = draw(st.integers(0, len(chain) - 1))
    live = draw(st.integers(begin + 1, len(chain)))
    offsets = st.integers(0, chain[-1].next_offset)
    cleaned = draw(st.none() | offsets)
    vector = () if cleaned is None else cleaned_to(cleaned)
    row = a_state(chain[begin:live], cleaner_offsets=vector)
    kept = KeptSums(
        segments=row.segments, cleaner_offset=row.cleaner_offset, clean_bytes=clean_bytes(row)
    )
    match draw(st.sampled_from(["as read", "log start moved", "committed since"])):
        case "log start moved":
            now = from_log_start(row, brokers_have([], log_start=draw(offsets)))
        case "committed since":
            row = now = replace(row, segments=tuple(
                replace(one, size_bytes=one.size_bytes + 1) for one in row.segments
            ))
        case _:
            now = row
    view = replace(
        a_view(row.segments),
        state=row,
        segments=(*now.segments, *chain[live:]),
        log_start_offset=now.log_start_offset,
        kept=kept,
    )
    last_stable = draw(st.none() | st.builds(LastStable, offset=offsets))
    forced = draw(st.none() | st.integers(0, view.next_offset))
    regions = regions_of(view, last_stable, Rules(), NOW_MS, forced_first_dirty=forced)
    assert isinstance(regions, Regions)
    return view, regions


@given(read_views())
def test_the_sums_of_the_row_and_those_of_its_segments_are_equal(
    read: tuple[PartitionView, Regions],
) -> None:
    view, regions = read
    expected = summed(view, regions)
    assert dirty_ratio(view, regions, Rules(), NOW_MS) == expected
    assert dirty_ratio(replace(view, kept=None), regions, Rules(), NOW_MS) == expected


def test_the_sum_of_the_row_is_read() -> None:
    view = a_view(a_chain(100, 100, 100), cleaner_offsets=cleaned_to(200))
    assert view.state is not None
    kept = KeptSums(segments=view.state.segments, cleaner_offset=200, clean_bytes=5)
    regions = regions_of(view, None, Rules(), NOW_MS)
    assert isinstance(regions, Regions)
    assert dirty_ratio(replace(view, kept=kept), regions, Rules(), NOW_MS).clean_bytes == 5


@pytest.mark.parametrize(
    ("clean", "cleanable", "threshold", "exceeds"),
    [
        # Kafka LogCleanerManager.grabFilthiestCompactedLog: strictly greater.
        (50, 50, Fraction(1, 2), False),
        (49, 51, Fraction(1, 2), True),
        (9, 1, Fraction("0.1"), False),
        (8, 1, Fraction("0.1"), True),
        # Without dirty bytes the ratio never exceeds, not even 0; nor does an empty log's (0 / 0).
        (10, 0, Fraction(0), False),
        (0, 0, Fraction(0), False),
        (10, 1, Fraction(0), True),
        # 1 is never exceeded.
        (0, 10, Fraction(1), False),
        # Numbers that a double cannot distinguish.
        (10**18 + 1, 10**18, Fraction(1, 2), False),
        (10**18, 10**18 + 1, Fraction(1, 2), True),
    ],
)
def test_the_ratio_must_be_strictly_greater(
    *, clean: int, cleanable: int, threshold: Fraction, exceeds: bool
) -> None:
    ratio = DirtyRatio(clean_bytes=clean, cleanable_bytes=cleanable)
    assert ratio.exceeds(threshold) is exceeds


@pytest.mark.parametrize(("local", "exceeds"), [(0, True), (39, True), (40, False)])
def test_what_only_a_broker_has_counts_in_the_total(*, local: int, exceeds: bool) -> None:
    """KIP-1272: cleanable / (local + remote)."""
    chain = (*a_chain(100, size_bytes=30), *a_chain(100, start_offset=100, size_bytes=70))
    view = replace(a_view(chain, cleaner_offsets=cleaned_to(100)), local_bytes=local)
    regions = regions_of(view, None, Rules(), NOW_MS)
    assert isinstance(regions, Regions)
    ratio = dirty_ratio(view, regions, Rules(), NOW_MS)
    assert (ratio.clean_bytes, ratio.cleanable_bytes, ratio.local_bytes) == (30, 70, local)
    assert ratio.exceeds(Fraction(1, 2)) is exceeds
    assert ratio.precedence[1] == Fraction(70, 100 + local)


def test_the_comparison_shows_both_parts_of_the_total() -> None:
    ratio = DirtyRatio(clean_bytes=30, cleanable_bytes=70, local_bytes=100)
    assert ratio.compared_with(Fraction(1, 2)) == (
        "70 of 200 bytes (100 in the tier, 100 only on the broker) are dirty (35.0 %), not more"
        " than min.cleanable.dirty.ratio (50 %)"
    )


def test_the_must_clean_bytes_are_part_of_the_cleanable_ones() -> None:
    ratio = DirtyRatio(clean_bytes=50, cleanable_bytes=50, must_clean_bytes=25, delay_ms=1)
    assert ratio.precedence == (Fraction(1, 4), Fraction(1, 2))
    assert ratio.exceeds(Fraction(49, 100))
    assert ratio.percent == "50.0 %"


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.fractions(0, 1))
def test_cross_multiplication_equals_division(
    clean: int, cleanable: int, threshold: Fraction
) -> None:
    total = clean + cleanable
    expected = total > 0 and Fraction(cleanable, total) > threshold
    assert DirtyRatio(clean_bytes=clean, cleanable_bytes=cleanable).exceeds(threshold) == expected


def test_the_percentage_is_rounded_down() -> None:
    shown = [DirtyRatio(clean_bytes=a, cleanable_bytes=b).percent for a, b in [(2, 1), (0, 5)]]
    assert shown == ["33.3 %", "100.0 %"]
    assert DirtyRatio(clean_bytes=0, cleanable_bytes=0).percent == "0.0 %"
