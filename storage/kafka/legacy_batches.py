"""Messages of magic 0 and 1, alone or compressed in a wrapper (KIP-31, KIP-32).

A message is a header (`batch_layout`), then key and value, each with an int32 length (−1: null). A
wrapper is a message whose value is a compressed run of messages. Inner offsets are absolute in
magic 0. In magic 1 they are relative, and the wrapper's offset is that of the last one (Kafka
`AbstractLegacyRecordBatch.DeepRecordsIterator`). The wrapper's checksum covers the inner messages,
whose own checksums are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.storage.kafka.batch_headers import NO_OFFSET, UNKNOWN_COUNT, BatchHeads
from tierfold.storage.kafka.batch_layout import (
    CODEC_BITS,
    LEGACY_BYTES_MIN,
    LOG_OVERHEAD_BYTES,
    corrupt_batch,
    disordered_batch,
)
from tierfold.storage.kafka.compression import (
    USUAL_LIMITS,
    Codec,
    PlainLimits,
    bytes_left,
    decompress,
)
from tierfold.storage.kafka.gzip_members import TooMuch
from tierfold.storage.kafka.payloads import TooMuchTogether
from tierfold.storage.kafka.records import (
    RecordColumns,
    Records,
    decode,
    empty_records,
    windows,
)
from tierfold.storage.kafka.wire import as_kernel_input, be_int, kernel

_OK, _TORN, _FIELD, _MAGIC, _NESTED, _ORDER, _EMPTY = range(7)
_CORRUPTIONS: Final = (
    "",
    "a message is cut, or shorter than a message can be",
    "a key or value leads out of its message",
    "a message's magic is not its wrapper's",
    "a wrapper lies within a wrapper",
    "an offset does not rise, or lies beyond its wrapper's",
    "a wrapper holds no message",
)


class DecodeLimits(NamedTuple):
    """How much is decoded at a time."""

    window_bytes: int
    """Stored bytes, as `records.windows` counts them."""
    plain: PlainLimits = USUAL_LIMITS


class _Spans(NamedTuple):
    """`body[start:end]` is a batch's run of messages; the other fields are its wrapper's."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    first_record: NDArray[np.int64]
    magic: NDArray[np.int8]
    is_wrapper: NDArray[np.bool_]
    last_offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    is_log_append_time: NDArray[np.bool_]


def decode_any(
    log: NDArray[np.uint8],
    heads: BatchHeads,
    *,
    where: str,
    origin: int = 0,
    check_crc: bool = False,
    limits: PlainLimits = USUAL_LIMITS,
) -> Records:
    """The records of a range of `records.windows`, legacy or not.

    With `check_crc` the checksums of batches of magic 2 are compared, see `decode`. Raises
    CorruptLog, and TooMuchTogether.
    """
    if len(heads) and heads.is_legacy[0]:
        return decode_legacy(log, heads, where=where, origin=origin, limits=limits)
    return decode(log, heads, where=where, origin=origin, check_crc=check_crc, limits=limits)


def decoded_runs(
    log: NDArray[np.uint8],
    heads: BatchHeads,
    *,
    where: str,
    origin: int = 0,
    check_crc: bool = False,
    limits: PlainLimits = USUAL_LIMITS,
) -> Iterator[tuple[int, int, Records]]:
    """The runs `[first, last)` of `heads` that are decoded together, each with its records.

    That is one run, unless its payloads expand to more than `limits.together_bytes`. Then it ends
    before the one that did not fit, and is decoded again. The parameters are those of `decode_any`;
    raises CorruptLog.
    """
    first, last = 0, len(heads)
    while first < last:
        run = heads.slice(first, last)
        try:
            records = decode_any(
                log, run, where=where, origin=origin, check_crc=check_crc, limits=limits
            )
        except TooMuchTogether as beyond:
            last = first + beyond.batch
            continue
        yield first, last, records
        first, last = last, len(heads)


