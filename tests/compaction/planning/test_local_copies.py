"""Until when brokers can have local copies, segment by segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.broker_events import uploaded
from tests.compaction.builders import CLUSTER, a_chain, a_state
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.serving import LocalRange
from tierfold.compaction.planning.local_copies import SLACK_MS, local_until_ms

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
    until = local_until_ms(row, found, AT_MS)
    return [
        until[one.segment_id] - 2 * HOUR_MS if one.segment_id in until else None
        for one in row.segments
    ]


def test_an_upload_stays_as_long_as_the_next_one_and_all_below_it() -> None:
    assert SLACK_MS == HOUR_MS
    assert after_ms(a_row(), brokers()) == [9_000, 9_000, 20_000, None]


def test_an_upload_stays_for_an_hour_after_it_was_finished() -> None:
    late = AT_MS + 50 * HOUR_MS
    found = brokers()
    segments = dict(found.view.segments)
    segments[IDS[1]] = segments[IDS[1]]._replace(since_ms=late)
    found = replace(found, view=replace(found.view, segments=segments))
    expected = late - HOUR_MS
    assert after_ms(a_row(), found) == [9_000, expected, expected, None]


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


def test_a_replacement_has_what_was_noted() -> None:
    note = LocalRange(segment_id=IDS[1], until_ms=2 * HOUR_MS + 50_000)
    later = LocalRange(segment_id=IDS[2], until_ms=2 * HOUR_MS + 90_000)
    row = a_row(compacted(1), local_ranges=(note, later))
    assert after_ms(row, brokers()) == [9_000, 50_000, 90_000, None]


def test_what_follows_a_replacement_later_may_begin_in_the_same_local_segment() -> None:
    note = LocalRange(segment_id=IDS[2], until_ms=2 * HOUR_MS + 10_000)
    row = a_row(compacted(2), local_ranges=(note,))
    assert after_ms(row, brokers()) == [9_000, 9_000, 20_000, None]


def test_a_replacement_without_a_note_counts_as_if_its_newest_record_came_now() -> None:
    assert after_ms(a_row(compacted(1)), brokers()) == [9_000, AT_MS, AT_MS, None]


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
    note = LocalRange(segment_id=IDS[0], until_ms=2 * HOUR_MS + 50_000)
    last = LocalRange(segment_id=IDS[1], until_ms=0)
    row = a_row(local_ranges=(note, last), local_retention_ms=seen_ms)
    found = after_ms(row, brokers())
    assert found == [noted_ms, noted_ms, max(noted_ms, upload_ms), None]
