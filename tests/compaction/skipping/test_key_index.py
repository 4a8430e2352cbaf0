"""The key index finds the records of some keys, and sums their sizes."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.skipping.key_index import (
    REST_BYTES_MAX,
    SHARE_MAX,
    KeyIndex,
    Matches,
    entries_of,
    key_index,
    rest_bytes_for,
)

NO_MATCHES = Matches(keys=0, records=0, record_bytes=0)
rest_bytes = st.integers(1, REST_BYTES_MAX)
# Few hashes, so that keys repeat, and hashes that differ only in some of their bits.
hashes = (
    st.integers(0, 20).map(lambda i: (i * 0x9E3779B97F4A7C15) % 2**64 & ~0xFF)
    | st.integers(0, 2**56 - 1).map(lambda high: high << 8)
    | st.builds(lambda at: 1 << at, st.integers(8, 63))
    | st.just(2**64 - 256)
)
records = st.lists(st.tuples(hashes, st.integers(1, 2**31 - 1)), max_size=40)


def index_of(found: list[tuple[int, int]], rest: int) -> KeyIndex:
    entries = entries_of(
        np.array([one for one, _ in found], np.uint64),
        np.array([size for _, size in found], np.int64),
    )
    return key_index(entries, rest)


def stored_bits(found: list[tuple[int, int]], rest: int) -> int:
    """How many bits of a hash such an index has: about one slice per record, and the rest."""
    return min(max(1, len(found)).bit_length(), 24) + 8 * rest


@given(records, rest_bytes, st.lists(hashes, max_size=20), st.integers(0, 255), st.data())
def test_it_matches_what_a_dictionary_matches(
    found: list[tuple[int, int]], rest: int, foreign: list[int], low: int, data: st.DataObject
) -> None:
    own = [one for one, _ in found]
    asked = foreign + (data.draw(st.lists(st.sampled_from(own), max_size=20)) if own else [])
    cut = 64 - stored_bits(found, rest)
    sizes: dict[int, list[int]] = defaultdict(list)
    for one, size in found:
        sizes[one >> cut].append(size)
    wanted = {one >> cut for one in asked} & sizes.keys()
    expected_bytes = sum(sum(sizes[one]) for one in wanted)
    # The lowest byte of what is asked for is ignored.
    saved = index_of(found, rest).matches(np.array([one | low for one in asked], np.uint64))
    assert saved.keys == len(wanted)
    assert saved.records == sum(len(sizes[one]) for one in wanted)
    assert saved.record_bytes == pytest.approx(expected_bytes, rel=0.045, abs=1)


@given(records.filter(bool), rest_bytes)
def test_it_finds_each_of_its_records(found: list[tuple[int, int]], rest: int) -> None:
    saved = index_of(found, rest).matches(np.array([one for one, _ in found], np.uint64))
    assert saved.records == len(found)


@given(st.integers(1, 2**31 - 1))
def test_a_size_is_at_most_4_5_percent_off(size: int) -> None:
    index = index_of([(256, size)], 1)
    stored = float(np.exp2(index.sizes[0] / 8))
    assert abs(stored - size) <= 0.045 * size


@pytest.mark.parametrize("size", [0, 1])
def test_the_smallest_record_has_one_byte(size: int) -> None:
    assert index_of([(256, size)], 1).matches(np.array([256], np.uint64)).record_bytes == 1


@pytest.mark.parametrize("rest", range(1, REST_BYTES_MAX + 1))
def test_without_records_it_finds_nothing(rest: int) -> None:
    index = index_of([], rest)
    assert index.matches(np.array([0, 2**64 - 1], np.uint64)) == NO_MATCHES
    assert (index.rests.shape, index.sizes.shape, int(index.counts.sum())) == ((0, rest), (0,), 0)


def test_asked_for_nothing_it_finds_nothing() -> None:
    assert index_of([(256, 7)], 2).matches(np.empty(0, np.uint64)) == NO_MATCHES


@pytest.mark.parametrize("rest", range(1, REST_BYTES_MAX + 1))
def test_one_byte_more_per_record_finds_a_foreign_key_256_times_less_often(rest: int) -> None:
    every = np.random.default_rng(5).integers(0, 2**56, 400_000, np.uint64) << np.uint64(8)
    own, foreign = every[:4096], every[4096:]
    index = key_index(entries_of(own, np.ones(len(own), np.int64)), rest)
    expected = len(foreign) * len(own) / 2 ** (12 + 8 * rest)
    assert index.matches(foreign).keys <= 1.3 * expected + 3


@pytest.mark.parametrize(
    ("segment_bytes", "count", "filter_bytes", "expected"),
    [
        (100_000, 1000, 0, 1),  # 2 000 bytes: 2 per record, less 0.5
        (125_000, 1000, 0, 2),
        (175_000, 1000, 0, 3),
        (225_000, 1000, 0, 4),
        (224_999, 1000, 0, 3),
        (10**9, 1000, 0, 4),
        (225_000, 1000, 1000, 3),
        (1000, 1000, 1000, 1),
        (0, 0, 8, 1),
        (10**9, 0, 8, 4),
    ],
)
def test_as_many_bytes_follow_the_slice_as_the_share_allows(
    segment_bytes: int, count: int, filter_bytes: int, expected: int
) -> None:
    assert rest_bytes_for(segment_bytes, count, filter_bytes) == expected


@given(st.integers(0, 2**31), st.integers(1, 10**7), st.integers(0, 10**7))
def test_more_than_one_byte_keeps_within_the_share(
    segment_bytes: int, count: int, filter_bytes: int
) -> None:
    rest = rest_bytes_for(segment_bytes, count, filter_bytes)
    assert 1 <= rest <= REST_BYTES_MAX
    if rest > 1:
        assert filter_bytes + count * (rest + 0.5) <= SHARE_MAX * segment_bytes
