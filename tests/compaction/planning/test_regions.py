"""The cleaner offset and open transactions decide which part of a log can be compacted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_chain, a_producer, a_view, cleaned_to
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import CleanerOffset
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.planning.regions import LastStable, Regions, last_stable_of, regions_of

CHAIN = a_chain(100, 100, 100)
NOW_MS = 2_000_000


def divided(
    view: PartitionView, last_stable: LastStable | None = None, forced: int | None = None
) -> Regions:
    regions = regions_of(view, last_stable, Rules(), NOW_MS, forced_first_dirty=forced)
    assert isinstance(regions, Regions)
    return regions


@pytest.mark.parametrize(
    ("cleaner_offsets", "log_start_offset", "first_dirty", "reset"),
    [
        # Never cleaned.
        ((), 40, 40, None),
        # Inside a segment, and at the end.
        (cleaned_to(150), 0, 150, None),
        (cleaned_to(300), 0, 300, None),
        # The newest epoch counts, even if its offset is lower.
        ((*cleaned_to(300, epoch=1), *cleaned_to(100, epoch=2)), 0, 100, None),
        # Kafka LogCleanerManager.cleanableOffsets.
        (cleaned_to(39), 40, 40, "the stored cleaner offset 39 lies below the log start 40"),
        (cleaned_to(301), 0, 0, "the stored cleaner offset 301 lies above the log end 300"),
    ],
)
def test_the_cleaner_offset_divides_the_log(
    cleaner_offsets: tuple[CleanerOffset, ...],
    log_start_offset: int,
    first_dirty: int,
    reset: str | None,
) -> None:
    regions = divided(
        a_view(CHAIN, cleaner_offsets=cleaner_offsets, log_start_offset=log_start_offset)
    )
    assert regions.cleaned == OffsetSpan(start=log_start_offset, end=first_dirty)
    assert regions.dirty == OffsetSpan(start=first_dirty, end=300)
    assert regions.reset == (reset and f"{reset}: the whole log counts as dirty")
    assert (regions.next_offset, regions.last_stable) == (300, None)


def test_a_forced_first_dirty_offset_replaces_the_stored_one() -> None:
    view = a_view(CHAIN, cleaner_offsets=cleaned_to(999))
    regions = divided(view, forced=120)
    assert (regions.first_dirty, regions.is_forced, regions.reset) == (120, True, None)
    assert [divided(view, forced=edge).first_dirty for edge in (0, 300)] == [0, 300]


def test_a_forced_first_dirty_offset_above_the_log_is_refused() -> None:
    refusal = regions_of(
        a_view(CHAIN, log_start_offset=40), None, Rules(), NOW_MS, forced_first_dirty=301
    )
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.FIRST_DIRTY_OUT_OF_RANGE
    assert "--first-dirty is 301, above the log's end 300" in refusal.detail


def test_a_forced_first_dirty_offset_below_the_log_cleans_all_of_it_again() -> None:
    assert divided(a_view(CHAIN, log_start_offset=40), forced=0).first_dirty == 40


def test_the_oldest_open_transaction_is_the_last_stable_offset() -> None:
    producers = [a_producer(1, None), a_producer(2999, 120), a_producer(7, 250)]
    assert last_stable_of(producers) == LastStable(offset=120, producer_id=2999)


def test_without_an_open_transaction_nothing_is_unstable() -> None:
    assert last_stable_of([]) is None
    assert last_stable_of([a_producer(1, None)]) is None


@pytest.mark.parametrize(
    ("start_offset", "offset", "first_uncleanable"),
    [
        *((0, *case) for case in ((299, 200), (200, 200), (199, 100), (99, 0), (0, 0))),
        # A transaction after the remote range holds nothing back, one below it everything.
        (0, 300, None),
        (500, 10, 500),
    ],
)
def test_an_open_transaction_holds_whole_segments_back(
    start_offset: int, offset: int, first_uncleanable: int | None
) -> None:
    view = a_view(a_chain(100, 100, 100, start_offset=start_offset))
    last_stable = LastStable(offset=offset, producer_id=4)
    regions = divided(view, last_stable)
    is_held = first_uncleanable is not None
    assert regions.first_uncleanable == (first_uncleanable if is_held else view.next_offset)
    assert regions.last_stable == (last_stable if is_held else None)


def test_nothing_is_dirty_when_the_hold_lies_below_the_cleaner_offset() -> None:
    regions = divided(a_view(CHAIN, cleaner_offsets=cleaned_to(150)), LastStable(offset=160))
    assert regions.first_uncleanable == 100
    assert regions.dirty == OffsetSpan(start=150, end=150)


def test_an_empty_partition_has_empty_regions() -> None:
    regions = divided(a_view((), log_start_offset=70), LastStable(offset=10))
    assert (regions.first_dirty, regions.first_uncleanable, regions.next_offset) == (70, 70, 70)


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    cleaner_offset=st.none() | st.integers(0, 60),
    opened=st.lists(st.integers(0, 60), max_size=3),
)
def test_regions_are_ordered_and_end_on_a_segment_boundary_at_or_below_every_hold(
    lengths: list[int], cleaner_offset: int | None, opened: list[int]
) -> None:
    chain = a_chain(*lengths, start_offset=5)
    vector = () if cleaner_offset is None else cleaned_to(cleaner_offset)
    last_stable = last_stable_of([a_producer(pid, at) for pid, at in enumerate(opened)])
    regions = divided(a_view(chain, cleaner_offsets=vector), last_stable)
    end = chain[-1].next_offset
    boundaries = [segment.start_offset for segment in chain] + [end]
    assert regions.log_start <= regions.first_dirty <= regions.next_offset == end
    assert regions.first_uncleanable in boundaries
    # The highest boundary that no open transaction forbids; the log's first if all do.
    allowed = [boundary for boundary in boundaries if all(boundary <= at for at in opened)]
    assert regions.first_uncleanable == max(allowed, default=5)
    assert regions.dirty.start == regions.first_dirty
    assert (regions.reset is not None) == (cleaner_offset not in {None, *range(5, end + 1)})
