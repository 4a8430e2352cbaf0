"""The index check accepts any valid index of a log and finds wrong or torn entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.storage.decoded_logs import heads_at
from tierfold.storage.indexes.index_builder import build_indexes
from tierfold.storage.indexes.index_check import CheckedIndexes, check_indexes
from tierfold.storage.indexes.offset_index import OffsetIndex, write_offset_index
from tierfold.storage.indexes.time_index import TimeIndex, write_time_index
from tierfold.storage.kafka.batch_headers import BatchHeads

START = 1000
HEADS = heads_at(
    position=np.array([0, 100, 200, 300, 400]),
    size_bytes=np.array([100, 100, 100, 100, 100]),
    base_offset=np.array([1000, 1010, 1020, 1040, 1050]),
    last_offset=np.array([1009, 1019, 1029, 1049, 1059]),
    max_timestamp_ms=np.array([50, 70, 60, 90, 80]),
)
OFFSETS = ((1019, 100), (1049, 300))
TIMES = ((70, 1019), (90, 1049))


def offset_index(*entries: tuple[int, int]) -> bytes:
    offsets, positions = zip(*entries, strict=True) if entries else ((), ())
    index = OffsetIndex(
        offsets=np.array(offsets, np.int64), positions=np.array(positions, np.int32)
    )
    return write_offset_index(index, START)


def time_index(*entries: tuple[int, int]) -> bytes:
    timestamps_ms, offsets = zip(*entries, strict=True) if entries else ((), ())
    index = TimeIndex(
        timestamps_ms=np.array(timestamps_ms, np.int64), offsets=np.array(offsets, np.int64)
    )
    return write_time_index(index, START)


def check(
    offsets: bytes | None = None, times: bytes | None = None, heads: BatchHeads = HEADS
) -> CheckedIndexes:
    def array(data: bytes) -> NDArray[np.uint8]:
        return np.frombuffer(data, np.uint8)

    return check_indexes(
        array(offset_index(*OFFSETS) if offsets is None else offsets),
        array(time_index(*TIMES) if times is None else times),
        heads,
        start_offset=START,
        index_interval_bytes=4096,
        names=("seg.index", "seg.timeindex"),
    )


def test_indexes_built_from_the_log_are_recognised() -> None:
    offsets, times = build_indexes(HEADS, start_offset=START, index_interval_bytes=4096)
    assert check(offsets, times) == CheckedIndexes(entries=1, is_as_built=True)


def test_other_entries_may_be_right_too() -> None:
    assert check() == CheckedIndexes(entries=4, is_as_built=False)
    assert check(offset_index()) == CheckedIndexes(entries=2, is_as_built=False)


def test_an_entry_may_name_the_end_of_an_append_of_several_batches() -> None:
    assert check(offset_index((1029, 100), (1059, 300))).corruptions == ()


def test_an_entry_may_name_the_last_record_that_a_cleaner_before_kafka_4_kept() -> None:
    assert check(offset_index((1016, 100), (1048, 300))).corruptions == ()


@pytest.mark.parametrize(
    ("suffix", "entries", "message"),
    [
        ("index", ((1019, 101), (1049, 300)), "number 0: offset 1019 at position 101, where no b"),
        ("index", ((1019, 100), (1049, 500)), "number 1: offset 1049 at position 500, where no b"),
        ("index", ((1019, 100), (1060, 300)), "number 1: offset 1060 at position 300"),
        ("index", ((1009, 100),), "where the batch of offsets 1010 to 1019 begins"),
        # The end of an append that would reach beyond the next entry's batch.
        ("index", ((1049, 100), (1059, 300)), "number 0: offset 1049 at position 100"),
        ("timeindex", ((70, 1009), (90, 1049)), "70 up to offset 1009, where the log has 50"),
        ("timeindex", ((60, 1029), (90, 1049)), "60 up to offset 1029, where the log has 70"),
        ("timeindex", ((70, 1035), (90, 1049)), "timestamp 70 up to offset 1035"),
        ("timeindex", ((70, 1019), (90, 1060)), "timestamp 90 up to offset 1060"),
    ],
)
def test_a_wrong_entry_is_a_corruption(
    suffix: str, entries: tuple[tuple[int, int], ...], message: str
) -> None:
    is_time = suffix == "timeindex"
    found = check(times=time_index(*entries)) if is_time else check(offset_index(*entries))
    (corruption,) = found.corruptions
    assert corruption.startswith(f"seg.{suffix}: 1 of {len(entries)} entries are wrong")
    assert message in corruption


@pytest.mark.parametrize("entries", [(), ((70, 1019),)])
def test_the_time_index_ends_in_the_largest_timestamp(
    entries: tuple[tuple[int, int], ...],
) -> None:
    (corruption,) = check(times=time_index(*entries)).corruptions
    assert "the log's largest is 90" in corruption


def test_the_largest_timestamp_need_not_be_the_last_batchs() -> None:
    heads = replace(HEADS, max_timestamp_ms=np.array([50, 85, 60, 90, 80]))
    (corruption,) = check(times=time_index((85, 1019)), heads=heads).corruptions
    assert "ends at timestamp 85, the log's largest is 90" in corruption


def test_a_log_without_timestamps_has_no_time_entries() -> None:
    heads = replace(HEADS, max_timestamp_ms=np.full(5, -1))
    assert check(times=time_index(), heads=heads).corruptions == ()


@pytest.mark.parametrize("cut", ["offset", "time"])
def test_a_torn_index_is_a_corruption(cut: str) -> None:
    offsets, times = offset_index(*OFFSETS), time_index(*TIMES)
    found = check(offsets[:-1], times) if cut == "offset" else check(offsets, times[:-1])
    (corruption,) = found.corruptions
    assert "is torn" in corruption
    assert "seg.index" in corruption if cut == "offset" else "seg.timeindex" in corruption


def test_offsets_that_no_index_can_hold_are_a_corruption() -> None:
    heads = replace(HEADS, last_offset=HEADS.last_offset + 2**31)
    (corruption,) = check(heads=heads).corruptions
    assert "no index fits the log" in corruption
