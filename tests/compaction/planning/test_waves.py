"""The limit of a wave: what fits into it, and how it follows the time that waves take."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.planning.waves import GROWTH_MAX, WAVE_MS, WaveLimit

LIMIT = WaveLimit(partitions=8, work=1000)


@given(st.lists(st.integers(0, 700), min_size=1, max_size=20))
def test_a_wave_takes_the_most_first_partitions_that_fit_and_at_least_one(works: list[int]) -> None:
    totals = list(accumulate(works))
    fit = [n for n in range(1, len(works) + 1) if n <= 8 and totals[n - 1] <= 1000]
    assert LIMIT.fitting(works) == max(fit, default=1)


def test_a_partition_that_is_larger_than_the_limit_is_taken_alone() -> None:
    assert LIMIT.fitting([5000, 1]) == 1
    assert LIMIT.share(1, 5000) == 5


@pytest.mark.parametrize(
    ("share", "took_ms", "left_ms", "expected"),
    [
        (1, 30_000, None, (8, 1000)),
        (1, 60_000, None, (4, 500)),
        (1, 15_000, None, (16, 2000)),
        (1, 1, None, (32, 4000)),
        # Half of it took as long as a wave should take.
        (0.5, 30_000, None, (4, 500)),
        # A partition five times as large as the limit says what the limit would have taken.
        (5, 30_000, None, (32, 4000)),
        (1, 30_000, 3_000, (1, 100)),
        (1, 30_000, 3_600_000, (8, 1000)),
        (1, 10**9, None, (1, 1)),
        (1, 30_000, -5, (1, 1)),
        (0, 30_000, None, (32, 4000)),
    ],
)
def test_the_next_wave_takes_half_a_minute_or_what_is_left(
    share: float, took_ms: int, left_ms: int | None, expected: tuple[int, int]
) -> None:
    after = LIMIT.next(share=share, took_ms=took_ms, left_ms=left_ms)
    assert (after.partitions, after.work) == expected


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_waves_of_equal_work_settle_at_half_a_minute(per_partition_us: int, first: int) -> None:
    limit = WaveLimit(partitions=first, work=first)
    for _ in range(20):
        took_ms = limit.partitions * per_partition_us // 1000
        grown = limit.next(share=1, took_ms=took_ms, left_ms=None)
        assert grown.partitions <= GROWTH_MAX * limit.partitions
        limit = grown
    took_ms = limit.partitions * per_partition_us // 1000
    assert took_ms <= WAVE_MS
    assert limit.partitions == 1 or took_ms >= WAVE_MS * 0.9 or per_partition_us < 100
