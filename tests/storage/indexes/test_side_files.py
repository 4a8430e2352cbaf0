"""Each file beside a log is read and written as Kafka does; malformed ones are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.kafka_golden import START_OFFSET, golden, kafka_reads
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.producers import NO_DATA_OFFSET, ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.indexes.leader_epoch_checkpoint import (
    read_leader_epoch_checkpoint,
    write_leader_epoch_checkpoint,
)
from tierfold.storage.indexes.offset_index import (
    OffsetIndex,
    read_offset_index,
    usable_offset_index,
    write_offset_index,
)
from tierfold.storage.indexes.producer_snapshot import (
    read_producer_snapshot,
    write_producer_snapshot,
)
from tierfold.storage.indexes.time_index import (
    TimeIndex,
    read_time_index,
    usable_time_index,
    write_time_index,
)
from tierfold.storage.indexes.transaction_index import (
    read_transaction_index,
    write_transaction_index,
)


class Format(NamedTuple):
    """How a side file is read and written; indexes are those of the golden segment."""

    read: Callable[[Any], Any]
    write: Callable[[Any], bytes]
    kind: str
    """Of its entries in the dump of Kafka's own classes."""
    of_kafka: Callable[[dict[str, Any]], Any]
    """(an entry of the dump) → our entry."""
    entries: int


def in_index(data: Any, start_offset: int = START_OFFSET) -> OffsetIndex:
    return read_offset_index(data, start_offset, "a file")


def in_time_index(data: Any, start_offset: int = START_OFFSET) -> TimeIndex:
    return read_time_index(data, start_offset, "a file")


def producer_of(entry: dict[str, Any]) -> ProducerEntry:
    first = entry["currentTxnFirstOffset"]
    return ProducerEntry(
        producer_id=entry["producerId"],
        epoch=entry["epoch"],
        last_sequence=entry["lastSeq"],
        last_data_offset=entry["lastDataOffset"],
        last_offset_delta=entry["lastOffsetDelta"],
        last_timestamp_ms=entry["lastTimestamp"],
        coordinator_epoch=entry["coordinatorEpoch"],
        current_txn_first_offset=None if first < 0 else first,
    )


def aborted_of(entry: dict[str, Any]) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=entry["producerId"],
        first_offset=entry["firstOffset"],
        last_offset=entry["lastOffset"],
        last_stable_offset=entry["lastStableOffset"],
    )


FORMATS = {
    "index": Format(
        in_index,
        lambda index: write_offset_index(index, START_OFFSET),
        "index",
        lambda entry: (entry["offset"], entry["position"]),
        91,
    ),
    "timeindex": Format(
        in_time_index,
        lambda index: write_time_index(index, START_OFFSET),
        "timeindex",
        lambda entry: (entry["timestamp"], entry["offset"]),
        83,
    ),
    "txnindex": Format(
        lambda data: read_transaction_index(data, "a file"),
        write_transaction_index,
        "txnindex",
        aborted_of,
        10,
    ),
    "snapshot": Format(
        lambda data: read_producer_snapshot(data, "a file"),
        write_producer_snapshot,
        "snapshot",
        producer_of,
        4,
    ),
    "leader_epoch_checkpoint": Format(
        lambda data: read_leader_epoch_checkpoint(data, "a file"),
        write_leader_epoch_checkpoint,
        "leaderEpoch",
        lambda entry: LeaderEpoch(epoch=entry["epoch"], start_offset=entry["startOffset"]),
        2,
    ),
}


def entries_of(found: Any) -> list[Any]:
    match found:
        case OffsetIndex():
            return list(zip(found.offsets, found.positions, strict=True))
        case TimeIndex():
            return list(zip(found.timestamps_ms, found.offsets, strict=True))
        case _:
            return list(found)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_brokers_file_is_read_as_kafka_reads_it_and_comes_back_byte_for_byte(suffix: str) -> None:
    side_file, data = FORMATS[suffix], golden(suffix)
    expected = [side_file.of_kafka(entry) for entry in kafka_reads(side_file.kind)]
    assert len(expected) == side_file.entries
    assert entries_of(side_file.read(data)) == expected
    assert side_file.write(side_file.read(data)) == data


# What is written is read.

