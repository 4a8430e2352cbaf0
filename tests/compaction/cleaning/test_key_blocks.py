"""Key blocks survive serialization unchanged, and every key has one bucket."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.keyed import columns_of, keys, keys_of
from tierfold.compaction.cleaning.key_blocks import (
    HEADER,
    PARTS_AT_LEAST,
    KeyBlock,
    blocks_of,
    deserialize,
    parts_per_bucket,
    serialize,
)
from tierfold.compaction.cleaning.key_columns import Versions, ordered_by_part
from tierfold.compaction.cleaning.key_hash import part_of


@given(st.lists(keys, max_size=20), st.integers(0, 2**32), st.integers(0, 2**32 - 21))
def test_a_block_survives_the_shuffle(
    record_keys: list[bytes], competes_from: int, first_ordinal: int
) -> None:
    columns = columns_of(record_keys, first_ordinal=first_ordinal)
    found = deserialize(serialize(KeyBlock(columns=columns, competes_from=competes_from)))
    assert keys_of(found.columns) == record_keys
    assert found.columns.hash.tolist() == columns.hash.tolist()
    assert found.columns.key_bytes.dtype == np.int32  # For which the kernels are compiled.
    assert found.columns.ordinal.tolist() == columns.ordinal.tolist()
    assert found.competes_from == competes_from


@given(st.lists(st.tuples(keys, st.integers(-(2**63), 2**63 - 1), st.booleans()), max_size=20))
def test_versions_survive_the_shuffle(entries: list[tuple[bytes, int, bool]]) -> None:
    versions = Versions(
        value=np.array([value for _, value, _ in entries], np.int64),
        is_known=np.array([known for _, _, known in entries], np.bool_),
    )
    columns = replace(columns_of([key for key, _, _ in entries]), versions=versions)
    found = deserialize(serialize(KeyBlock(columns=columns, competes_from=0))).columns
    assert keys_of(found) == [key for key, _, _ in entries]
    assert found.ordinal.tolist() == columns.ordinal.tolist()
    assert found.versions is not None
    versions = zip(found.versions.value.tolist(), found.versions.is_known.tolist(), strict=True)
    assert list(versions) == [(value, known) for _, value, known in entries]


def test_a_block_is_serialized_as_its_columns_end_to_end() -> None:
    columns = columns_of([b"ab", b"", b"c"])
    block = KeyBlock(columns=columns, competes_from=1)
    assert len(serialize(block)) == HEADER.size + 3 * (4 + 1) + 3
    versions = Versions(value=np.zeros(3, np.int64), is_known=np.zeros(3, np.bool_))
    block = KeyBlock(columns=replace(columns, versions=versions), competes_from=1)
    assert len(serialize(block)) == HEADER.size + 3 * (4 + 1 + 8 + 1) + 3


@pytest.mark.parametrize(("longest", "bytes_each"), [(255, 1), (256, 2), (65535, 2), (65536, 4)])
def test_a_key_length_takes_as_few_bytes_as_the_longest_key_needs(
    longest: int, bytes_each: int
) -> None:
    record_keys = [b"k" * longest, b"", b"short"]
    data = serialize(KeyBlock(columns=columns_of(record_keys), competes_from=0))
    assert len(data) == HEADER.size + 3 * (4 + bytes_each) + longest + 5
    assert keys_of(deserialize(data).columns) == record_keys


@given(st.lists(keys, max_size=40), st.integers(1, 7), st.data())
def test_blocks_hold_the_entries_that_are_not_superseded(
    record_keys: list[bytes], buckets: int, data: st.DataObject
) -> None:
    ordered = ordered_by_part(columns_of(record_keys), buckets * parts_per_bucket(buckets))
    count = len(record_keys)
    lost = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_)
    found = list(blocks_of(ordered, lost, buckets=buckets, competes_from=5))
    entries = [
        (int(ordinal), key, bucket)
        for bucket, block in found
        for ordinal, key in zip(block.columns.ordinal, keys_of(block.columns), strict=True)
    ]
    alive = sorted(int(ordinal) for ordinal in ordered.columns.ordinal[~lost])
    assert sorted(ordinal for ordinal, _, _ in entries) == alive
    assert all(record_keys[ordinal] == key for ordinal, key, _ in entries)
    bucket_of = {key: bucket for _, key, bucket in entries}
    assert all(bucket_of[key] == bucket for _, key, bucket in entries)
    assert all(len(block.columns) and block.competes_from == 5 for _, block in found)
    assert [bucket for bucket, _ in found] == sorted({bucket for bucket, _ in found})


@given(st.lists(keys, max_size=60), st.integers(1, 3), st.integers(1, 500))
def test_a_large_bucket_becomes_blocks_of_whole_parts(
    record_keys: list[bytes], buckets: int, block_bytes: int
) -> None:
    parts = buckets * parts_per_bucket(buckets)
    ordered = ordered_by_part(columns_of(record_keys), parts)
    stays = np.zeros(len(record_keys), np.bool_)
    wanted = {"buckets": buckets, "competes_from": 0}
    whole = list(blocks_of(ordered, stays, **wanted))
    cut = list(blocks_of(ordered, stays, **wanted, block_bytes=block_bytes))
    entries, together = (
        [(bucket, int(at)) for bucket, block in blocks for at in block.columns.ordinal]
        for blocks in (whole, cut)
    )
    assert together == entries
    parts_of = [{int(part_of(hash_, parts)) for hash_ in block.columns.hash} for _, block in cut]
    assert all(one.isdisjoint(other) for one, other in pairwise(parts_of))
    sizes = [len(serialize(block)) - HEADER.size for _, block in cut]
    assert all(
        size <= block_bytes or len(met) == 1 for size, met in zip(sizes, parts_of, strict=True)
    )


def test_blocks_are_cut_no_smaller_than_needed() -> None:
    record_keys = [b"%08d" % i for i in range(4000)]
    ordered = ordered_by_part(columns_of(record_keys), 64)
    stays = np.zeros(4000, np.bool_)
    found = list(
        blocks_of(ordered, stays, buckets=1, competes_from=0, block_bytes=4000 * 33 // 2)
    )
    assert len(found) in (2, 3)


def test_the_first_ordinal_is_the_lowest_though_parts_are_out_of_order() -> None:
    columns = columns_of([b"b", b"a", b"c"], first_ordinal=7)
    backwards = ordered_by_part(columns, 64).columns
    assert KeyBlock(columns=backwards, competes_from=0).first_ordinal == 7
    nothing = KeyBlock(columns=columns_of([]), competes_from=0)
    assert nothing.first_ordinal == 0


@pytest.mark.parametrize("buckets", [1, 2, 3, 7, 63, 64, 65, 1000])
def test_all_buckets_together_have_enough_parts(buckets: int) -> None:
    parts = parts_per_bucket(buckets)
    assert parts >= 1
    assert parts * buckets >= PARTS_AT_LEAST
    assert parts == 1 or (parts - 1) * buckets < PARTS_AT_LEAST
