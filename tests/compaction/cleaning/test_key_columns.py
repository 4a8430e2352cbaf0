"""Keys as columns: gathered, joined, ordered by part, and none of them altered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.hash_keys import HASH_KEY
from tests.compaction.keyed import (
    TRICKY,
    columns_of,
    gathered_in,
    in_windows,
    keys,
    keys_of,
    maybe_keys,
)
from tierfold.compaction.cleaning.key_columns import (
    WINDOW_PARTS_MAX,
    PartedKeys,
    joined,
    joined_windows,
    ordered_by_part,
    taken,
)
from tierfold.compaction.cleaning.key_hash import hash_key, part_of, same_key

WORDS = HASH_KEY.words


@given(st.lists(maybe_keys, max_size=30), st.integers(0, 2**32 - 40), st.binary(max_size=9))
def test_gathering_takes_the_keyed_records_in_order(
    record_keys: list[bytes | None], first_ordinal: int, gap: bytes
) -> None:
    columns = columns_of(record_keys, first_ordinal=first_ordinal, gap=gap)
    chosen = [(i, key) for i, key in enumerate(record_keys) if key is not None]
    assert keys_of(columns) == [key for _, key in chosen]
    assert columns.ordinal.tolist() == [first_ordinal + i for i, _ in chosen]
    assert len(columns) == len(chosen)


@given(keys, st.binary(max_size=20), st.binary(max_size=20))
def test_a_key_has_the_same_hash_at_every_position(key: bytes, before: bytes, after: bytes) -> None:
    alone = np.frombuffer(key + b"\x00", np.uint8)
    among = np.frombuffer(before + key + after + b"\x00", np.uint8)
    assert hash_key(alone, 0, len(key), WORDS) == hash_key(
        among, len(before), len(key), WORDS
    )


def test_similar_keys_have_different_hashes() -> None:
    hashes = columns_of(TRICKY).hash.tolist()
    assert len(set(hashes)) == len(TRICKY)


@given(keys, keys, st.binary(max_size=9))
def test_keys_are_the_same_when_their_bytes_are(a: bytes, b: bytes, before: bytes) -> None:
    length = min(len(a), len(b))
    there = np.frombuffer(a + b"\x00", np.uint8)
    here = np.frombuffer(before + b + b"\x00", np.uint8)
    assert same_key(there, 0, here, len(before), length) == (a[:length] == b[:length])


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 17])
def test_a_difference_in_any_byte_is_found(length: int) -> None:
    key = np.arange(length, dtype=np.uint8)
    for place in range(length):
        other = key.copy()
        other[place] ^= 0x80
        assert not same_key(key, 0, other, 0, length)
        assert hash_key(key, 0, length, WORDS) != hash_key(other, 0, length, WORDS)


@given(st.lists(st.lists(keys, max_size=6), max_size=4))
def test_joining_lays_the_pieces_end_to_end(pieces: list[list[bytes]]) -> None:
    columns = joined([columns_of(piece) for piece in pieces])
    assert keys_of(columns) == [key for piece in pieces for key in piece]
    assert columns.ordinal.tolist() == [i for piece in pieces for i in range(len(piece))]


def assert_same(found: PartedKeys, expected: PartedKeys) -> None:
    assert keys_of(found.columns) == keys_of(expected.columns)
    assert found.columns.hash.tolist() == expected.columns.hash.tolist()
    assert found.columns.ordinal.tolist() == expected.columns.ordinal.tolist()
    assert found.starts.tolist() == expected.starts.tolist()


@given(st.lists(maybe_keys, max_size=40), st.integers(1, 70) | st.just(WINDOW_PARTS_MAX))
def test_gathered_keys_are_in_a_stable_order_by_part(
    record_keys: list[bytes | None], parts: int
) -> None:
    expected = ordered_by_part(columns_of(record_keys), parts)
    assert_same(gathered_in(record_keys, parts), expected)


@given(st.lists(keys, max_size=40), st.integers(1, 70))
def test_ordering_by_part_is_stable_and_returns_the_starts(
    record_keys: list[bytes], parts: int
) -> None:
    columns = columns_of(record_keys)
    ordered = ordered_by_part(columns, parts)
    part = [int(part_of(hash_, parts)) for hash_ in columns.hash]
    order = sorted(range(len(record_keys)), key=lambda i: part[i])
    assert ordered.columns.ordinal.tolist() == order
    assert keys_of(ordered.columns) == [record_keys[i] for i in order]
    assert ordered.starts.tolist() == [[sum(p < edge for p in part) for edge in range(parts + 1)]]


@given(st.lists(st.lists(maybe_keys, max_size=9), max_size=5))
def test_windows_hold_no_more_starts_than_keys_where_there_are_many_parts(
    records: list[list[bytes | None]],
) -> None:
    parts = WINDOW_PARTS_MAX + 1
    windows = [gathered_in(window, parts) for window in records]
    assert all(window.starts.size == 2 for window in windows)
    expected = ordered_by_part(joined([columns_of(window) for window in records]), parts)
    assert_same(joined_windows(windows, parts), expected)


@given(st.lists(keys, max_size=40), st.integers(1, 9), st.integers(1, 70), st.data())
def test_rows_of_all_windows_come_in_a_stable_order_by_part(
    record_keys: list[bytes], window: int, parts: int, data: st.DataObject
) -> None:
    count = len(record_keys)
    columns = columns_of(record_keys)
    parted = in_windows(columns, window, parts)
    wanted = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    rows, starts = parted.rows_by_part(np.array(wanted, np.bool_)[parted.columns.ordinal])
    chosen = [i for i in range(count) if wanted[i]]
    part = {i: int(part_of(columns.hash[i], parts)) for i in chosen}
    assert parted.columns.ordinal[rows].tolist() == sorted(chosen, key=part.__getitem__)
    assert starts.tolist() == [sum(p < edge for p in part.values()) for edge in range(parts + 1)]


@given(st.lists(keys, min_size=1, max_size=20), st.data())
def test_taking_rows_takes_their_keys_along(record_keys: list[bytes], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(record_keys) - 1)))
    columns = columns_of(record_keys)
    chosen = taken(columns, np.array(rows, np.int64), columns.key_at)
    assert keys_of(chosen) == [record_keys[row] for row in rows]
    assert chosen.ordinal.tolist() == rows


@pytest.mark.parametrize("parts", [1, 2, 64, 65, 448])
def test_every_hash_falls_into_one_of_the_parts(parts: int) -> None:
    edges = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    placed = [int(part_of(np.uint64(hash_), parts)) for hash_ in edges]
    assert placed == sorted(placed)
    assert placed[0] == 0
    assert placed[-1] == parts - 1