def with_inner_heads(
    log: NDArray[np.uint8],
    heads: BatchHeads,
    *,
    limits: DecodeLimits,
    where: str,
    origin: int = 0,
    after: int = NO_OFFSET,
) -> BatchHeads:
    """`heads` with the true base offset and record count of each wrapper.

    Only the inner messages hold them, so every wrapper is decompressed, and once more when its
    records are read. The other parameters are those of `read_heads`.

    Raises CorruptLog as `decode_legacy` does, and if a wrapper overlaps the previous batch.
    """
    if not (heads.count == UNKNOWN_COUNT).any():
        return heads
    base_offset, count = heads.base_offset.copy(), heads.count.copy()
    most = limits.plain.batch_bytes
    for start, end in windows(heads, window_bytes=limits.window_bytes, batch_bytes_max=most):
        window = heads.slice(start, end)
        if not (window.count == UNKNOWN_COUNT).any():
            continue
        runs = decoded_runs(log, window, where=where, origin=origin, limits=limits.plain)
        for first, last, records in runs:
            run = slice(start + first, start + last)
            base_offset[run] = records.offset[records.first_record[:-1]]
            count[run] = np.diff(records.first_record)
    previous = np.append(after, heads.last_offset[:-1])
    back = np.flatnonzero(base_offset <= previous)
    if back.size:
        i = int(back[0])
        raise disordered_batch(
            f"{_batch_at(heads, i, origin)} begins at offset {base_offset[i]}, though offset "
            f"{previous[i]} was there before it",
            where,
        )
    return replace(heads, base_offset=base_offset, count=count)


def decode_legacy(
    log: NDArray[np.uint8],
    heads: BatchHeads,
    *,
    where: str,
    origin: int = 0,
    limits: PlainLimits = USUAL_LIMITS,
) -> Records:
    """The records of all of `heads`: any run of the batches of `log`, of magic 0 and 1.

    A record's span is its message. It has no headers. Its timestamp is −1 in magic 0, and the
    wrapper's under LogAppendTime.

    Raises CorruptLog if a payload cannot be decompressed, or is no run of messages of that magic;
    and TooMuchTogether.
    """
    body, spans = _unwrapped(as_kernel_input(log), heads, where, origin, limits)
    code, batch, at = _count(body, spans)
    if code == _OK:
        columns = empty_records(int(spans.first_record[-1]))
        code, batch, at = _decode(body, spans, RecordColumns(**columns))
        if code == _OK:
            return Records(body=body, first_record=spans.first_record, **columns)
    at -= spans.start[batch]
    raise corrupt_batch(
        f"{_batch_at(heads, batch, origin)} is broken at byte {at} of its messages:"
        f" {_CORRUPTIONS[code]}",
        where,
    )


def _batch_at(heads: BatchHeads, i: int, origin: int) -> str:
    return f"the message at byte {origin + heads.position[i]} (offset {heads.last_offset[i]})"


def _unwrapped(
    log: NDArray[np.uint8], heads: BatchHeads, where: str, origin: int, limits: PlainLimits
) -> tuple[NDArray[np.uint8], _Spans]:
    """All messages in one buffer: single ones as they are, wrappers decompressed.

    Neighbouring single messages are copied as one slice: a log may have no others.
    """
    codec, ends_at = heads.codec, heads.position + heads.size_bytes
    is_wrapper = codec != Codec.NONE
    sizes = heads.size_bytes.copy()
    left_bytes = limits.together_bytes
    parts: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)]
    edges = np.flatnonzero(is_wrapper[1:] | is_wrapper[:-1]) + 1
    cuts = [0, *edges.tolist(), len(heads)] if len(heads) else []
    for first, last in pairwise(cuts):
        part = log[heads.position[first] : ends_at[last - 1]]
        if is_wrapper[first]:
            here = f"{where}: {_batch_at(heads, first, origin)}"
            value = _wrapper_value(part, int(heads.magic[first]), here)
            try:
                plain = decompress(
                    int(codec[first]),
                    value,
                    where=here,
                    mend_lz4_header=bool(heads.magic[first] == 0),
                    budget_bytes=limits.budget_bytes(left_bytes),
                    batch_bytes_max=limits.batch_bytes,
                )
            except TooMuch as error:
                raise TooMuchTogether(first) from error
            part = np.frombuffer(plain, np.uint8)
            sizes[first] = part.size
            left_bytes = bytes_left(left_bytes, part.size)
        parts.append(part)
    ends = np.cumsum(sizes)
    return as_kernel_input(np.concatenate(parts)), _Spans(
        start=ends - sizes,
        end=ends,
        first_record=np.zeros(len(heads) + 1, np.int64),
        magic=heads.magic,
        is_wrapper=is_wrapper,
        last_offset=heads.last_offset,
        timestamp_ms=heads.max_timestamp_ms,
        is_log_append_time=heads.is_log_append_time,
    )


