"""The records of magic 2 batches, decoded to columns: positions into a buffer, no objects.

A record (KIP-98): length varint, attributes i8, timestamp delta varlong, offset delta varint, key,
value, headers. Key and value have a varint length (−1: null), headers a varint count, and each
header a key and a nullable value. The kernel reads nothing beyond the end of a record.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.kernel_memory import CACHE_LINE_BYTES, prefetch
from tierfold.storage.kafka.batch_headers import RECORD_BYTES_MIN, BatchHeads, compare_checksums
from tierfold.storage.kafka.batch_layout import corrupt_batch
from tierfold.storage.kafka.checksums import CRC32C_EXTEND, crc32c_of
from tierfold.storage.kafka.columns import empty_columns
from tierfold.storage.kafka.compression import USUAL_LIMITS, Codec, PlainLimits
from tierfold.storage.kafka.payloads import Place, batch_at, plain_payloads
from tierfold.storage.kafka.wire import as_kernel_input, kernel, read_varint, read_varlong

_OK, _LENGTH, _BROKEN, _END, _OFFSET, _GARBAGE, _CRC = range(7)
_CORRUPTIONS: Final = (
    "",
    "its length leads out of the batch",
    "a field of it leads out of the record or is no varint",
    "its fields do not end where its length says",
    "its offset lies outside the batch or does not rise",
    "bytes are left over after the last record",
    "its batch has a bad CRC",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """One entry per record of the decoded batches, in offset order.

    Every array but `body` and `first_record` has one entry per record.
    """

    body: NDArray[np.uint8]
    """The buffer that the positions point into; read-only."""
    batch: NDArray[np.int32]
    """Index into the heads that were decoded."""
    first_record: NDArray[np.int64]
    """Shape (batches + 1,): batch i holds the records `[first_record[i], first_record[i + 1])`."""
    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    """As Kafka's `Record.timestamp()`: under LogAppendTime the batch's max timestamp."""
    start: NDArray[np.int64]
    """The record is `body[start:end]`, its length varint included."""
    end: NDArray[np.int64]
    key_at: NDArray[np.int64]
    key_bytes: NDArray[np.int32]
    """−1: null."""
    value_at: NDArray[np.int64]
    value_bytes: NDArray[np.int32]
    """−1: null."""
    headers_at: NDArray[np.int64]
    """The first header, after the count; the headers end where the record does."""
    headers_count: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offset)


_NOT_PER_RECORD: Final = ("body", "first_record")

# Numba takes named tuples, and mypy checks the kernels by the fields of the dataclass.
if TYPE_CHECKING:
    RecordColumns = Records
else:
    RecordColumns = namedtuple(
        "RecordColumns",
        [field.name for field in fields(Records) if field.name not in _NOT_PER_RECORD],
    )
    """The arrays per record of `Records`, in the form that a kernel takes."""


class _Payloads(NamedTuple):
    """What the kernel needs of the batches; `body[start:end]` is the payload of one."""

    crc32c_extend: int
    """`CRC32C_EXTEND`: each batch must have the checksum of its header; 0: it is not computed."""
    position: NDArray[np.int64]
    crc: NDArray[np.uint32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    first_record: NDArray[np.int64]
    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    base_timestamp_ms: NDArray[np.int64]
    max_timestamp_ms: NDArray[np.int64]
    is_log_append_time: NDArray[np.bool_]


def empty_records(records: int) -> dict[str, NDArray[Any]]:
    """Unfilled arrays for so many records: the fields of `RecordColumns`."""
    return empty_columns(Records, records, but=_NOT_PER_RECORD)


def columns_of(records: Records) -> RecordColumns:
    """The records' arrays, for a kernel."""
    names = (field.name for field in fields(Records) if field.name not in _NOT_PER_RECORD)
    return RecordColumns(**{name: getattr(records, name) for name in names})


