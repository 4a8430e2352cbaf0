"""A key index stands for a clean segment: each record has the key of the sample, or none of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.builders import a_segment
from tests.compaction.estimation.samples import a_window
from tierfold.compaction.estimation.indexed import (
    INDEX_BYTES_MAX,
    INDEXES_MAX,
    indexed_window,
    segments_to_ask,
)
from tierfold.compaction.estimation.sources import Sources
from tierfold.compaction.skipping.key_index import entries_of, key_index

NOW_MS = 1_000_000


def hashes_of(keys: np.ndarray) -> np.ndarray:
    """Hashes that are far apart, with a free lowest byte."""
    return (keys.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) & ~np.uint64(255)


@given(st.sets(st.integers(0, 500), min_size=1), st.sets(st.integers(0, 500)))
def test_the_records_of_sampled_keys_have_their_hashes(old: set[int], new: set[int]) -> None:
    stored = hashes_of(np.array(sorted(old)))
    index = key_index(entries_of(stored, np.full(len(stored), 64)), 4)
    sampled = hashes_of(np.array(sorted(new), np.int64))
    found = indexed_window(
        a_segment(100, 999), index, [a_window(2000, np.zeros(len(new)), key_hash=sampled)]
    )
    assert set(found.key_hash) & set(sampled) == set(hashes_of(np.array(sorted(old & new))))
    assert len(set(found.key_hash)) == len(found.offset) == len(old)
    assert round(found.record_bytes.sum()) == found.stored_bytes == 1000
    assert found.offset.min() >= 100
    assert found.offset.max() <= 999


def test_few_segments_are_asked_and_none_with_a_passed_horizon() -> None:
    segments = [a_segment(start, start + 9, size_bytes=2**20) for start in range(0, 4000, 10)]
    sources = Sources(segments=tuple(segments), competes_from=3900)
    asked = list(segments_to_ask(sources, NOW_MS))
    assert 10 < len(asked) <= INDEXES_MAX
    assert all(segment.next_offset <= 3900 for segment, _ in asked)
    due = [a_segment(0, 9, earliest_due_ms=NOW_MS), a_segment(10, 19)]
    assert not list(segments_to_ask(Sources(segments=tuple(due), competes_from=10), NOW_MS))


def test_the_bytes_of_indexes_are_bounded() -> None:
    segments = [a_segment(start, start + 9, size_bytes=2**28) for start in range(0, 400, 10)]
    sources = Sources(segments=tuple(segments), competes_from=390)
    assert sum(most for _, most in segments_to_ask(sources, NOW_MS)) <= INDEX_BYTES_MAX


def test_no_more_records_of_an_index_are_looked_at_than_need_be() -> None:
    for count in (0, 249_999):
        stored = hashes_of(np.arange(count))
        index = key_index(entries_of(stored, np.full(count, 64)), 4)
        found = indexed_window(a_segment(0, 999_999), index, [a_window(10**6, np.arange(3))])
        assert len(found.offset) == len(found.key_hash) == count / 3
        assert round(found.record_bytes.sum()) == (1000 if count else 0)
