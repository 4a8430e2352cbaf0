"""Offset indexes are read and written as Kafka does; malformed ones are refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.kafka_golden import START_OFFSET, golden, kafka_reads
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.indexes.offset_index import OffsetIndex, read_offset_index, write_offset_index


def test_a_brokers_index_reads_as_kafka_reads_it() -> None:
    index = read_offset_index(golden("index"), START_OFFSET, "x")
    expected = [(entry["offset"], entry["position"]) for entry in kafka_reads("index")]
    assert list(zip(index.offsets, index.positions, strict=True)) == expected


def test_a_brokers_index_comes_back_byte_for_byte() -> None:
    data = golden("index")
    assert write_offset_index(read_offset_index(data, START_OFFSET, "x"), START_OFFSET) == data


def test_an_entry_is_two_big_endian_ints_relative_to_the_start() -> None:
    index = OffsetIndex(offsets=np.array([1_000_000_000_005]), positions=np.array([4097], "i4"))
    assert write_offset_index(index, 1_000_000_000_000).hex() == "0000000500001001"


def test_an_empty_index_is_no_bytes() -> None:
    assert len(read_offset_index(b"", 7, "x").offsets) == 0
    assert write_offset_index(read_offset_index(b"", 7, "x"), 7) == b""


ascending = st.lists(st.integers(1, 2**31 - 1), unique=True, max_size=40).map(sorted)


@given(offsets=ascending, positions=ascending, start=st.integers(0, 2**62))
def test_what_is_written_is_read(offsets: list[int], positions: list[int], start: int) -> None:
    count = min(len(offsets), len(positions))
    index = OffsetIndex(
        offsets=np.array(offsets[:count], np.int64) + start,
        positions=np.array(positions[:count], np.int32),
    )
    found = read_offset_index(np.frombuffer(write_offset_index(index, start), "u1"), start, "x")
    assert found.offsets.tolist() == index.offsets.tolist()
    assert found.positions.tolist() == index.positions.tolist()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([(5, 100), (5, 200)], "entry 1 .* not above the one before"),
        ([(5, 100), (4, 200)], "entry 1 .* not above the one before"),
        ([(5, 100), (6, 100)], "entry 1 .* not above the one before"),
        ([(-5, 100)], "entry 0 .* negative"),
        ([(5, -100)], "entry 0 .* negative"),
        ([(5, 100), (0, 0), (0, 0)], "ends in zeros, so it was never trimmed"),
    ],
)
def test_a_malformed_index_is_refused(entries: list[tuple[int, int]], message: str) -> None:
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    with pytest.raises(CorruptLog, match=message) as caught:
        read_offset_index(data, 9, "seg.index")
    assert caught.value.where == "seg.index"


def test_an_offset_beyond_the_last_that_there_is_is_refused() -> None:
    data = struct.pack(">ii", 5, 100)
    assert read_offset_index(data, 2**63 - 7, "x").offsets.tolist() == [2**63 - 2]
    with pytest.raises(CorruptLog, match=r"9223372036854775802 \+ 5, beyond the last one"):
        read_offset_index(data, 2**63 - 6, "x")


def test_a_torn_index_is_refused() -> None:
    with pytest.raises(CorruptLog, match="735 bytes is torn"):
        read_offset_index(bytes(735), 0, "x")


@pytest.mark.parametrize("offset", [99, 100 + 2**31])
def test_an_offset_that_does_not_fit_is_not_written(offset: int) -> None:
    index = OffsetIndex(offsets=np.array([offset]), positions=np.array([1], np.int32))
    with pytest.raises(ValueError, match="do not fit"):
        write_offset_index(index, 100)
