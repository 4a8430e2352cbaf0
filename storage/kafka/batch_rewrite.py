"""Copies, rewrites, empties or drops batches, as decided.

Rule: Kafka's `MemoryRecords.filterTo` and `buildRetainedRecordsInto`. An uncompressed batch gets
the same bytes as from Kafka. Kernels encode all payloads of a call, the uncompressed ones in
place; then they are compressed, and headers and checksums follow.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.record_retention import BatchRetention
from tierfold.compaction.model.units import BATCH_HEADER_BYTES, NO_HORIZON
from tierfold.storage.kafka.batch_draft import BatchDraft, write_batch
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.batch_layout import (
    CONTROL_BIT,
    CRC_AT,
    HEADER_WIDTHS,
    HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)
from tierfold.storage.kafka.checksums import checksums
from tierfold.storage.kafka.compression import Codec, compress
from tierfold.storage.kafka.memory_copy import copy_bytes
from tierfold.storage.kafka.native_codecs import LEFT, Payloads, compress_run
from tierfold.storage.kafka.payload_encoding import Survivors, encode, measure, written_bytes
from tierfold.storage.kafka.records import Records
from tierfold.storage.kafka.wire import as_kernel_input, kernel, write_be


class RewrittenBatches(NamedTuple):
    """What `rewrite_batches` made of some batches."""

    data: NDArray[np.uint8]
    """The new bytes of all of them."""
    batch_bytes: NDArray[np.int64]
    """Per batch of the source: how many of the bytes it takes; 0: dropped."""
    record_bytes: NDArray[np.int64]
    """Per record of the source: its uncompressed size as written; 0: not written."""


_ROOM_BYTES_MIN: Final = 1024
"""With a quarter of the payload more than any codec adds to what it cannot compress."""


def rewrite_batches(
    log: NDArray[np.uint8],
    heads: BatchHeads,
    records: Records,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    horizon_ms: NDArray[np.int64],
) -> RewrittenBatches:
    """The batches as decided.

    Args:
        log: uint8, the bytes that `heads` was read from.
        heads: The batches to write, a window of the log; legacy ones become magic 2.
        records: The records of these batches.
        keep: bool, per record; only used in batches to rewrite.
        retention: int8 `BatchRetention`, per batch.
        horizon_ms: int64, per batch: the delete horizon of a rewritten batch, or `NO_HORIZON`.

    Raises ValueError if a batch to rewrite keeps no record: a bug in the caller.
    """
    is_rewrite = retention == BatchRetention.REWRITE
    survivors = measure(heads, records, keep, is_rewrite, horizon_ms)
    if np.any(survivors.record_count[is_rewrite] == 0):
        raise ValueError("a batch without survivors is emptied or dropped, never rewritten")
    compressed = _compressed_payloads(heads, records, survivors)
    sizes = _sizes(heads, retention, survivors, compressed)
    ends = np.cumsum(sizes)
    position = ends - sizes
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    _copy_runs(
        as_kernel_input(log), heads, np.flatnonzero(retention == BatchRetention.COPY), position, out
    )
    is_plain = is_rewrite & (heads.codec == Codec.NONE)
    encode(records, survivors, is_plain, position + BATCH_HEADER_BYTES, out)
    _copy_payloads(compressed, position + BATCH_HEADER_BYTES, out)
    _write_headers(heads, retention, survivors, position, out)
    is_copied = retention == BatchRetention.COPY
    return RewrittenBatches(out, sizes, written_bytes(records, survivors, is_copied))


def closing_batch(offset: int, leader_epoch: int) -> bytes:
    """An empty batch of one offset, without producer and timestamp: 61 bytes.

    Written where the sources of a round end in a hole; readers would get stuck there.
    """
    return write_batch(BatchDraft(base_offset=offset, leader_epoch=leader_epoch))


class _Compressed(NamedTuple):
    """The new payloads of the rewritten batches that are compressed."""

    batch: NDArray[np.int64]
    """Their batches, ascending."""
    data: NDArray[np.uint8]
    at: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    """`data[at : at + size_bytes]` is the payload."""


def _compressed_payloads(heads: BatchHeads, records: Records, survivors: Survivors) -> _Compressed:
    is_compressed = (survivors.record_count > 0) & (heads.codec != Codec.NONE)
    batch = np.flatnonzero(is_compressed)
    end = np.cumsum(np.where(is_compressed, survivors.payload_bytes, 0))
    plain = np.empty(int(end[-1]) if len(batch) else 0, np.uint8)
    encode(records, survivors, is_compressed, end - survivors.payload_bytes, plain)
    plain_bytes = survivors.payload_bytes[batch]
    room = plain_bytes + plain_bytes // 4 + _ROOM_BYTES_MIN
    at = np.cumsum(room) - room
    data = np.empty(int(room.sum()), np.uint8)
    payloads = Payloads(
        start=end[batch] - plain_bytes,
        end=end[batch],
        codec=heads.codec[batch],
        records=survivors.record_count[batch],
        out_bytes=np.empty(len(batch), np.int64),
    )
    if len(batch):
        compress_run(plain, payloads, data, at)
    for i in np.flatnonzero(payloads.out_bytes == LEFT).tolist():
        payload = compress(int(payloads.codec[i]), plain[payloads.start[i] : payloads.end[i]])
        payloads.out_bytes[i] = len(payload)
        data[at[i] : at[i] + len(payload)] = np.frombuffer(payload, np.uint8)
    return _Compressed(batch=batch, data=data, at=at, size_bytes=payloads.out_bytes)


@kernel
def _copy_payloads(
    compressed: _Compressed, position: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    """Copy each payload to its batch's `position`."""
    for i in range(compressed.batch.size):
        to = position[compressed.batch[i]]
        copy_bytes(compressed.data, compressed.at[i], compressed.size_bytes[i], out, to)


