"""Which windows of a partition a canary reads, and which segments it compares with."""

from __future__ import annotations

from typing import Final

import pytest

from tests.compaction.builders import a_chain, a_segment, a_state, retired
from tierfold.compaction.model.origins import Compacted, Copied
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.verification.canary import (
    OFFSETS_BEFORE,
    WINDOW_RECORDS,
    CanaryMode,
    CanaryWindow,
    canary_windows,
    latest_sources,
    may_show_stale,
    replaced_segments,
    sources_of,
    window_around,
)

UPLOADS: Final = a_chain(1000, 1000, 1000, 1000)
OURS: Final = a_segment(1000, 2999, segment_id="ours", origin=Compacted("earlier"))
ROW: Final = a_state(
    (UPLOADS[0], OURS, UPLOADS[3]), retired=(retired(UPLOADS[1]), retired(UPLOADS[2]))
)
"""The two in the middle were replaced by one."""


def starts(log_start: int = 0) -> list[int]:
    found = canary_windows(ROW, log_start, CanaryMode.BORDERS)
    assert {(one.span.end, one.records_max) for one in found} <= {(4000, WINDOW_RECORDS)}
    return [one.span.start for one in found]


def test_windows_are_at_the_start_around_each_border_and_at_the_end() -> None:
    assert (OFFSETS_BEFORE, WINDOW_RECORDS) == (32, 64)
    assert starts() == [0, 968, 2968, 3936]


def test_no_window_begins_below_the_log_start_or_twice() -> None:
    assert starts(980) == [980, 2968, 3936]
    assert starts(3950) == [3950]
    assert starts(3999) == [3999]
    assert starts(4000) == []
    assert starts(5000) == []


def test_no_window_begins_below_the_first_segment() -> None:
    row = a_state(a_chain(100, start_offset=50))
    (first, last) = canary_windows(row, 0, CanaryMode.BORDERS)
    assert (first.span.start, last.span.start) == (50, 86)


def test_all_is_one_window_without_a_limit() -> None:
    for log_start in (0, 1500):
        span = OffsetSpan(start=log_start, end=4000)
        assert canary_windows(ROW, log_start, CanaryMode.ALL) == (
            CanaryWindow(span=span, records_max=None),
        )
    assert canary_windows(ROW, 4000, CanaryMode.ALL) == ()


def test_off_has_no_windows_to_ask_for() -> None:
    with pytest.raises(ValueError, match="nothing to read"):
        canary_windows(ROW, 0, CanaryMode.OFF)


def test_a_row_without_segments_has_no_windows() -> None:
    assert canary_windows(a_state(()), 0, CanaryMode.BORDERS) == ()


def test_the_window_around_an_offset_begins_a_little_below_it() -> None:
    assert window_around(ROW, 0, 1500) == CanaryWindow(
        span=OffsetSpan(start=1468, end=4000), records_max=WINDOW_RECORDS
    )
    assert window_around(ROW, 1490, 1500).span.start == 1490


def test_only_what_a_run_wrote_over_retired_segments_was_replaced() -> None:
    assert replaced_segments(ROW) == (OURS,)
    long_ago = a_state((UPLOADS[0], OURS, UPLOADS[3]))
    assert replaced_segments(long_ago) == ()
    # Retired ones that end and begin at its borders overlap nothing.
    beside = a_state((OURS,), retired=(retired(UPLOADS[0]), retired(UPLOADS[3])))
    assert replaced_segments(beside) == ()
    uploaded = a_state(UPLOADS, retired=(retired(a_segment(1000, 1500, segment_id="x")),))
    assert replaced_segments(uploaded) == ()
    copy = UPLOADS[1].copied("copy", "restoring")
    assert isinstance(copy.origin, Copied)
    restored = a_state((UPLOADS[0], copy), retired=(retired(OURS, retired_by_run="restoring"),))
    assert replaced_segments(restored) == (copy,)


def test_sources_are_what_a_run_retired_for_what_it_wrote_there() -> None:
    entries = (
        retired(UPLOADS[1]),
        retired(UPLOADS[2], retired_by_run="forgetting"),
        retired(a_segment(2000, 2999, segment_id="gone"), deletion_started_at_ms=7),
        retired(a_segment(500, 1500, segment_id="before")),
        retired(a_segment(3000, 3100, segment_id="behind")),
    )
    row = a_state((UPLOADS[0], OURS, UPLOADS[3]), retired=entries)
    assert [one.segment.segment_id for one in sources_of(row)] == [
        UPLOADS[1].segment_id,
        "before",
    ]
    assert latest_sources(row, OURS) == (UPLOADS[1], entries[3].segment)


def test_sources_of_sources_count_but_are_not_the_latest() -> None:
    again = a_segment(1000, 2999, segment_id="again", origin=Compacted("later"))
    row = a_state(
        (UPLOADS[0], again, UPLOADS[3]),
        retired=(retired(UPLOADS[1]), retired(UPLOADS[2]), retired(OURS, retired_by_run="later")),
    )
    assert [one.segment for one in sources_of(row)] == [UPLOADS[1], UPLOADS[2], OURS]
    assert latest_sources(row, again) == (OURS,)


@pytest.mark.parametrize(
    ("log_start", "below", "expected"),
    [
        pytest.param(0, 1000, False, id="brokers may have all of it locally"),
        pytest.param(0, 1001, True, id="not its first offset"),
        pytest.param(2999, 4000, True, id="the last offset is in the log"),
        pytest.param(3000, 4000, False, id="the log start has passed it"),
        pytest.param(1500, 1500, False, id="what is left may be local"),
    ],
)
def test_a_dropped_record_can_be_stale_only_within_a_source(
    log_start: int, below: int, *, expected: bool
) -> None:
    assert may_show_stale(ROW, log_start, below) is expected
    assert not may_show_stale(a_state(UPLOADS), log_start, below)
