"""Time indexes are read and written as Kafka does; malformed ones are refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.kafka_golden import START_OFFSET, golden, kafka_reads
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.indexes.time_index import TimeIndex, read_time_index, write_time_index


def test_a_brokers_index_reads_as_kafka_reads_it() -> None:
    index = read_time_index(golden("timeindex"), START_OFFSET, "x")
    expected = [(entry["timestamp"], entry["offset"]) for entry in kafka_reads("timeindex")]
    assert list(zip(index.timestamps_ms, index.offsets, strict=True)) == expected


def test_a_brokers_index_comes_back_byte_for_byte() -> None:
    data = golden("timeindex")
    assert write_time_index(read_time_index(data, START_OFFSET, "x"), START_OFFSET) == data


def test_an_entry_is_a_long_and_an_int_relative_to_the_start() -> None:
    index = TimeIndex(timestamps_ms=np.array([1_700_000_000_123]), offsets=np.array([300]))
    assert write_time_index(index, 100).hex() == "0000018bcfe5687b000000c8"


@given(
    timestamps=st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=40).map(sorted),
    offsets=st.lists(st.integers(0, 2**31 - 1), max_size=40).map(sorted),
    start=st.integers(0, 2**62),
)
def test_what_is_written_is_read(timestamps: list[int], offsets: list[int], start: int) -> None:
    count = min(len(timestamps), len(offsets))
    index = TimeIndex(
        timestamps_ms=np.array(timestamps[:count], np.int64),
        offsets=np.array(offsets[:count], np.int64) + start,
    )
    found = read_time_index(np.frombuffer(write_time_index(index, start), "u1"), start, "x")
    assert found.timestamps_ms.tolist() == index.timestamps_ms.tolist()
    assert found.offsets.tolist() == index.offsets.tolist()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([(5, 1), (5, 2)], "entry 1 .* not above"),
        ([(5, 1), (4, 2)], "entry 1 .* not above"),
        ([(5, 2), (6, 1)], "entry 1 .* not above"),
        ([(2**63 - 1, 1), (0, 2)], "entry 1 .* not above"),
        ([(-1, 1)], "entry 0 .* negative"),
        ([(5, -1)], "entry 0 .* negative"),
        ([(5, 1), (0, 0)], "entry 1 .* not above"),
    ],
)
def test_a_malformed_index_is_refused(entries: list[tuple[int, int]], message: str) -> None:
    data = b"".join(struct.pack(">qi", *entry) for entry in entries)
    with pytest.raises(CorruptLog, match=message) as caught:
        read_time_index(data, 9, "seg.timeindex")
    assert caught.value.where == "seg.timeindex"


def test_an_offset_beyond_the_last_that_there_is_is_refused() -> None:
    data = struct.pack(">qi", 100, 5)
    assert read_time_index(data, 2**63 - 7, "x").offsets.tolist() == [2**63 - 2]
    with pytest.raises(CorruptLog, match=r"9223372036854775802 \+ 5, beyond the last one"):
        read_time_index(data, 2**63 - 6, "x")


def test_a_torn_index_is_refused() -> None:
    with pytest.raises(CorruptLog, match="13 bytes is torn"):
        read_time_index(bytes(13), 0, "x")


@pytest.mark.parametrize("offset", [99, 100 + 2**31])
def test_an_offset_that_does_not_fit_is_not_written(offset: int) -> None:
    index = TimeIndex(timestamps_ms=np.array([1]), offsets=np.array([offset]))
    with pytest.raises(ValueError, match="do not fit"):
        write_time_index(index, 100)