def _wrapper_value(message: NDArray[np.uint8], magic: int, where: str) -> NDArray[np.uint8]:
    """The value's bytes; the message is at least as long as its magic's smallest."""
    key_bytes = be_int(message, _key_at(magic), 4)
    value_length_at = _key_at(magic) + 4 + max(key_bytes, 0)
    if value_length_at + 4 <= message.size:
        value_bytes = be_int(message, value_length_at, 4)
        value_at = value_length_at + 4
        if 0 <= value_bytes == message.size - value_at:
            return message[value_at:]
    raise corrupt_batch("a wrapper's value leads out of it or is null", where)


@kernel
def _key_at(magic: int) -> int:
    """The position of the key's length in a message: magic 1 has a timestamp before it."""
    return 26 if magic == 1 else 18


@kernel
def _count(body: NDArray[np.uint8], spans: _Spans) -> tuple[int, int, int]:
    """Fill `first_record`; return a code, and the batch and position where it failed."""
    records = 0
    for b in range(spans.start.size):
        at = spans.start[b]
        size_min = LEGACY_BYTES_MIN[spans.magic[b]]
        while at < spans.end[b]:
            left = spans.end[b] - at
            if left < size_min:
                return _TORN, b, at
            size_bytes = be_int(body, at + 8, 4) + LOG_OVERHEAD_BYTES
            if size_bytes < size_min or size_bytes > left:
                return _TORN, b, at
            if body[at + 16] != spans.magic[b]:
                return _MAGIC, b, at
            if spans.is_wrapper[b] and body[at + 17] & CODEC_BITS != 0:
                return _NESTED, b, at
            at += size_bytes
            records += 1
        if records == spans.first_record[b]:
            return _EMPTY, b, at
        spans.first_record[b + 1] = records
    return _OK, 0, 0


@kernel
def _decode(body: NDArray[np.uint8], spans: _Spans, out: RecordColumns) -> tuple[int, int, int]:
    """Fill `out`; return a code, and the batch and position where it failed."""
    previous = -1
    for b in range(spans.start.size):
        at = spans.start[b]
        first, after = spans.first_record[b], spans.first_record[b + 1]
        for i in range(first, after):
            if not _decode_message(body, at, spans.magic[b], out, i):
                return _FIELD, b, at
            out.batch[i] = b
            if spans.is_wrapper[b] and spans.is_log_append_time[b]:
                out.timestamp_ms[i] = spans.timestamp_ms[b]
            at = out.end[i]
        if spans.is_wrapper[b] and spans.magic[b] == 1:
            base_offset = spans.last_offset[b] - out.offset[after - 1]
            for i in range(first, after):
                out.offset[i] += base_offset
        for i in range(first, after):
            if out.offset[i] <= previous or out.offset[i] > spans.last_offset[b]:
                return _ORDER, b, out.start[i]
            previous = out.offset[i]
    return _OK, 0, 0


@kernel
def _decode_message(
    body: NDArray[np.uint8], at: int, magic: int, out: RecordColumns, i: int
) -> bool:
    """Decode message i at `at`, whose size was checked; return whether its fields fit."""
    end = at + be_int(body, at + 8, 4) + LOG_OVERHEAD_BYTES
    out.offset[i] = be_int(body, at, 8)
    out.timestamp_ms[i] = be_int(body, at + 18, 8) if magic == 1 else NO_TIMESTAMP_MS
    out.start[i] = at
    out.end[i] = end
    out.headers_at[i] = end
    out.headers_count[i] = 0
    at += _key_at(magic)
    key_bytes = max(be_int(body, at, 4), -1)
    at += 4
    if max(key_bytes, 0) > end - at - 4:
        return False
    out.key_at[i] = at
    out.key_bytes[i] = key_bytes
    at += max(key_bytes, 0)
    value_bytes = max(be_int(body, at, 4), -1)
    at += 4
    out.value_at[i] = at
    out.value_bytes[i] = value_bytes
    return at + max(value_bytes, 0) == end
