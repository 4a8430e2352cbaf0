"""What a round means for brokers once it is published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import a_segment, a_view
from tierfold.compaction.brokers.topic_retention import FOR_EVER, Limit, TopicRetention
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.planning.outlook import outlook
from tierfold.compaction.planning.plan import Compact, propose
from tierfold.compaction.planning.regions import Regions, regions_of

RULES = Rules(cleanup_policy=frozenset({"compact"}), segment_bytes=2000)
NEWEST_MS = 1_000_000


def keeping(local_ms: int) -> TopicRetention:
    never = Limit(FOR_EVER, "topic")
    return TopicRetention(
        retention_ms=never,
        retention_bytes=never,
        local_ms=Limit(local_ms, "topic"),
        local_bytes=never,
    )


def planned(max_timestamp_ms: int = NEWEST_MS) -> Compact:
    """Five segments that become three."""
    segments = [
        a_segment(at, at + 9, max_timestamp_ms=max_timestamp_ms) for at in range(0, 50, 10)
    ]
    view = a_view(segments)
    regions = regions_of(view, None, RULES, NEWEST_MS)
    assert isinstance(regions, Regions)
    choice = propose(view, RULES, regions, NEWEST_MS)
    assert isinstance(choice, Compact)
    return choice


def test_a_swap_adds_two_records_for_each_segment() -> None:
    found = outlook(planned(), [keeping(500)])
    assert found.metadata_records == 2 * 3 + 2 * 5
    assert "adds 16 records" in found.sentences(0, "")[0]


def test_consumers_see_it_once_the_slowest_broker_has_no_local_copy() -> None:
    found = outlook(planned(), [keeping(500), keeping(900), keeping(100)])
    assert found.local_until_ms == NEWEST_MS + 900
    later, now = found.sentences(NEWEST_MS, "noon")[1], found.sentences(NEWEST_MS + 900, "")[1]
    assert "after noon" in later
    assert "at once" in now


@pytest.mark.parametrize(
    ("choice", "limits"),
    [
        (planned(), [keeping(500), keeping(FOR_EVER)]),
        (planned(), []),
        (replace(planned(max_timestamp_ms=-1)), [keeping(500)]),
    ],
)
def test_without_an_end_of_local_data_it_is_not_known(
    choice: Compact, limits: list[TopicRetention]
) -> None:
    found = outlook(choice, limits)
    assert found.local_until_ms is None
    assert "not known" in found.sentences(0, "")[1]
