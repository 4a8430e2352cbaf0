"""Producer snapshots are read and written as Kafka does; malformed ones are refused."""

from __future__ import annotations

import struct

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.kafka_golden import golden, kafka_reads
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.producers import NO_DATA_OFFSET, ProducerEntry
from tierfold.storage.indexes.producer_snapshot import (
    read_producer_snapshot,
    write_producer_snapshot,
)


def test_a_brokers_snapshot_reads_as_kafka_reads_it() -> None:
    expected = tuple(
        ProducerEntry(
            producer_id=entry["producerId"],
            epoch=entry["epoch"],
            last_sequence=entry["lastSeq"],
            last_data_offset=entry["lastDataOffset"],
            last_offset_delta=entry["lastOffsetDelta"],
            last_timestamp_ms=entry["lastTimestamp"],
            coordinator_epoch=entry["coordinatorEpoch"],
            current_txn_first_offset=(
                None if entry["currentTxnFirstOffset"] < 0 else entry["currentTxnFirstOffset"]
            ),
        )
        for entry in kafka_reads("snapshot")
    )
    assert len(expected) == 4
    assert read_producer_snapshot(golden("snapshot"), "x") == expected


def test_a_brokers_snapshot_comes_back_byte_for_byte() -> None:
    data = golden("snapshot")
    assert write_producer_snapshot(read_producer_snapshot(data, "x")) == data


long = st.integers(-(2**63), 2**63 - 1)
integer = st.integers(-(2**31), 2**31 - 1)
entries = st.builds(
    ProducerEntry,
    producer_id=long,
    epoch=st.integers(-(2**15), 2**15 - 1),
    last_sequence=integer,
    last_data_offset=st.integers(NO_DATA_OFFSET, 2**63 - 1),
    last_offset_delta=integer,
    last_timestamp_ms=long,
    coordinator_epoch=integer,
    current_txn_first_offset=st.none() | st.integers(0, 2**63 - 1),
)


@given(st.lists(entries, max_size=10).map(tuple))
def test_what_is_written_is_read(producers: tuple[ProducerEntry, ...]) -> None:
    data = np.frombuffer(write_producer_snapshot(producers), np.uint8)
    assert read_producer_snapshot(data, "x") == producers


def with_crc(body: bytes, version: int = 1) -> bytes:
    return struct.pack(">hI", version, google_crc32c.value(body)) + body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are too few"),
        (with_crc(struct.pack(">i", 0))[:9], "9 bytes are too few"),
        (with_crc(struct.pack(">i", 0), version=2), "version 2"),
        (with_crc(struct.pack(">i", 1)), "10 bytes cannot hold 1 producers"),
        (with_crc(struct.pack(">i", -1)), "cannot hold -1 producers"),
        (with_crc(struct.pack(">i", 0) + b"\0"), "11 bytes cannot hold 0 producers"),
    ],
)
def test_a_malformed_snapshot_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptLog, match=message) as caught:
        read_producer_snapshot(data, "seg.snapshot")
    assert caught.value.where == "seg.snapshot"


@given(st.integers(6, 193), st.integers(0, 7))
def test_any_flipped_bit_behind_the_crc_is_found(at: int, bit: int) -> None:
    data = bytearray(golden("snapshot"))
    data[at] ^= 1 << bit
    with pytest.raises(CorruptLog, match="its CRC is"):
        read_producer_snapshot(data, "x")
