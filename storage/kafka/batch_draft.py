"""Writes new batches from their fields: closing batches, pictures of logs and demo data.

`storage.kafka.batch_rewrite` rewrites the batches of a log, in kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierfold.compaction.model.units import BATCH_HEADER_BYTES, NO_PRODUCER_ID, NO_TIMESTAMP_MS
from tierfold.storage.kafka.batch_layout import (
    CONTROL_BIT,
    CRC,
    CRC_AT,
    HEADER,
    HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
)
from tierfold.storage.kafka.checksums import crc32c
from tierfold.storage.kafka.compression import Codec, compress


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDraft:
    """One record to write; `None` is Kafka's null."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDraft:
    """One magic 2 batch to write; sizes, counts, deltas and the checksum are computed.

    Without records only a header is written, with neither codec nor delete horizon, as Kafka's
    `DefaultRecordBatch.writeEmptyHeader` does.
    """

    base_offset: int
    records: tuple[RecordDraft, ...] = ()
    last_offset: int | None = None
    """Inclusive; None: that of the last record, or the base offset."""
    codec: Codec = Codec.NONE
    leader_epoch: int = NO_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    is_log_append_time: bool = False
    delete_horizon_ms: int | None = None
    max_timestamp_ms: int | None = None
    """None: the largest of the records, but at least −1, as in Kafka's `LogValidator`.

    Under LogAppendTime readers return it for every record.
    """


def write_batch(draft: BatchDraft) -> bytes:
    """The batch's bytes, as a broker would store them."""
    base_timestamp_ms = _base_timestamp_ms(draft)
    # A loop over records is fast enough here: a draft has few.
    payload = b"".join(
        _record_bytes(record, record.offset - draft.base_offset, base_timestamp_ms)
        for record in draft.records
    )
    if draft.records:
        payload = compress(draft.codec, payload)
    header = HEADER.pack(
        draft.base_offset,
        BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload),
        draft.leader_epoch,
        MAGIC,
        0,
        _attributes(draft),
        _last_offset(draft) - draft.base_offset,
        base_timestamp_ms,
        _max_timestamp_ms(draft),
        draft.producer_id,
        draft.producer_epoch,
        draft.base_sequence,
        len(draft.records),
    )
    batch = bytearray(header + payload)
    CRC.pack_into(batch, CRC_AT, crc32c(np.frombuffer(batch, np.uint8)))
    return bytes(batch)


def _base_timestamp_ms(draft: BatchDraft) -> int:
    if not draft.records:
        return NO_TIMESTAMP_MS
    if draft.delete_horizon_ms is not None:
        return draft.delete_horizon_ms
    return draft.records[0].timestamp_ms


def _max_timestamp_ms(draft: BatchDraft) -> int:
    if draft.max_timestamp_ms is not None:
        return draft.max_timestamp_ms
    return max([NO_TIMESTAMP_MS, *(record.timestamp_ms for record in draft.records)])


def _last_offset(draft: BatchDraft) -> int:
    if draft.last_offset is not None:
        return draft.last_offset
    return draft.records[-1].offset if draft.records else draft.base_offset


def _attributes(draft: BatchDraft) -> int:
    attributes = 0
    if draft.records:
        attributes |= draft.codec
        attributes |= HORIZON_BIT if draft.delete_horizon_ms is not None else 0
    attributes |= LOG_APPEND_TIME_BIT if draft.is_log_append_time else 0
    attributes |= TRANSACTIONAL_BIT if draft.is_transactional else 0
    attributes |= CONTROL_BIT if draft.is_control else 0
    return attributes


def _record_bytes(record: RecordDraft, offset_delta: int, base_timestamp_ms: int) -> bytes:
    parts = [
        b"\x00",
        _varint(record.timestamp_ms - base_timestamp_ms),
        _varint(offset_delta),
        _field(record.key),
        _field(record.value),
        _varint(len(record.headers)),
    ]
    for name, value in record.headers:
        parts += (_field(name), _field(value))
    body = b"".join(parts)
    return _varint(len(body)) + body


def _field(content: bytes | None) -> bytes:
    return _varint(-1) if content is None else _varint(len(content)) + content


def _varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)