def decode(
    log: NDArray[np.uint8],
    heads: BatchHeads,
    *,
    where: str,
    origin: int = 0,
    check_crc: bool = False,
    limits: PlainLimits = USUAL_LIMITS,
) -> Records:
    """The records of all of `heads`: any run of the batches of `log`, of magic 2.

    If no batch is compressed, the body is the log itself, else one new buffer with all payloads.
    For errors: `where` is the object or file, `origin` the position of `log[0]` in it. With
    `check_crc` the checksum of each batch is compared first: right before it is decoded, so that it
    is read from memory once. Raises CorruptLog if a checksum differs, or if a payload cannot be
    decompressed, or is not the records that its header announces; and TooMuchTogether.
    """
    is_compressed = bool(heads.codec.any())
    if check_crc and is_compressed:
        compare_checksums(log, heads, where=where, origin=origin)
    place = Place(where, origin, limits)
    body, start, end = plain_payloads(as_kernel_input(log), heads, place)
    _refuse_crowded(heads, end - start, where, origin)
    first_record = np.zeros(len(heads) + 1, np.int64)
    np.cumsum(heads.count, out=first_record[1:])
    columns = empty_records(int(first_record[-1]))
    payloads = _Payloads(
        crc32c_extend=CRC32C_EXTEND if check_crc and not is_compressed else 0,
        position=heads.position,
        crc=heads.crc,
        start=start,
        end=end,
        first_record=first_record,
        base_offset=heads.base_offset,
        last_offset=heads.last_offset,
        base_timestamp_ms=heads.base_timestamp_ms,
        max_timestamp_ms=heads.max_timestamp_ms,
        is_log_append_time=heads.is_log_append_time,
    )
    code, batch, record, at = _decode(body, payloads, RecordColumns(**columns))
    if code == _CRC:
        compare_checksums(log, heads.slice(0, batch + 1), where=where, origin=origin)
    if code != _OK:
        nth = f"record {record - first_record[batch]} at payload byte {at - start[batch]}"
        named = batch_at(heads, batch, origin)
        raise corrupt_batch(f"{named} is broken at {nth}: {_CORRUPTIONS[code]}", where)
    return Records(body=body, first_record=first_record, **columns)


_COLUMNS_BYTES: Final = 384
"""What a record counts in a window, besides its bytes: its columns and its share of key blocks."""

_COMPRESSED: Final = 8
"""How often a compressed batch counts: decoded, it takes several times as much."""


