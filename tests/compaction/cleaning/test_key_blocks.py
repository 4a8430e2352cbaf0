"""Key blocks survive the shuffle unchanged, and every key has one bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.hash_keys import HASH_KEY
from tests.compaction.keyed import block_of, columns_of, keys, keys_of
from tierfold.compaction.cleaning.key_blocks import (
    HEAD_BYTES,
    PARTS_AT_LEAST,
    blocks_of,
    head_of,
    joined_blocks,
    parts_per_bucket,
)
from tierfold.compaction.cleaning.key_columns import KeyColumns, Versions, ordered_by_part
from tierfold.compaction.cleaning.key_hash import part_of

PREFIXES = (b"", b"u", b"schema7", b"order-00", b"order-001", b"x" * 300)
"""From none to more than a word, and so long that key lengths take two bytes."""


def entries_of(columns: KeyColumns) -> list[tuple[int, bytes, int]]:
    """Ordinal, key and hash of each entry, by ordinal."""
    columns_listed = (columns.ordinal.tolist(), keys_of(columns), columns.hash.tolist())
    return sorted(zip(*columns_listed, strict=True))


@given(
    st.sampled_from(PREFIXES),
    st.lists(keys, min_size=1, max_size=20),
    st.integers(0, 2**32),
    st.integers(0, 2**32 - 21),
)
def test_a_block_survives_the_shuffle(
    prefix: bytes, endings: list[bytes], competes_from: int, first_ordinal: int
) -> None:
    columns = columns_of([prefix + end for end in endings], first_ordinal=first_ordinal)
    block = block_of(columns, competes_from)
    found = joined_blocks([block])
    assert entries_of(found.columns) == entries_of(columns)
    assert found.columns.key_bytes.dtype == np.int32  # For which the kernels are compiled.
    assert found.columns.versions is None
    assert found.competes.tolist() == [i >= competes_from for i in found.columns.ordinal.tolist()]
    assert found.edges.tolist() == [0, len(endings)]
    assert head_of(block).first_ordinal == first_ordinal


@given(st.lists(st.integers(0, 20), min_size=1, max_size=20))
def test_keys_that_begin_with_each_other_survive_the_shuffle(lengths: list[int]) -> None:
    # Behind a shorter key its neighbour's bytes follow, which are the same.
    columns = columns_of([b"a" * length for length in lengths])
    assert entries_of(joined_blocks([block_of(columns)]).columns) == entries_of(columns)


@given(
    st.lists(
        st.tuples(st.sampled_from(PREFIXES), st.lists(keys, min_size=1, max_size=5)), max_size=4
    )
)
def test_the_blocks_of_a_bucket_are_put_together_in_their_order(
    given_blocks: list[tuple[bytes, list[bytes]]],
) -> None:
    blocks = [
        (columns_of([prefix + end for end in endings], first_ordinal=10 * i), 10 * i + 2)
        for i, (prefix, endings) in enumerate(given_blocks)
    ]
    found = joined_blocks([block_of(columns, competes_from) for columns, competes_from in blocks])
    assert found.edges.tolist() == [0, *np.cumsum([len(columns) for columns, _ in blocks])]
    assert entries_of(found.columns) == [e for columns, _ in blocks for e in entries_of(columns)]
    assert found.competes.tolist() == [i % 10 >= 2 for i in found.columns.ordinal.tolist()]
    for number, (start, end) in enumerate(pairwise(found.edges.tolist())):
        assert {i // 10 for i in found.columns.ordinal[start:end].tolist()} == {number}


@given(st.lists(st.tuples(keys, st.integers(-(2**63), 2**63 - 1), st.booleans()), min_size=1))
def test_versions_survive_the_shuffle(entries: list[tuple[bytes, int, bool]]) -> None:
    versions = Versions(
        value=np.array([value for _, value, _ in entries], np.int64),
        is_known=np.array([known for _, _, known in entries], np.bool_),
    )
    columns = replace(columns_of([key for key, _, _ in entries]), versions=versions)
    found = joined_blocks([block_of(columns)] * 2).columns
    assert keys_of(found) == [entries[i][0] for i in found.ordinal]
    assert found.versions is not None
    assert sorted(found.ordinal.tolist()) == sorted([*range(len(entries))] * 2)
    known = zip(found.versions.value.tolist(), found.versions.is_known.tolist(), strict=True)
    assert list(known) == [entries[i][1:] for i in found.ordinal]


@pytest.mark.parametrize(
    ("record_keys", "stored"),
    [
        ([b"ab", b"", b"c"], 3 * (4 + 1) + 3),
        ([b"ab", b"cd", b"ef"], 3 * 4 + 1 + 3 * 2),
        ([b"user-1", b"user-22", b"user-3"], 3 * (4 + 1) + 5 + 4),
        ([b"user-12345678"] * 3, 3 * 4 + 1 + 13),
    ],
    ids=["different keys", "of one length", "that begin alike", "that are equal"],
)
def test_a_block_is_its_columns_without_what_they_have_in_common(
    record_keys: Sequence[bytes], stored: int
) -> None:
    columns = columns_of(record_keys)
    assert len(block_of(columns)) == HEAD_BYTES + stored
    versions = Versions(value=np.zeros(3, np.int64), is_known=np.zeros(3, np.bool_))
    block = block_of(replace(columns, versions=versions))
    assert len(block) == HEAD_BYTES + stored + 3 * (8 + 1)


@pytest.mark.parametrize(("longest", "bytes_each"), [(255, 1), (256, 2), (65535, 2), (65536, 4)])
def test_a_key_length_takes_as_few_bytes_as_the_longest_key_needs(
    longest: int, bytes_each: int
) -> None:
    columns = columns_of([b"k" * longest, b"", b"short"])
    block = block_of(columns)
    assert len(block) == HEAD_BYTES + 3 * (4 + bytes_each) + longest + 5
    assert entries_of(joined_blocks([block]).columns) == entries_of(columns)


@given(st.lists(keys, max_size=40), st.integers(1, 7), st.data())
def test_blocks_hold_the_entries_that_are_not_superseded(
    record_keys: list[bytes], buckets: int, data: st.DataObject
) -> None:
    ordered = ordered_by_part(columns_of(record_keys), buckets * parts_per_bucket(buckets))
    count = len(record_keys)
    lost = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_)
    blocks = list(blocks_of(ordered, lost, buckets=buckets, competes_from=5, hash_key=HASH_KEY))
    entries = [
        (ordinal, key, bucket)
        for bucket, block in blocks
        for ordinal, key, _ in entries_of(joined_blocks([block]).columns)
    ]
    alive = sorted(int(ordinal) for ordinal in ordered.columns.ordinal[~lost])
    assert sorted(ordinal for ordinal, _, _ in entries) == alive
    assert all(record_keys[ordinal] == key for ordinal, key, _ in entries)
    bucket_of_key = {key: bucket for _, key, bucket in entries}
    assert all(bucket_of_key[key] == bucket for _, key, bucket in entries)
    assert all(head_of(block).entries and head_of(block).competes_from == 5 for _, block in blocks)
    assert [bucket for bucket, _ in blocks] == sorted({bucket for bucket, _ in blocks})


@given(st.lists(keys, max_size=60), st.integers(1, 3), st.integers(1, 500))
def test_a_large_bucket_becomes_blocks_of_whole_parts(
    record_keys: list[bytes], buckets: int, block_bytes: int
) -> None:
    parts = buckets * parts_per_bucket(buckets)
    ordered = ordered_by_part(columns_of(record_keys), parts)
    stays = np.zeros(len(record_keys), np.bool_)
    wanted = {"buckets": buckets, "competes_from": 0, "hash_key": HASH_KEY}
    whole = list(blocks_of(ordered, stays, **wanted))
    cut = list(blocks_of(ordered, stays, **wanted, block_bytes=block_bytes))
    entries, together = (
        [
            (bucket, ordinal)
            for bucket, block in blocks
            for ordinal in joined_blocks([block]).columns.ordinal.tolist()
        ]
        for blocks in (whole, cut)
    )
    assert together == entries
    parts_of = [
        {int(part_of(hash_, parts)) for hash_ in joined_blocks([block]).columns.hash}
        for _, block in cut
    ]
    assert all(one.isdisjoint(other) for one, other in pairwise(parts_of))
    sizes = [len(block) - HEAD_BYTES for _, block in cut]
    assert all(
        size <= block_bytes or len(met) == 1 for size, met in zip(sizes, parts_of, strict=True)
    )


def test_blocks_are_cut_no_smaller_than_needed() -> None:
    record_keys = [b"%08d" % i for i in range(4000)]
    ordered = ordered_by_part(columns_of(record_keys), 64)
    stays = np.zeros(4000, np.bool_)
    wanted = {"buckets": 1, "competes_from": 0, "hash_key": HASH_KEY}
    found = list(blocks_of(ordered, stays, **wanted, block_bytes=4000 * 33 // 2))
    assert len(found) in (2, 3)


@pytest.mark.parametrize("buckets", [1, 2, 3, 7, 63, 64, 65, 1000])
def test_all_buckets_together_have_enough_parts(buckets: int) -> None:
    parts = parts_per_bucket(buckets)
    assert parts >= 1
    assert parts * buckets >= PARTS_AT_LEAST
    assert parts == 1 or (parts - 1) * buckets < PARTS_AT_LEAST