def _sizes(
    heads: BatchHeads,
    retention: NDArray[np.int8],
    survivors: Survivors,
    compressed: _Compressed,
) -> NDArray[np.int64]:
    payload_bytes = survivors.payload_bytes.copy()
    payload_bytes[compressed.batch] = compressed.size_bytes
    sizes = np.zeros(len(heads), np.int64)
    sizes[retention == BatchRetention.EMPTY] = BATCH_HEADER_BYTES
    np.copyto(sizes, heads.size_bytes, where=retention == BatchRetention.COPY)
    np.copyto(sizes, payload_bytes + BATCH_HEADER_BYTES, where=retention == BatchRetention.REWRITE)
    return sizes


def _copy_runs(
    log: NDArray[np.uint8],
    heads: BatchHeads,
    copied: NDArray[np.int64],
    position: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Copy neighbouring batches as one slice: a clean region has long runs of them."""
    starts = heads.position[copied]
    ends = starts + heads.size_bytes[copied]
    for run in np.split(copied, np.flatnonzero(starts[1:] != ends[:-1]) + 1):
        if run.size:
            source = log[
                heads.position[run[0]] : heads.position[run[-1]] + heads.size_bytes[run[-1]]
            ]
            start = int(position[run[0]])
            out[start : start + source.size] = source


def _write_headers(
    heads: BatchHeads,
    retention: NDArray[np.int8],
    survivors: Survivors,
    position: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    is_new = (retention == BatchRetention.REWRITE) | (retention == BatchRetention.EMPTY)
    written = np.flatnonzero(is_new)
    ends = np.append(position[1:], out.size)[written]
    starts = position[written]
    base_offset = survivors.base_offset[written]
    no_checksum_yet = np.zeros(written.size, np.int64)
    fields = (
        base_offset,
        ends - starts - LOG_OVERHEAD_BYTES,
        heads.leader_epoch[written],
        np.full(written.size, MAGIC),
        no_checksum_yet,
        _attributes(heads, survivors)[written],
        survivors.last_offset[written] - base_offset,
        survivors.base_timestamp_ms[written],
        survivors.max_timestamp_ms[written],
        heads.producer_id[written],
        heads.producer_epoch[written],
        heads.base_sequence[written],
        survivors.record_count[written],
    )
    _fill_headers(starts, np.column_stack(fields).astype(np.int64), out)
    crc = checksums(out, starts, ends, np.full(written.size, MAGIC, np.int8))
    _fill_checksums(starts, crc, out)


@kernel
def _fill_headers(
    start: NDArray[np.int64], fields: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    """Write a header at each start; `fields` has shape (batches, fields of `HEADER`)."""
    for i in range(start.size):
        at = start[i]
        for field in range(len(HEADER_WIDTHS)):
            at = write_be(out, at, fields[i, field], HEADER_WIDTHS[field])


@kernel
def _fill_checksums(
    start: NDArray[np.int64], crc: NDArray[np.uint32], out: NDArray[np.uint8]
) -> None:
    for i in range(start.size):
        write_be(out, start[i] + CRC_AT, int(crc[i]), 4)


def _attributes(heads: BatchHeads, survivors: Survivors) -> NDArray[np.int16]:
    """Keep timestamp type and flags; an emptied batch has neither codec nor horizon."""
    has_horizon = (survivors.record_count > 0) & (survivors.horizon_ms != NO_HORIZON)
    attributes = np.where(survivors.record_count > 0, heads.codec, Codec.NONE).astype(np.int16)
    attributes |= heads.is_log_append_time * np.int16(LOG_APPEND_TIME_BIT)
    attributes |= heads.is_transactional * np.int16(TRANSACTIONAL_BIT)
    attributes |= heads.is_control * np.int16(CONTROL_BIT)
    attributes |= has_horizon * np.int16(HORIZON_BIT)
    return attributes
