"""Until when brokers can have local copies, segment by segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.broker_events import FINISHED, added, updated, uploaded
from tests.compaction.builders import CLUSTER, a_chain, a_state, segment_id
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.topic_retention import LOCAL_SLACK_MS
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.serving import LocalRange
from tierfold.compaction.planning.local_copies import gone_before, joined_past, local_ranges

AT_MS: Final = 10**9
HOUR_MS: Final = 3_600_000
"""The slack, and what brokers keep."""
TIMES_MS: Final = (5_000, 9_000, 7_000, 20_000)
"""The largest timestamps of the segments."""


def with_times(times_ms: Sequence[int] = TIMES_MS) -> tuple[Segment, ...]:
    chain = a_chain(*[10] * len(times_ms))
    return tuple(
        replace(segment, max_timestamp_ms=time_ms)
        for segment, time_ms in zip(chain, times_ms, strict=True)
    )


FOUR: Final = with_times()
IDS: Final = [segment.segment_id for segment in FOUR]


def brokers(segments: Sequence[Segment] = FOUR, local_ms: int | None = HOUR_MS) -> BrokerPartition:
    """Brokers that finished each segment a second after 1970, or a millisecond later."""
    events = [
        event
        for one in segments
        for event in uploaded(one.start_offset, one.start_offset, one.end_offset)
    ]
    return replace(brokers_have(events), local_retention_ms=local_ms)


def a_row(segments: Sequence[Segment] = FOUR, **fields: Any) -> PartitionState:
    return a_state(segments, **{"served_by": (CLUSTER,), "local_retention_ms": HOUR_MS} | fields)


def after_ms(row: PartitionState, found: BrokerPartition | None) -> list[int | None]:
    """By segment, how much later than what brokers keep, and the slack; None: unknown."""
    until_ms = {one.end_offset: one.until_ms for one in local_ranges(row, found, AT_MS)}
    times_ms = [until_ms.get(one.end_offset) for one in row.segments]
    return [None if time_ms is None else time_ms - 2 * HOUR_MS for time_ms in times_ms]


def test_an_upload_stays_as_long_as_the_next_one_and_all_below_it() -> None:
    assert LOCAL_SLACK_MS == HOUR_MS
    assert after_ms(a_row(), brokers()) == [9_000, 9_000, 20_000, 20_000]


def test_an_upload_stays_for_an_hour_after_it_was_finished() -> None:
    late = AT_MS + 50 * HOUR_MS
    found = brokers()
    segments = dict(found.view.segments)
    segments[IDS[1]] = segments[IDS[1]]._replace(since_ms=late)
    found = replace(found, view=replace(found.view, segments=segments))
    expected = late - HOUR_MS
    assert after_ms(a_row(), found) == [9_000, expected, expected, expected]


@pytest.mark.parametrize("found", [None, brokers(local_ms=None)])
def test_nothing_is_known_if_no_time_limits_local_copies(found: BrokerPartition | None) -> None:
    assert after_ms(a_row(), found) == [None] * 4


def test_an_upload_that_brokers_have_not_finished_is_unknown() -> None:
    assert after_ms(a_row(), brokers(FOUR[:1])) == [9_000, None, None, None]


def compacted(place: int) -> tuple[Segment, ...]:
    """`FOUR`, of which one is a replacement."""
    return tuple(
        replace(one, origin=Compacted("run")) if at == place else one
        for at, one in enumerate(FOUR)
    )


def noted(*until_ms: int) -> tuple[LocalRange, ...]:
    """Notes of the first segments, so much later than what brokers keep, and the slack."""
    return tuple(
        LocalRange(end_offset=one.end_offset, until_ms=2 * HOUR_MS + time_ms)
        for one, time_ms in zip(FOUR, until_ms, strict=False)
    )


def test_a_replacement_has_what_was_noted() -> None:
    row = a_row(compacted(1), local_ranges=noted(40_000, 50_000, 90_000))
    assert after_ms(row, brokers()) == [40_000, 50_000, 90_000, 90_000]


def test_what_follows_a_replacement_later_may_begin_in_the_same_local_segment() -> None:
    row = a_row(compacted(2), local_ranges=noted(9_000, 9_000, 10_000))
    alone = replace(row, segments=row.segments[:3])
    assert after_ms(alone, brokers()) == [9_000, 9_000, 10_000]
    assert after_ms(row, brokers()) == [9_000, 9_000, 20_000, 20_000]


def test_a_replacement_without_a_note_counts_as_if_its_newest_record_came_now() -> None:
    assert after_ms(a_row(compacted(1)), brokers()) == [9_000, AT_MS, AT_MS, AT_MS]


@pytest.mark.parametrize(
    ("seen_ms", "noted_ms", "upload_ms"),
    [
        pytest.param(HOUR_MS, 50_000, 20_000, id="as before"),
        pytest.param(HOUR_MS - 7, 50_007, 20_000, id="brokers keep more than before"),
        pytest.param(HOUR_MS + 7, 50_000, AT_MS - HOUR_MS, id="brokers keep less than before"),
        pytest.param(None, 50_000, AT_MS - HOUR_MS, id="never seen, or for ever until now"),
    ],
)
def test_a_changed_retention_lets_nothing_go_too_early(
    seen_ms: int | None, noted_ms: int, upload_ms: int
) -> None:
    row = a_row(local_ranges=noted(50_000, 50_000), local_retention_ms=seen_ms)
    found = after_ms(row, brokers())
    last_ms = max(noted_ms, upload_ms)
    assert found == [noted_ms, noted_ms, last_ms, last_ms]


def test_a_note_counts_only_if_it_is_known_what_followed_it() -> None:
    """A round merged the last noted segment with one of which nothing was known."""
    merged = replace(FOUR[1], end_offset=29, origin=Compacted("run"))
    row = a_row((FOUR[0], merged, FOUR[3]), local_ranges=noted(50_000, 60_000))
    assert after_ms(row, brokers()) == [50_000, AT_MS, AT_MS]
    assert [one.end_offset for one in local_ranges(row, brokers(), AT_MS)] == [9, 29, 39]


def test_past_ranges_are_joined_except_the_last() -> None:
    ranges = noted(1, 2, 3, 4)
    border_ms = ranges[2].until_ms
    assert joined_past(ranges, border_ms - 1) == (ranges[1], *ranges[2:])
    assert joined_past(ranges, border_ms) == ranges[2:]
    assert joined_past(ranges, border_ms + 9) == ranges[2:]
    assert joined_past(ranges, 0) == ranges
    assert joined_past((), 0) == ()


def test_local_copies_are_gone_before_the_first_range_that_may_have_any() -> None:
    row = a_state(a_chain(10, 10, 10, start_offset=5))
    ranges = [LocalRange(end_offset=14, until_ms=100), LocalRange(end_offset=24, until_ms=200)]
    assert [gone_before(row, ranges, now_ms) for now_ms in (99, 100, 199, 200)] == [5, 15, 15, 25]
    assert gone_before(row, (), 300) == 5


LATE_MS: Final = 3 * HOUR_MS
"""When a new leader's upload was finished: an hour later its local copies may be gone."""


