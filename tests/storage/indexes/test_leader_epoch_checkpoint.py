"""Leader epoch checkpoints are read and written as Kafka does; malformed ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.kafka_golden import golden, kafka_reads
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.indexes.leader_epoch_checkpoint import (
    read_leader_epoch_checkpoint,
    write_leader_epoch_checkpoint,
)


def test_a_brokers_checkpoint_reads_as_kafka_reads_it() -> None:
    expected = tuple(
        LeaderEpoch(epoch=entry["epoch"], start_offset=entry["startOffset"])
        for entry in kafka_reads("leaderEpoch")
    )
    assert len(expected) == 2
    assert read_leader_epoch_checkpoint(golden("leader_epoch_checkpoint"), "x") == expected


def test_a_brokers_checkpoint_comes_back_byte_for_byte() -> None:
    data = golden("leader_epoch_checkpoint")
    assert write_leader_epoch_checkpoint(read_leader_epoch_checkpoint(data, "x")) == data


@given(
    epochs=st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=20).map(sorted),
    starts=st.lists(st.integers(0, 2**63 - 2), unique=True, max_size=20).map(sorted),
)
def test_what_is_written_is_read(epochs: list[int], starts: list[int]) -> None:
    lineage = tuple(
        LeaderEpoch(epoch=epoch, start_offset=start)
        for epoch, start in zip(epochs, starts, strict=False)
    )
    data = np.frombuffer(write_leader_epoch_checkpoint(lineage), np.uint8)
    assert read_leader_epoch_checkpoint(data, "x") == lineage


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "begins with"),
        (b"0\n", "begins with"),
        (b"1\n0\n", "begins with"),
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
        (b"0\n1\n2147483648 0\n", "entry 0 .* beyond what Kafka's numbers hold"),
        (b"0\n1\n0 9223372036854775807\n", "entry 0 .* beyond what Kafka's numbers hold"),
        (b"0\x1e1\n0 0\n", "begins with"),
        (b"0\n1\n0 0\x0c\n", "entry 0 reads"),
        (b"0\n1\n0 0\n\x1e\n", "holds 2"),
        (bytes(40), "begins with"),
    ],
)
def test_a_malformed_checkpoint_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(CorruptLog, match=message) as caught:
        read_leader_epoch_checkpoint(text, "seg.leader_epoch_checkpoint")
    assert caught.value.where == "seg.leader_epoch_checkpoint"


def test_the_last_line_needs_no_end() -> None:
    assert read_leader_epoch_checkpoint(b"0\n1\n3 7", "x") == (
        LeaderEpoch(epoch=3, start_offset=7),
    )
