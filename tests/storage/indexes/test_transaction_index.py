"""Transaction indexes are read and written as Kafka does; malformed ones are refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.kafka_golden import golden, kafka_reads
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.indexes.transaction_index import (
    read_transaction_index,
    write_transaction_index,
)


def test_a_brokers_index_reads_as_kafka_reads_it() -> None:
    expected = tuple(
        AbortedTransaction(
            producer_id=entry["producerId"],
            first_offset=entry["firstOffset"],
            last_offset=entry["lastOffset"],
            last_stable_offset=entry["lastStableOffset"],
        )
        for entry in kafka_reads("txnindex")
    )
    assert len(expected) == 10
    assert read_transaction_index(golden("txnindex"), "x") == expected


def test_a_brokers_index_comes_back_byte_for_byte() -> None:
    data = golden("txnindex")
    assert write_transaction_index(read_transaction_index(data, "x")) == data


offsets = st.integers(0, 2**63 - 1)


@given(
    lasts=st.lists(offsets, unique=True, max_size=20).map(sorted),
    producer_id=offsets,
    stable=offsets,
)
def test_what_is_written_is_read(lasts: list[int], producer_id: int, stable: int) -> None:
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
    assert read_transaction_index(data, "x") == aborted


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([(1, 7, 10, 20, 21)], "entry 0 .* version 1"),
        ([(0, 7, 20, 10, 21)], "entry 0 .* offsets 20 to 10 of producer 7"),
        ([(0, -7, 10, 20, 21)], "entry 0 .* producer -7"),
        ([(0, 7, -10, 20, 21)], "entry 0 .* offsets -10 to 20"),
        ([(0, 7, 10, 20, -1)], "entry 0 .* offsets 10 to 20"),
        ([(0, 7, 10, 20, 21), (0, 8, 11, 20, 21)], "entry 1 .* not above 20"),
    ],
)
def test_a_malformed_index_is_refused(entries: list[tuple[int, ...]], message: str) -> None:
    data = b"".join(struct.pack(">hqqqq", *entry) for entry in entries)
    with pytest.raises(CorruptLog, match=message) as caught:
        read_transaction_index(data, "seg.txnindex")
    assert caught.value.where == "seg.txnindex"


def test_a_torn_index_is_refused() -> None:
    with pytest.raises(CorruptLog, match="339 bytes is torn"):
        read_transaction_index(golden("txnindex")[:-1], "x")
