"""The limit of a compressed record, Kafka's `max.decompressed.message.bytes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.corrupted_bytes import batch_around
from tests.storage.decoded_logs import WHERE, Decoded, decoded, one_record, written
from tests.storage.drafts import logs
from tests.storage.legacy_messages import message, wrapper
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.compression import Codec, compress
from tierfold.storage.kafka.record_sizes import refuse_large
from tierfold.storage.kafka.records import headers_of


def refused(log: Decoded, most_bytes: int, is_read: Sequence[bool] | None = None) -> str:
    """What is said about the log; empty: nothing, it is within the limit."""
    every = np.ones(len(log.heads), np.bool_)
    try:
        refuse_large(
            log.heads,
            log.records,
            every if is_read is None else np.array(is_read),
            most_bytes,
            where=WHERE,
            origin=0,
        )
    except CorruptLog as error:
        return str(error)
    return ""


def varint_bytes(value: int) -> int:
    return max(1, -(-((value << 1) ^ (value >> 63)).bit_length() // 7))


def field_bytes(content: bytes | None) -> int:
    return varint_bytes(-1) if content is None else varint_bytes(len(content)) + len(content)


def body_bytes(log: Decoded, i: int) -> int:
    """What the fields of record i take, by KIP-98."""
    heads, records = log.heads, log.records
    batch = records.batch[i]
    raw = log.records.body
    delta_ms, count = 0, varint_bytes(int(records.headers_count[i]))
    if not heads.is_log_append_time[batch]:
        delta_ms = int(records.timestamp_ms[i] - heads.base_timestamp_ms[batch])
    parts = [
        None if size < 0 else bytes(raw[at : at + size])
        for at, size in (
            (records.key_at[i], records.key_bytes[i]),
            (records.value_at[i], records.value_bytes[i]),
        )
    ]
    parts += [part for header in headers_of(records, i) for part in header]
    offset_delta = int(records.offset[i] - heads.base_offset[batch])
    deltas = varint_bytes(delta_ms) + varint_bytes(offset_delta)
    return 1 + deltas + count + sum(map(field_bytes, parts))


@given(drafts=logs(), nth=st.integers(0, 40), above=st.integers(0, 1))
def test_the_first_record_above_the_limit_is_named(
    drafts: tuple[BatchDraft, ...], nth: int, above: int
) -> None:
    drafts = tuple(replace(draft, is_log_append_time=False) for draft in drafts)
    log = decoded(written(drafts))
    sizes = [body_bytes(log, i) for i in range(len(log.records))]
    most_bytes = max((sizes[nth % len(sizes)] if sizes else 1) - above, 1)
    found = refused(log, most_bytes)
    is_packed = (log.heads.codec != Codec.NONE)[log.records.batch]
    large = [i for i, size in enumerate(sizes) if is_packed[i] and size > most_bytes]
    assert bool(found) == bool(large)
    if large:
        offset, size = log.records.offset[large[0]], sizes[large[0]]
        assert f"record of offset {offset}, which takes {size} bytes" in found


@pytest.mark.parametrize("magic", [0, 1])
def test_an_inner_message_counts_without_offset_and_size(magic: int) -> None:
    inner = message(0, b"v" * 50, magic=magic)
    single = message(1, b"v" * 500, magic=magic)
    log = decoded(wrapper(0, inner, magic=magic) + single)
    size_bytes = len(inner) - 12
    assert refused(log, size_bytes) == ""
    assert f"takes {size_bytes} bytes" in refused(log, size_bytes - 1)


def test_batches_that_are_not_read_are_not_looked_at() -> None:
    drafts = [replace(one_record(i, value=b"v" * 50), codec=Codec.LZ4) for i in range(3)]
    log = decoded(written(drafts))
    assert refused(log, 10, [False, False, False]) == ""
    assert "batch at byte 0 (base offset 0)" in refused(log, 10)
    assert "(base offset 2)" in refused(log, 10, [False, False, True])


def test_a_length_in_more_bytes_than_needed_does_not_count() -> None:
    """Kafka reads such a varint, and compares the length that it says."""
    plain = decoded(written([one_record(0, value=b"v" * 10)])).records
    body = plain.body[plain.start[0] : plain.end[0]].tobytes()
    longer = bytes([body[0] | 0x80, 0]) + body[1:]
    log = decoded(batch_around(compress(Codec.LZ4, longer), count=1, codec=Codec.LZ4))
    assert refused(log, len(body) - 1) == ""
    assert f"takes {len(body) - 1} bytes" in refused(log, len(body) - 2)