POSITIONS = st.lists(st.integers(1, 2**31 - 1), unique=True, max_size=40).map(sorted)
TIMESTAMPS = st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=40).map(sorted)
OFFSETS = st.lists(st.integers(0, 2**31 - 1), max_size=40).map(sorted)
LONG = st.integers(-(2**63), 2**63 - 1)
INTEGER = st.integers(-(2**31), 2**31 - 1)
NUMBER = st.integers(0, 2**63 - 1)
PRODUCERS = st.builds(
    ProducerEntry,
    producer_id=LONG,
    epoch=st.integers(-(2**15), 2**15 - 1),
    last_sequence=INTEGER,
    last_data_offset=st.integers(NO_DATA_OFFSET, 2**63 - 1),
    last_offset_delta=INTEGER,
    last_timestamp_ms=LONG,
    coordinator_epoch=INTEGER,
    current_txn_first_offset=st.none() | NUMBER,
)


@given(offsets=POSITIONS, positions=POSITIONS, start=st.integers(0, 2**62))
def test_an_offset_index_comes_back(offsets: list[int], positions: list[int], start: int) -> None:
    count = min(len(offsets), len(positions))
    index = OffsetIndex(
        offsets=np.array(offsets[:count], np.int64) + start,
        positions=np.array(positions[:count], np.int32),
    )
    found = in_index(np.frombuffer(write_offset_index(index, start), "u1"), start)
    assert entries_of(found) == entries_of(index)


@given(timestamps=TIMESTAMPS, offsets=OFFSETS, start=st.integers(0, 2**62))
def test_a_time_index_comes_back(timestamps: list[int], offsets: list[int], start: int) -> None:
    count = min(len(timestamps), len(offsets))
    index = TimeIndex(
        timestamps_ms=np.array(timestamps[:count], np.int64),
        offsets=np.array(offsets[:count], np.int64) + start,
    )
    found = in_time_index(np.frombuffer(write_time_index(index, start), "u1"), start)
    assert entries_of(found) == entries_of(index)


@given(
    lasts=st.lists(NUMBER, unique=True, max_size=20).map(sorted),
    producer_id=NUMBER,
    stable=NUMBER,
)
def test_a_transaction_index_comes_back(lasts: list[int], producer_id: int, stable: int) -> None:
    aborted = tuple(
        AbortedTransaction(
            producer_id=producer_id,
            first_offset=last // 2,
            last_offset=last,
            last_stable_offset=stable,
        )
        for last in lasts
    )
    data = np.frombuffer(write_transaction_index(aborted), np.uint8)
    assert read_transaction_index(data, "a file") == aborted


@given(st.lists(PRODUCERS, max_size=10).map(tuple))
def test_a_producer_snapshot_comes_back(producers: tuple[ProducerEntry, ...]) -> None:
    data = np.frombuffer(write_producer_snapshot(producers), np.uint8)
    assert read_producer_snapshot(data, "a file") == producers


@given(
    epochs=st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=20).map(sorted),
    starts=st.lists(st.integers(0, 2**63 - 2), unique=True, max_size=20).map(sorted),
)
def test_a_checkpoint_comes_back(epochs: list[int], starts: list[int]) -> None:
    lineage = tuple(
        LeaderEpoch(epoch=epoch, start_offset=start)
        for epoch, start in zip(epochs, starts, strict=False)
    )
    data = np.frombuffer(write_leader_epoch_checkpoint(lineage), np.uint8)
    assert read_leader_epoch_checkpoint(data, "a file") == lineage


# The form of an entry.


def test_an_index_entry_is_relative_to_the_start_and_big_endian() -> None:
    index = OffsetIndex(offsets=np.array([1_000_000_000_005]), positions=np.array([4097], "i4"))
    assert write_offset_index(index, 1_000_000_000_000).hex() == "0000000500001001"
    times = TimeIndex(timestamps_ms=np.array([1_700_000_000_123]), offsets=np.array([300]))
    assert write_time_index(times, 100).hex() == "0000018bcfe5687b000000c8"


def test_an_empty_index_has_no_bytes() -> None:
    assert len(in_index(b"", 7).offsets) == 0
    assert write_offset_index(in_index(b"", 7), 7) == b""


def test_the_last_line_of_a_checkpoint_needs_no_end() -> None:
    found = read_leader_epoch_checkpoint(b"0\n1\n3 7", "a file")
    assert found == (LeaderEpoch(epoch=3, start_offset=7),)


