"""Kernels that encode surviving records again: first their sizes, then the bytes.

A record gets another timestamp delta, because the base timestamp changes, and another form: the
shortest varints and an attributes byte of 0, as Kafka's `DefaultRecord.writeTo` writes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.units import NO_HORIZON, NO_TIMESTAMP_MS
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.memory_copy import copy_bytes
from tierfold.storage.kafka.records import RecordColumns, Records, columns_of
from tierfold.storage.kafka.wire import (
    as_kernel_input,
    kernel,
    read_varint,
    varint_bytes,
    write_varint,
)


class Survivors(NamedTuple):
    """The batches without the removed records; all arrays but the last two are per batch.

    A batch that is not rewritten has count and payload 0, no base timestamp, the source's max.
    """

    first_record: NDArray[np.int64]
    """Of the source, shape (batches + 1,)."""
    record_count: NDArray[np.int32]
    payload_bytes: NDArray[np.int64]
    """Uncompressed."""
    base_offset: NDArray[np.int64]
    """The source's; of a legacy batch the first survivor's."""
    last_offset: NDArray[np.int64]
    """The source's; of a legacy batch the last survivor's."""
    base_timestamp_ms: NDArray[np.int64]
    max_timestamp_ms: NDArray[np.int64]
    horizon_ms: NDArray[np.int64]
    same_base: NDArray[np.bool_]
    """Timestamp and offset deltas are the source's, so a record may be copied as it is."""
    keep: NDArray[np.bool_]
    """Per record: whether it is written."""
    body_bytes: NDArray[np.int64]
    """Per record: the value of its length varint."""


def measure(
    heads: BatchHeads,
    records: Records,
    keep: NDArray[np.bool_],
    is_rewrite: NDArray[np.bool_],
    horizon_ms: NDArray[np.int64],
) -> Survivors:
    """The header fields and the sizes of the batches in which `is_rewrite` holds."""
    batches = len(heads)
    survivors = Survivors(
        first_record=records.first_record,
        record_count=np.zeros(batches, np.int32),
        payload_bytes=np.zeros(batches, np.int64),
        base_offset=heads.base_offset.copy(),
        last_offset=heads.last_offset.copy(),
        base_timestamp_ms=np.full(batches, NO_TIMESTAMP_MS, np.int64),
        max_timestamp_ms=heads.max_timestamp_ms.copy(),
        horizon_ms=horizon_ms,
        same_base=np.zeros(batches, np.bool_),
        keep=keep & is_rewrite[records.batch],
        body_bytes=np.empty(len(records), np.int64),
    )
    columns = columns_of(records)
    _summarise(columns, survivors, heads.is_legacy, heads.is_log_append_time)
    survivors.same_base[:] = (
        (survivors.base_timestamp_ms == heads.base_timestamp_ms)
        & ~heads.is_log_append_time
        & ~heads.is_legacy
    )
    _measure(as_kernel_input(records.body), columns, survivors)
    return survivors


