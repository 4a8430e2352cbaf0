"""Turns decoded records into Arrow columns; it copies each wanted byte once, and no other.

`jobs.sources.segment_options` describes the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.compaction.verification.value_digest import DIGEST_BYTES, digests
from tierfold.storage.kafka.batch_layout import NO_EPOCH
from tierfold.storage.kafka.memory_copy import copy_bytes
from tierfold.storage.kafka.record_versions import OFFSETS_DECIDE, VersionSource
from tierfold.storage.kafka.records import Records
from tierfold.storage.kafka.wire import kernel, read_varint
from tierfold.storage.segments.log_pieces import ChosenRecords

BATCH_BYTES: Final = 16 * 2**20
"""The approximate maximum of a record batch; a single record may be larger."""

_ROW_BYTES: Final = 64  # The cost of a row beside its bytes: offsets, numbers, null bits.
_MICROS: Final = 1000
_YEARS_MS: Final = (-62_135_596_800_000, 253_402_300_799_999)
"""The first and the last millisecond of the years 1 to 9999, which Spark's `TimestampType` and
Python's `datetime` can hold. Kafka accepts any time from a producer, so there are nanoseconds in
place of milliseconds (KAFKA-14991)."""


def record_batches(
    key: PartitionKey,
    chosen: ChosenRecords,
    schema: pa.Schema,
    versions: VersionSource = OFFSETS_DECIDE,
) -> Iterator[pa.RecordBatch]:
    """The chosen records as batches of `schema`; `versions` are for the column `version`."""
    for rows in _stretches(chosen, schema.names):
        columns = [
            _version(chosen.records, rows, versions)
            if field.name == "version"
            else _column(key, chosen, rows, field)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def content_batches(chosen: ChosenRecords, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """As `record_batches`, of a segment whose topic is not known: only columns of its content."""
    for rows in _stretches(chosen, schema.names):
        columns = [_content(chosen, rows, field) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _stretches(chosen: ChosenRecords, names: list[str]) -> Iterator[NDArray[np.int64]]:
    """Split the rows so that the wanted bytes of each part are at most `BATCH_BYTES`."""
    rows, records = chosen.rows, chosen.records
    weights = np.full(rows.size, _ROW_BYTES, np.int64)
    if "key" in names:
        weights += np.maximum(records.key_bytes[rows], 0)
    if "value" in names:
        weights += np.maximum(records.value_bytes[rows], 0)
    if "headers" in names:
        headers_bytes = records.end[rows] - records.headers_at[rows]
        weights += headers_bytes + _ROW_BYTES * records.headers_count[rows].astype(np.int64)
    ends = np.cumsum(weights)
    first = 0
    while first < rows.size:
        before = int(ends[first] - weights[first])
        last = max(first + 1, int(np.searchsorted(ends, before + BATCH_BYTES, side="right")))
        yield rows[first:last]
        first = last


def _column(
    key: PartitionKey, chosen: ChosenRecords, rows: NDArray[np.int64], field: pa.Field
) -> pa.Array:
    match field.name:
        case "topic":
            return pa.repeat(pa.scalar(key.topic, field.type), rows.size)
        case "partition":
            return pa.repeat(pa.scalar(key.partition, field.type), rows.size)
        case _:
            return _content(chosen, rows, field)


def _content(chosen: ChosenRecords, rows: NDArray[np.int64], field: pa.Field) -> pa.Array:
    records = chosen.records
    match field.name:
        case "offset":
            return pa.array(records.offset[rows], field.type)
        case "timestamp":
            return _timestamps(records.timestamp_ms[rows], field.type)
        case "timestamp_ms":
            times_ms = records.timestamp_ms[rows]
            return pa.array(times_ms, field.type, mask=times_ms == NO_TIMESTAMP_MS)
        case "key":
            return _bytes(records.body, records.key_at[rows], records.key_bytes[rows], field.type)
        case "value":
            return _bytes(
                records.body, records.value_at[rows], records.value_bytes[rows], field.type
            )
        case "value_digest":
            return _digests(records, rows, field.type)
        case "headers":
            return _headers(records, rows, field.type)
        case _:
            epochs = chosen.heads.leader_epoch[records.batch[rows]]
            return pa.array(epochs, field.type, mask=epochs == NO_EPOCH)


def _version(records: Records, rows: NDArray[np.int64], versions: VersionSource) -> pa.Array:
    found, _malformed = versions.versions_of(records, rows)
    if found is None:
        return pa.array(records.offset[rows])
    return pa.array(found.value, mask=~found.is_known)


def _digests(records: Records, rows: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    value_bytes = records.value_bytes[rows]
    found = digests(records.body, records.value_at[rows], value_bytes)
    sizes = np.where(value_bytes < 0, -1, DIGEST_BYTES).astype(np.int32)
    at = np.arange(rows.size, dtype=np.int64) * DIGEST_BYTES
    return _bytes(found.reshape(-1).view(np.uint8), at, sizes, kind)


def _timestamps(times_ms: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Timestamps in microseconds; null where a record has none, or one beyond `_YEARS_MS`."""
    first, last = _YEARS_MS
    is_null = (times_ms == NO_TIMESTAMP_MS) | (times_ms < first) | (times_ms > last)
    return pa.array(np.where(is_null, 0, times_ms) * _MICROS, kind, mask=is_null)