@pytest.mark.parametrize("offset", [99, 100 + 2**31])
def test_an_offset_that_does_not_fit_is_not_written(offset: int) -> None:
    index = OffsetIndex(offsets=np.array([offset]), positions=np.array([1], np.int32))
    with pytest.raises(ValueError, match="do not fit"):
        write_offset_index(index, 100)
    times = TimeIndex(timestamps_ms=np.array([1]), offsets=np.array([offset]))
    with pytest.raises(ValueError, match="do not fit"):
        write_time_index(times, 100)


@pytest.mark.parametrize(
    ("read", "data"),
    [(in_index, struct.pack(">ii", 5, 100)), (in_time_index, struct.pack(">qi", 100, 5))],
)
def test_an_offset_beyond_the_last_one_is_refused(
    read: Callable[[bytes, int], OffsetIndex | TimeIndex], data: bytes
) -> None:
    assert read(data, 2**63 - 7).offsets.tolist() == [2**63 - 2]
    with pytest.raises(CorruptLog, match=r"9223372036854775802 \+ 5, beyond the last one"):
        read(data, 2**63 - 6)


# Malformed files.


def packed(form: str, *entries: tuple[int, ...]) -> bytes:
    return b"".join(struct.pack(f">{form}", *entry) for entry in entries)


def with_crc(body: bytes, version: int = 1) -> bytes:
    return struct.pack(">hI", version, google_crc32c.value(body)) + body


BEYOND = "entry 0 .* larger than Kafka allows"
MALFORMED: dict[str, list[tuple[bytes, str]]] = {
    "index": [
        (packed("ii", (5, 100), (5, 200)), "entry 1 .* not above the one before"),
        (packed("ii", (5, 100), (4, 200)), "entry 1 .* not above the one before"),
        (packed("ii", (5, 100), (6, 100)), "entry 1 .* not above the one before"),
        (packed("ii", (-5, 100)), "entry 0 .* negative"),
        (packed("ii", (5, -100)), "entry 0 .* negative"),
        (packed("ii", (5, 100), (0, 0), (0, 0)), "ends in 2 entries of zeros, so it was never"),
        (packed("ii", (0, 0)), "ends in 1 entries of zeros"),
        (bytes(735), "735 bytes is torn"),
    ],
    "timeindex": [
        (packed("qi", (5, 1), (5, 2)), "entry 1 .* not above"),
        (packed("qi", (5, 1), (4, 2)), "entry 1 .* not above"),
        (packed("qi", (5, 2), (6, 1)), "entry 1 .* not above"),
        (packed("qi", (2**63 - 1, 1), (0, 2)), "entry 1 .* not above"),
        (packed("qi", (-1, 1)), "entry 0 .* negative"),
        (packed("qi", (5, -1)), "entry 0 .* negative"),
        (packed("qi", (5, 1), (0, 0)), "ends in 1 entries of zeros, so it was never trimmed"),
        (packed("qi", (0, 0), (0, 0)), "ends in 2 entries of zeros, so it was never trimmed"),
        (bytes(13), "13 bytes is torn"),
    ],
    "txnindex": [
        (packed("hqqqq", (1, 7, 10, 20, 21)), "entry 0 .* version 1"),
        (packed("hqqqq", (0, 7, 20, 10, 21)), "entry 0 .* offsets 20 to 10 of producer 7"),
        (packed("hqqqq", (0, -7, 10, 20, 21)), "entry 0 .* producer -7"),
        (packed("hqqqq", (0, 7, -10, 20, 21)), "entry 0 .* offsets -10 to 20"),
        (packed("hqqqq", (0, 7, 10, 20, -1)), "entry 0 .* offsets 10 to 20"),
        (packed("hqqqq", (0, 7, 10, 20, 21), (0, 8, 11, 20, 21)), "entry 1 .* not above 20"),
        (golden("txnindex")[:-1], "339 bytes is torn"),
    ],
    "snapshot": [
        (b"", "it has 0 bytes, and needs at least 10"),
        (with_crc(struct.pack(">i", 0))[:9], "it has 9 bytes"),
        (with_crc(struct.pack(">i", 0), version=2), "version 2"),
        (with_crc(struct.pack(">i", 1)), "10 bytes cannot hold 1 producers"),
        (with_crc(struct.pack(">i", -1)), "cannot hold -1 producers"),
        (with_crc(struct.pack(">i", 0) + b"\0"), "11 bytes cannot hold 0 producers"),
    ],
    "leader_epoch_checkpoint": [
        (b"", "begins with"),
        (b"0\n", "begins with"),
        (b"1\n0\n", "has version 1, and tierfold knows only 0"),
        (b"0\nmany\n", "begins with"),
        (b"0\n-1\n", "begins with"),
        (b"0\n2\n0 0\n", "announces 2 entries and holds 1"),
        (b"0\n1\n0 0\n1 5\n", "announces 1 entries and holds 2"),
        (b"0\n1\n0\n", "entry 0 reads '0'"),
        (b"0\n1\n0 0 0\n", "entry 0 reads"),
        (b"0\n1\n-1 0\n", "entry 0 reads"),
        (b"0\n1\n\xff\xfe 0\n", "entry 0 reads"),
        (b"0\n2\n1 0\n1 5\n", "entry 1 .* not above"),
        (b"0\n2\n0 5\n1 5\n", "entry 1 .* not above"),
        (b"0\n1\n2147483648 0\n", BEYOND),
        (b"0\n1\n0 9223372036854775807\n", BEYOND),
        (b"0\x1e1\n0 0\n", "begins with"),
        (b"0\n1\n0 0\x0c\n", "entry 0 reads"),
        (b"0\n1\n0 0\n\x1e\n", "holds 2"),
        (bytes(40), "begins with"),
    ],
}