def window_share(
    size_bytes: NDArray[np.int64], records: NDArray[np.int32], is_plain: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """How many bytes of a window each batch counts for, with what decoding it takes.

    `size_bytes`: stored; `is_plain`: not compressed. All have shape (batches,).
    """
    plain_bytes = size_bytes + _COLUMNS_BYTES * records.astype(np.int64)
    return np.where(is_plain, plain_bytes, _COMPRESSED * size_bytes)


def windows(
    heads: BatchHeads, *, window_bytes: int, batch_bytes_max: int = 0
) -> Iterator[tuple[int, int]]:
    """Cut `heads` into ranges `[first, last)` of at most `window_bytes` stored bytes.

    They are counted by `window_share`. A range holds at least one batch. None holds both legacy and
    magic 2 batches, so that one function decodes it. If a batch may take more than usual, see
    `compression.plain_bytes_max`, each compressed one has a range of its own: together they might
    take any amount of memory.
    """
    is_plain = heads.codec == Codec.NONE
    counted_bytes = window_share(heads.size_bytes, heads.count, is_plain)
    if batch_bytes_max:
        counted_bytes[~is_plain] = window_bytes + 1
    ends = np.cumsum(counted_bytes)
    turns = np.flatnonzero(np.diff(heads.is_legacy)) + 1
    first = 0
    while first < len(heads):
        before = int(ends[first] - counted_bytes[first])
        last = int(np.searchsorted(ends, before + window_bytes, side="right"))
        next_turn = int(np.searchsorted(turns, first, side="right"))
        limit = int(turns[next_turn]) if next_turn < turns.size else len(heads)
        last = min(max(last, first + 1), limit)
        yield first, last
        first = last


def headers_of(records: Records, i: int) -> list[tuple[bytes, bytes | None]]:
    """The headers of record i, in order; a name may occur twice. Slow: for `dump` and tests."""
    headers: list[tuple[bytes, bytes | None]] = []
    at, end = int(records.headers_at[i]), int(records.end[i])
    for _ in range(records.headers_count[i]):
        name, at = _read_bytes(records.body, at, end)
        value, at = _read_bytes(records.body, at, end)
        headers.append((name or b"", value))
    return headers


def _read_bytes(body: NDArray[np.uint8], at: int, end: int) -> tuple[bytes | None, int]:
    size_bytes, at = read_varint(body, at, end)
    if size_bytes < 0:
        return None, at
    return body[at : at + size_bytes].tobytes(), at + size_bytes


def _refuse_crowded(
    heads: BatchHeads, payload_bytes: NDArray[np.int64], where: str, origin: int
) -> None:
    """Raise CorruptLog if a batch claims more records than its payload can hold."""
    crowded = np.flatnonzero(heads.count.astype(np.int64) * RECORD_BYTES_MIN > payload_bytes)
    if crowded.size:
        i = int(crowded[0])
        place = batch_at(heads, i, origin)
        what = f"claims {heads.count[i]} records in {payload_bytes[i]} bytes of payload"
        raise corrupt_batch(f"{place} {what}", where)


@kernel
def _decode(
    body: NDArray[np.uint8], payloads: _Payloads, out: RecordColumns
) -> tuple[int, int, int, int]:
    """Fill `out`; return a code, and the batch, record and position where it failed."""
    for b in range(payloads.start.size):
        at = payloads.start[b]
        end = payloads.end[b]
        if payloads.crc32c_extend != 0:
            crc = crc32c_of(payloads.crc32c_extend, body, payloads.position[b], end)
            if crc != payloads.crc[b]:
                return _CRC, b, payloads.first_record[b], at
        # While this batch is decoded, the processor loads the next one.
        ahead = payloads.start[b + 1] - at if b + 1 < payloads.start.size else 0
        lowest = payloads.base_offset[b]
        for i in range(payloads.first_record[b], payloads.first_record[b + 1]):
            code = _decode_record(body, at, end, out, i)
            if code != _OK:
                return code, b, i, at
            offset = payloads.base_offset[b] + out.offset[i]
            if offset < lowest or offset > payloads.last_offset[b]:
                return _OFFSET, b, i, at
            out.batch[i] = b
            out.offset[i] = offset
            if payloads.is_log_append_time[b]:
                out.timestamp_ms[i] = payloads.max_timestamp_ms[b]
            else:
                out.timestamp_ms[i] += payloads.base_timestamp_ms[b]
            lowest = offset + 1
            if ahead > 0:
                for line in range(at, out.end[i], CACHE_LINE_BYTES):
                    prefetch(body, line + ahead)
            at = out.end[i]
        if at != end:
            return _GARBAGE, b, payloads.first_record[b + 1], at
    return _OK, 0, 0, 0


@kernel
def _decode_record(body: NDArray[np.uint8], at: int, stop: int, out: RecordColumns, i: int) -> int:
    """Decode record i at `at`; its offset and timestamp stay deltas."""
    out.start[i] = at
    size_bytes, at = read_varint(body, at, stop)
    if at < 0 or size_bytes < RECORD_BYTES_MIN - 1 or size_bytes > stop - at:
        return _LENGTH
    end = at + size_bytes
    out.end[i] = end
    out.timestamp_ms[i], at = read_varlong(body, at + 1, end)  # Attributes: none are in use.
    if at < 0:
        return _BROKEN
    out.offset[i], at = read_varint(body, at, end)
    if at < 0:
        return _BROKEN
    out.key_bytes[i], out.key_at[i], at = _read_field(body, at, end)
    if at < 0:
        return _BROKEN
    out.value_bytes[i], out.value_at[i], at = _read_field(body, at, end)
    if at < 0:
        return _BROKEN
    headers, at = read_varint(body, at, end)
    if at < 0 or headers < 0 or headers > end - at:
        return _BROKEN
    out.headers_count[i] = headers
    out.headers_at[i] = at
    for _ in range(headers):
        name_bytes, _at, at = _read_field(body, at, end)
        if at < 0 or name_bytes < 0:
            return _BROKEN
        _bytes, _at, at = _read_field(body, at, end)
        if at < 0:
            return _BROKEN
    return _OK if at == end else _END


@kernel
def _read_field(body: NDArray[np.uint8], at: int, end: int) -> tuple[int, int, int]:
    """Return a field's length (−1: null), its position, and the position after it.

    As in Kafka, every negative length means null. The position after is −1 if it does not fit.
    """
    size_bytes, at = read_varint(body, at, end)
    if at < 0 or size_bytes > end - at:
        return -1, at, -1
    if size_bytes < 0:
        return -1, at, at
    return size_bytes, at, at + size_bytes