def _bytes(
    body: NDArray[np.uint8], at: NDArray[np.int64], size: NDArray[np.int32], kind: pa.DataType
) -> pa.Array:
    """An array of `kind` (binary or string); a negative size is a null."""
    offsets = np.zeros(size.size + 1, np.int32)
    np.cumsum(np.maximum(size, 0), out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    _gather(body, at, size, data)
    buffers = [_valid(size >= 0), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, size.size, buffers)


def _valid(is_valid: NDArray[np.bool_]) -> pa.Buffer | None:
    """Arrow's validity bitmap; None: nothing is null."""
    if is_valid.all():
        return None
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


def _headers(records: Records, rows: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Lists of key and value; null where a record has no header, as in Spark's Kafka source."""
    counts = records.headers_count[rows]
    offsets = np.zeros(rows.size + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    fields = int(offsets[-1])
    places = [np.empty(fields, np.int64) for _ in range(2)]
    sizes = [np.empty(fields, np.int32) for _ in range(2)]
    _place_headers(
        records.body,
        (records.headers_at[rows], records.end[rows], counts),
        (places[0], sizes[0], places[1], sizes[1]),
    )
    pair = kind.value_type
    names = _texts(_bytes(records.body, places[0], sizes[0], pa.binary()))
    values = _bytes(records.body, places[1], sizes[1], pair.field(1).type)
    entries = pa.Array.from_buffers(pair, fields, [None], children=[names, values])
    buffers = [_valid(counts > 0), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, rows.size, buffers, children=[entries])


def _texts(names: pa.Array) -> pa.Array:
    """The names as UTF-8, malformed bytes replaced, as Kafka's `RecordHeader.key` does."""
    distinct = names.dictionary_encode()
    texts = [name.decode("utf-8", "replace") for name in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


@kernel
def _gather(
    body: NDArray[np.uint8], at: NDArray[np.int64], size: NDArray[np.int32], out: NDArray[np.uint8]
) -> None:
    """Copy the fields one after the other into `out`, which has room for all."""
    end = 0
    for i in range(at.size):
        end = copy_bytes(body, at[i], size[i], out, end)


_Spans = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]
_Places = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]


@kernel
def _place_headers(body: NDArray[np.uint8], spans: _Spans, out: _Places) -> None:
    """Find each header's key and value; `decode` has checked that they lie in the record."""
    headers_at, end, counts = spans
    name_at, name_bytes, value_at, value_bytes = out
    n = 0
    for i in range(counts.size):
        at = headers_at[i]
        for _ in range(counts[i]):
            name_bytes[n], at = read_varint(body, at, end[i])
            name_at[n] = at
            at += max(name_bytes[n], 0)
            value_bytes[n], at = read_varint(body, at, end[i])
            value_at[n] = at
            at += max(value_bytes[n], 0)
            n += 1