@pytest.mark.parametrize(
    ("suffix", "data", "message"),
    [(suffix, *case) for suffix, cases in MALFORMED.items() for case in cases],
)
def test_a_malformed_file_is_refused(suffix: str, data: bytes, message: str) -> None:
    with pytest.raises(CorruptLog, match=message) as caught:
        FORMATS[suffix].read(data)
    assert caught.value.where == "a file"


def test_a_snapshot_of_a_version_to_come_is_not_called_damaged() -> None:
    with pytest.raises(CorruptLog, match="has version 2, and tierfold knows only 1") as caught:
        read_producer_snapshot(with_crc(struct.pack(">i", 0), version=2), "a file")
    assert "damaged" not in caught.value.what
    assert "update tierfold" in caught.value.remedy


@given(st.integers(6, 193), st.integers(0, 7))
def test_any_flipped_bit_after_a_snapshots_crc_is_found(at: int, bit: int) -> None:
    data = bytearray(golden("snapshot"))
    data[at] ^= 1 << bit
    with pytest.raises(CorruptLog, match="its CRC is"):
        read_producer_snapshot(data, "a file")


USABLE: list[tuple[str, bytes, list[tuple[int, int]], str]] = [
    ("index", packed("ii", (5, 256), (6, 512)), [(5, 256), (6, 512)], ""),
    ("index", packed("ii", (5, 256), *[(0, 0)] * 7), [(5, 256)], "7 entries of zeros"),
    ("index", bytes(80), [], "10 entries of zeros"),
    ("index", packed("ii", (5, 256), (4, 512)), [], "not above the one before"),
    ("index", packed("ii", (5, 256), (4, 512), (0, 0)), [], "entries of zeros"),
    ("index", bytes(9), [], "9 bytes is torn"),
    ("timeindex", packed("qi", (0, 0)), [(0, 0)], ""),
    ("timeindex", packed("qi", (5, 1), *[(0, 0)] * 7), [(5, 1)], "7 entries of zeros"),
    ("timeindex", packed("qi", (5, 1), (4, 2)), [], "not above the one before"),
    ("timeindex", packed("qi", (5, 1)) + b"\1", [], "13 bytes is torn"),
]


@pytest.mark.parametrize(("suffix", "data", "entries", "corruption"), USABLE)
def test_padding_is_left_out_and_nothing_is_used_of_an_index_that_is_corrupt(
    suffix: str, data: bytes, entries: list[tuple[int, int]], corruption: str
) -> None:
    read = {"index": usable_offset_index, "timeindex": usable_time_index}[suffix]
    found, what = read(np.frombuffer(data, np.uint8), 0, "a file")
    assert entries_of(found) == entries
    assert corruption in what
    assert bool(corruption) is bool(what)
