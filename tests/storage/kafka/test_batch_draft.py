"""Batches are written as the protocol says, and read back as they were meant."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress

import google_crc32c
from hypothesis import Phase, given, settings

from tests.storage.decoded_logs import written
from tests.storage.drafts import batch_drafts, logs
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.segment_reader import Batch, read_segment


def by_hand(after_crc: bytes, *, base_offset: bytes, leader_epoch: bytes) -> bytes:
    """A batch put together from the protocol's guide, checksum and length computed here."""
    crc = struct.pack(">I", google_crc32c.value(after_crc))
    counted = leader_epoch + b"\x02" + crc + after_crc
    return base_offset + struct.pack(">i", len(counted)) + counted


PLAIN = by_hand(
    bytes.fromhex(
        "0000"  # attributes
        "00000003"  # last offset delta
        "000000000000ea60"  # base timestamp 60000
        "000000000000ea60"  # max timestamp 60000
        "ffffffffffffffff"  # no producer id
        "ffff"  # no producer epoch
        "ffffffff"  # no sequence
        "00000002"  # two records
        # length 19, attributes, timestamp +0, offset +0, key "k1", value "v", two headers
        "26 00 00 00 04 6b31 02 76 04 04 6831 06 616263 02 68 01"
        # length 6, attributes, timestamp −1, offset +3, empty key, null value, no headers
        "0c 00 01 06 00 01 00"
    ),
    base_offset=bytes.fromhex("0000000000000064"),
    leader_epoch=bytes.fromhex("00000005"),
)

MARKER = by_hand(
    bytes.fromhex(
        "0030"  # transactional, control
        "00000000"
        "000000000000ea60"
        "000000000000ea60"
        "00000000000003e8"  # producer 1000
        "0007"  # its epoch
        "ffffffff"
        "00000001"
        # length 16: key of version 0, type 1 (COMMIT); value of version 0, coordinator epoch 9
        "20 00 00 00 08 0000 0001 0c 0000 00000009 00"
    ),
    base_offset=bytes.fromhex("0000000000000068"),
    leader_epoch=bytes.fromhex("00000005"),
)


def test_a_batch_is_what_the_protocol_says() -> None:
    draft = BatchDraft(
        base_offset=100,
        leader_epoch=5,
        records=(
            RecordDraft(
                offset=100,
                timestamp_ms=60_000,
                key=b"k1",
                value=b"v",
                headers=((b"h1", b"abc"), (b"h", None)),
            ),
            RecordDraft(offset=103, timestamp_ms=59_999, key=b"", value=None),
        ),
    )
    assert write_batch(draft).hex() == PLAIN.hex()
    (batch,) = read_segment(PLAIN).batches()
    assert same(batch, draft)


def test_a_marker_is_what_the_protocol_says() -> None:
    (batch,) = read_segment(MARKER).batches()
    assert (batch.is_control, batch.is_transactional, batch.producer_id) == (True, True, 1000)
    assert batch.records[0].control_type is ControlType.COMMIT
    assert batch.records[0].value == struct.pack(">hi", 0, 9)


def same(batch: Batch, draft: BatchDraft) -> bool:
    """The batch read equals the draft."""
    maximum = max([-1, *(record.timestamp_ms for record in draft.records)])
    if draft.max_timestamp_ms is not None:
        maximum = draft.max_timestamp_ms
    records = [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in batch.records]
    drafted = [
        (
            r.offset,
            maximum if draft.is_log_append_time else r.timestamp_ms,
            r.key,
            r.value,
            r.headers,
        )
        for r in draft.records
    ]
    last = draft.records[-1].offset if draft.records else draft.base_offset
    return records == drafted and all(
        (
            batch.base_offset == draft.base_offset,
            batch.last_offset == (last if draft.last_offset is None else draft.last_offset),
            batch.codec == draft.codec.name.lower(),
            batch.leader_epoch == draft.leader_epoch,
            batch.max_timestamp_ms == maximum,
            batch.producer_id == draft.producer_id,
            batch.producer_epoch == draft.producer_epoch,
            batch.base_sequence == draft.base_sequence,
            batch.is_transactional == draft.is_transactional,
            batch.is_control == draft.is_control,
            batch.is_log_append_time == draft.is_log_append_time,
            batch.delete_horizon_ms == draft.delete_horizon_ms,
        )
    )


@given(logs())
def test_written_batches_read_back_the_same(drafts: tuple[BatchDraft, ...]) -> None:
    batches = list(read_segment(written(drafts)).batches())
    assert len(batches) == len(drafts)
    assert all(same(batch, draft) for batch, draft in zip(batches, drafts, strict=True))


REACHED: dict[str, Callable[[BatchDraft], bool]] = {
    "a null key": lambda d: any(r.key is None for r in d.records),
    "a null value": lambda d: any(r.value is None for r in d.records),
    "an empty value": lambda d: any(r.value == b"" for r in d.records),
    "a null header value": lambda d: any(v is None for r in d.records for _, v in r.headers),
    "a negative timestamp delta": lambda d: any(
        r.timestamp_ms < d.records[0].timestamp_ms for r in d.records
    ),
    "odd milliseconds": lambda d: any(r.timestamp_ms % 1000 for r in d.records),
    "a horizon": lambda d: d.delete_horizon_ms is not None,
    "log append time": lambda d: d.is_log_append_time and bool(d.records),
    "an empty batch": lambda d: not d.records,
    "a control batch": lambda d: d.is_control and bool(d.records),
    "an emptied control batch": lambda d: d.is_control and not d.records,
    "a hole at the end": lambda d: bool(d.records) and d.last_offset != d.records[-1].offset,
    **{f"codec {codec.name}": lambda d, c=codec: d.codec == c for codec in Codec},
}


class _AllReached(Exception):
    """Ends the search."""


def test_the_generator_reaches_every_case() -> None:
    missing = set(REACHED)

    @settings(max_examples=1000, phases=[Phase.generate], database=None, derandomize=True)
    @given(batch_drafts())
    def watch(draft: BatchDraft) -> None:
        missing.difference_update([what for what in missing if REACHED[what](draft)])
        if not missing:
            raise _AllReached

    with suppress(_AllReached):
        watch()
    assert missing == set()


def test_without_records_there_is_neither_codec_nor_horizon() -> None:
    draft = BatchDraft(base_offset=3, codec=Codec.ZSTD, delete_horizon_ms=5, max_timestamp_ms=9)
    (batch,) = read_segment(write_batch(draft)).batches()
    assert (batch.size_bytes, batch.codec, batch.delete_horizon_ms) == (61, "none", None)
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (-1, 9)
