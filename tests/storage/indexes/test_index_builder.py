"""Built offset and time indexes equal a broker's own, byte for byte."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.decoded_logs import heads_at
from tierfold.storage.indexes.index_builder import build_indexes
from tierfold.storage.kafka.batch_headers import read_heads

SAMPLE = Path(__file__).parents[3] / "sample" / "kafka-tiered-storage"
LOGS = sorted(SAMPLE.glob("*/*.log"))


def test_there_are_sample_segments() -> None:
    assert len(LOGS) >= 3


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name[:20])
def test_a_brokers_indexes_are_built_byte_for_byte(log: Path) -> None:
    heads = read_heads(np.fromfile(log, np.uint8), where=str(log))
    offset_index, time_index = build_indexes(
        heads, start_offset=int(log.name[:20]), index_interval_bytes=4096
    )
    assert offset_index == log.with_suffix(".index").read_bytes()
    assert time_index == log.with_suffix(".timeindex").read_bytes()


def built(
    sizes: list[int], timestamps: list[int], interval: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The entries for batches of one record each, offsets from 100 on."""
    size_bytes = np.array(sizes, np.int64)
    heads = heads_at(
        position=np.cumsum(size_bytes) - size_bytes,
        size_bytes=size_bytes,
        last_offset=np.arange(100, 100 + len(sizes), dtype=np.int64),
        max_timestamp_ms=np.array(timestamps, np.int64),
    )
    offset_index, time_index = build_indexes(heads, start_offset=100, index_interval_bytes=interval)
    entries = [(100 + offset, at) for offset, at in struct.iter_unpack(">ii", offset_index)]
    times = [(time_ms, 100 + offset) for time_ms, offset in struct.iter_unpack(">qi", time_index)]
    return entries, times


@pytest.mark.parametrize(
    ("sizes", "timestamps", "interval", "expected"),
    [
        # Two batches of 50 make 100, which is not more than 100; the fourth finds 150.
        ([50] * 5, [1, 2, 3, 4, 5], 100, ([(103, 150)], [(4, 103), (5, 104)])),
        # A timestamp is listed where it was first reached.
        ([80] * 4, [5, 9, 9, 3], 79, ([(101, 80), (102, 160), (103, 240)], [(9, 101)])),
        ([80, 80], [-1, -1], 0, ([(101, 80)], [])),
        ([5000], [7], 0, ([], [(7, 100)])),
        ([], [], 4096, ([], [])),
    ],
    ids=["interval", "first timestamp", "no timestamps", "one batch", "no batches"],
)
def test_the_entries_of_a_log(
    sizes: list[int],
    timestamps: list[int],
    interval: int,
    expected: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> None:
    assert built(sizes, timestamps, interval) == expected


def model(
    sizes: list[int], timestamps: list[int], interval: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    entries: list[tuple[int, int]] = []
    times = [(-1, -1)]
    largest, since, position = (-1, -1), 0, 0
    for offset, (size, time_ms) in enumerate(zip(sizes, timestamps, strict=True), 100):
        largest = largest if largest[0] >= time_ms else (time_ms, offset)
        if since > interval:
            entries.append((offset, position))
            times += [largest] if largest[0] > times[-1][0] else []
            since = 0
        since, position = since + size, position + size
    times += [largest] if largest[0] > times[-1][0] else []
    return entries, times[1:]


@given(
    st.lists(st.tuples(st.integers(61, 9000), st.integers(-1, 50)), min_size=1, max_size=60),
    st.sampled_from([0, 100, 4096]),
)
def test_the_entries_follow_the_rule(batches: list[tuple[int, int]], interval: int) -> None:
    sizes = [size for size, _ in batches]
    timestamps = [time_ms for _, time_ms in batches]
    assert built(sizes, timestamps, interval) == model(sizes, timestamps, interval)


def test_a_log_beyond_31_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="beyond what an index can hold"):
        built([2**30, 2**30, 2**30], [1, 2, 3], 4096)

