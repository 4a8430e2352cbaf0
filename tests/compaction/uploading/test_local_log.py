"""What a broker's log directory has of a partition, beyond a tier."""

from __future__ import annotations

import pytest

from tierfold.compaction.uploading.local_log import bytes_from

SIZES = {20: 300, 0: 1, 10: 20, 30: 4000}
"""Of segments of ten offsets; the last one is active."""


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, 4321), (9, 4321), (10, 4320), (19, 4320), (20, 4300), (30, 4000), (99, 4000)],
)
def test_a_segment_counts_that_has_an_offset_from_there_on(offset: int, expected: int) -> None:
    assert bytes_from(SIZES, offset) == expected


def test_a_log_without_segments_has_no_bytes() -> None:
    assert bytes_from({}, 5) == 0
