"""The first event of a replacement, from its row."""

from __future__ import annotations

import pytest

from tests.compaction.builders import KEY
from tests.compaction.looks import NOW_MS, replacement
from tierfold.compaction.publishing.replacements import started_event


@pytest.mark.parametrize(
    ("of_records_ms", "expected_ms"), [(None, 900), (700, 700), (-1, -1), (0, 0)]
)
def test_brokers_learn_the_largest_timestamp_of_records(
    of_records_ms: int | None, expected_ms: int
) -> None:
    segment = replacement(
        "R", 0, 9, max_timestamp_ms=900, records_max_timestamp_ms=of_records_ms
    )
    assert started_event(KEY, segment, NOW_MS).max_timestamp_ms == expected_ms


def test_the_event_has_the_segments_own_start_and_all_its_bytes() -> None:
    segment = replacement("R", 4, 9, skipped_offsets=4, skipped_bytes=50, size_bytes=150)
    event = started_event(KEY, segment, NOW_MS)
    assert (event.start_offset, event.end_offset, event.size_bytes) == (0, 9, 200)