def beside(start: int, end: int, max_timestamp_ms: int = 0) -> BrokerPartition:
    """Brokers that have the first two uploads, and late one that began again below their end."""
    again = added("again", start, end, max_timestamp_ms=max_timestamp_ms)
    events = [*uploaded(0, 0, 9), *uploaded(10, 10, 19), again, updated("again", FINISHED)]
    found = brokers_have(events)
    segments = dict(found.view.segments)
    segments[again.segment_id] = segments[again.segment_id]._replace(since_ms=LATE_MS)
    view = replace(found.view, segments=segments)
    return replace(found, view=view, local_retention_ms=HOUR_MS)


@pytest.mark.parametrize(
    ("start", "max_timestamp_ms", "expected"),
    [
        pytest.param(14, 0, [1, LATE_MS - HOUR_MS], id="until an hour after it was finished"),
        pytest.param(9, 0, [LATE_MS - HOUR_MS] * 2, id="from its own start on"),
        pytest.param(14, AT_MS, [1, AT_MS], id="as long as its newest record stays"),
        pytest.param(20, AT_MS, [1, 2], id="not if it begins behind"),
    ],
)
def test_what_a_new_leader_uploaded_again_is_local_for_longer(
    start: int, max_timestamp_ms: int, expected: Sequence[int]
) -> None:
    """The notes are of the uploads that a run replaced, long before."""
    replaced = tuple(replace(one, origin=Compacted("run")) for one in FOUR[:2])
    row = a_row(replaced, local_ranges=noted(1, 2))
    assert after_ms(row, beside(start, 29, max_timestamp_ms)) == expected


def test_a_live_upload_counts_from_where_its_leader_began() -> None:
    replaced = tuple(replace(one, origin=Compacted("run")) for one in FOUR[:2])
    upload = replace(
        FOUR[2], segment_id=segment_id("again"), skipped_offsets=6, max_timestamp_ms=0
    )
    row = a_row((*replaced, upload), local_ranges=noted(1, 2))
    late_ms = LATE_MS - HOUR_MS
    assert after_ms(row, beside(14, 29)) == [1, late_ms, late_ms]
    # Once that is noted, the note says it.
    seen = replace(row, local_ranges=noted(1, 2, 3))
    assert after_ms(seen, beside(14, 29)) == [1, 2, 3]