def encode(
    records: Records,
    survivors: Survivors,
    chosen: NDArray[np.bool_],
    position: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Write the payload of each chosen batch into `out` (uint8), from its position on."""
    body = as_kernel_input(records.body)
    _encode(body, columns_of(records), survivors, chosen, position, out)


def written_bytes(
    records: Records, survivors: Survivors, is_copied: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The uncompressed size of each record as it is written, 0 if it is not.

    `is_copied`: the batches, per batch, that keep all their records as they are.
    """
    sizes = np.zeros(len(records), np.int64)
    _add_written(columns_of(records), survivors, is_copied, sizes)
    return sizes


@kernel
def _summarise(
    columns: RecordColumns,
    survivors: Survivors,
    is_legacy: NDArray[np.bool_],
    is_log_append_time: NDArray[np.bool_],
) -> None:
    for b in range(survivors.record_count.size):
        for i in range(survivors.first_record[b], survivors.first_record[b + 1]):
            if not survivors.keep[i]:
                continue
            if survivors.record_count[b] == 0:
                has_horizon = survivors.horizon_ms[b] != NO_HORIZON
                base_ms = survivors.horizon_ms[b] if has_horizon else columns.timestamp_ms[i]
                survivors.base_timestamp_ms[b] = base_ms
                if not is_log_append_time[b]:
                    survivors.max_timestamp_ms[b] = NO_TIMESTAMP_MS
                if is_legacy[b]:
                    survivors.base_offset[b] = columns.offset[i]
            survivors.record_count[b] += 1
            if not is_log_append_time[b]:
                survivors.max_timestamp_ms[b] = max(
                    survivors.max_timestamp_ms[b], columns.timestamp_ms[i]
                )
            if is_legacy[b]:
                survivors.last_offset[b] = columns.offset[i]


@kernel
def _measure(body: NDArray[np.uint8], columns: RecordColumns, survivors: Survivors) -> None:
    for b in range(survivors.record_count.size):
        if survivors.record_count[b] == 0:
            continue
        payload_bytes = 0
        for i in range(survivors.first_record[b], survivors.first_record[b + 1]):
            if survivors.keep[i]:
                size = 1  # Attributes.
                size += varint_bytes(columns.timestamp_ms[i] - survivors.base_timestamp_ms[b])
                size += varint_bytes(columns.offset[i] - survivors.base_offset[b])
                size += _field_bytes(columns.key_bytes[i])
                size += _field_bytes(columns.value_bytes[i])
                size += _headers_bytes(body, columns, i)
                survivors.body_bytes[i] = size
                payload_bytes += _whole_bytes(size)
        survivors.payload_bytes[b] = payload_bytes


@kernel
def _whole_bytes(body_bytes: int) -> int:
    """The size of a record with its length varint."""
    return varint_bytes(body_bytes) + body_bytes


@kernel
def _add_written(
    columns: RecordColumns,
    survivors: Survivors,
    is_copied: NDArray[np.bool_],
    sizes: NDArray[np.int64],
) -> None:
    for b in range(is_copied.size):
        for i in range(survivors.first_record[b], survivors.first_record[b + 1]):
            if is_copied[b]:
                sizes[i] = columns.end[i] - columns.start[i]
            elif survivors.keep[i]:
                sizes[i] = _whole_bytes(survivors.body_bytes[i])


@kernel
def _field_bytes(content_bytes: int) -> int:
    return varint_bytes(content_bytes) + max(content_bytes, 0)


@kernel
def _headers_bytes(body: NDArray[np.uint8], columns: RecordColumns, i: int) -> int:
    size = varint_bytes(columns.headers_count[i])
    at = columns.headers_at[i]
    for _ in range(2 * columns.headers_count[i]):  # A name and a value each.
        content_bytes, at = read_varint(body, at, columns.end[i])
        content_bytes = max(content_bytes, -1)
        size += _field_bytes(content_bytes)
        at += max(content_bytes, 0)
    return size


@kernel
def _encode(
    body: NDArray[np.uint8],
    columns: RecordColumns,
    survivors: Survivors,
    chosen: NDArray[np.bool_],
    position: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    for b in range(position.size):
        if not chosen[b]:
            continue
        at = position[b]
        for i in range(survivors.first_record[b], survivors.first_record[b + 1]):
            if not survivors.keep[i]:
                continue
            size = survivors.body_bytes[i]
            start = columns.start[i]
            whole_bytes = _whole_bytes(size)
            if survivors.same_base[b] and columns.end[i] - start == whole_bytes:
                # As long as its shortest form, so it is that form. (Or a null has another negative
                # length, which every reader reads as null.)
                copy_bytes(body, start, whole_bytes, out, at)
                out[at + whole_bytes - size] = 0
                at += whole_bytes
            else:
                at = write_varint(out, at, size)
                out[at] = 0
                timestamp_delta = columns.timestamp_ms[i] - survivors.base_timestamp_ms[b]
                at = write_varint(out, at + 1, timestamp_delta)
                at = write_varint(out, at, columns.offset[i] - survivors.base_offset[b])
                at = _write_content(body, columns, i, out, at)


@kernel
def _write_content(
    body: NDArray[np.uint8], columns: RecordColumns, i: int, out: NDArray[np.uint8], at: int
) -> int:
    """Write key, value and headers of record i; return the position after them."""
    at = write_varint(out, at, columns.key_bytes[i])
    at = copy_bytes(body, columns.key_at[i], columns.key_bytes[i], out, at)
    at = write_varint(out, at, columns.value_bytes[i])
    at = copy_bytes(body, columns.value_at[i], columns.value_bytes[i], out, at)
    at = write_varint(out, at, columns.headers_count[i])
    source = columns.headers_at[i]
    for _ in range(2 * columns.headers_count[i]):
        content_bytes, source = read_varint(body, source, columns.end[i])
        content_bytes = max(content_bytes, -1)
        at = write_varint(out, at, content_bytes)
        at = copy_bytes(body, source, content_bytes, out, at)
        source += max(content_bytes, 0)
    return at
