"""Lying logs: sound logs, changed with knowledge of the format, whose checksums are valid.

They pass the checksum and reach the parsers. Anyone who can write to a topic can write such
batches, and so can a client with a bug.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from tests.faults.malformed.malformed_bytes import (
    VARINT_EXTREMES,
    Field,
    corrupted,
    fields_of,
    interesting,
    overwritten,
    overwritten_at,
)
from tests.faults.malformed.malformed_reference import cut_in_batches, plain_payload
from tests.storage.corrupted_bytes import patched
from tests.storage.corrupted_bytes import summed as summed_v2
from tests.storage.kafka_dumps import NAMES, log_bytes
from tests.storage.legacy_messages import message, wrapper
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.compression import Codec, compress
from tierfold.storage.kafka.control_records import ControlType, end_marker

_V2: Final = fields_of("qiibihiqqqhii")
V2_FIELDS: Final[Sequence[Field]] = (*_V2[:6], (22, "b"), *_V2[6:])
"""All header fields of magic 2; those of the attributes also as one byte."""
V1_FIELDS: Final[Sequence[Field]] = fields_of("qiibbqi")
"""Offset, size, CRC, magic, attributes, timestamp, key length."""
V0_FIELDS: Final[Sequence[Field]] = fields_of("qiibbi")
HEADER: Final = "version"
"""The header that holds the version."""
TIME_MS: Final = 1_700_000_000_000
BATCHES_MOST: Final = 4
_KEYS: Final = (b"a", b"b", b"", b"a long key, longer than eight", None)
_VALUES: Final = (b"1", b"", None, b"value " * 9)
_VERSIONS: Final = (struct.pack(">q", 5), struct.pack(">q", -2), b"short", None)


@functools.cache
def golden(prefix: str) -> tuple[bytes, ...]:
    """Return logs that Kafka wrote, in pieces of a few batches; `prefix`: v0, v1 or v2."""
    pieces: list[bytes] = []
    for name in NAMES:
        if name.startswith(prefix):
            batches = list(cut_in_batches(log_bytes(name)))
            pieces += [
                b"".join(batches[i : i + BATCHES_MOST])
                for i in range(0, len(batches), BATCHES_MOST)
            ]
    return tuple(pieces)


def v2_log(rng: Random) -> bytes:
    """Draw a sound log of magic 2."""
    if rng.random() < 0.4:
        return rng.choice(golden("v2"))
    batches, at = [], rng.choice((0, 7, 2**31, 2**40))
    for _ in range(rng.randrange(1, BATCHES_MOST)):
        draft = _draft(at, rng)
        at = (draft.last_offset or at) + rng.choice((1, 1, 3))
        batches.append(write_batch(draft))
    return b"".join(batches)


def _draft(base_offset: int, rng: Random) -> BatchDraft:
    kind = rng.random()
    if kind < 0.1:
        key, value = end_marker(rng.randrange(9), rng.choice(list(ControlType)[:3]))
        end = RecordDraft(offset=base_offset, timestamp_ms=TIME_MS, key=key, value=value)
        return BatchDraft(
            base_offset=base_offset,
            records=(end,),
            last_offset=base_offset,
            producer_id=5,
            producer_epoch=0,
            is_control=True,
            is_transactional=True,
        )
    records = tuple(_records(base_offset, rng)) if kind < 0.95 else ()
    is_produced = rng.random() < 0.2
    return BatchDraft(
        base_offset=base_offset,
        records=records,
        last_offset=(records[-1].offset if records else base_offset) + rng.choice((0, 0, 2)),
        codec=rng.choice(list(Codec)),
        leader_epoch=rng.choice((-1, 0, 3)),
        producer_id=5 if is_produced else -1,
        producer_epoch=0 if is_produced else -1,
        base_sequence=2**31 - 2 if is_produced else -1,
        is_transactional=is_produced and rng.random() < 0.5,
        is_log_append_time=rng.random() < 0.2,
        delete_horizon_ms=rng.choice((None, None, 500, 5000)) if records else None,
    )


def _records(base_offset: int, rng: Random) -> list[RecordDraft]:
    offset, records = base_offset, []
    for _ in range(rng.randrange(1, 6)):
        records.append(
            RecordDraft(
                offset=offset,
                timestamp_ms=TIME_MS + rng.randrange(-5, 5),
                key=rng.choice(_KEYS),
                value=rng.choice(_VALUES),
                headers=tuple(
                    (rng.choice((HEADER.encode(), b"", b"other")), rng.choice(_VERSIONS))
                    for _ in range(rng.choice((0, 0, 1, 2)))
                ),
            )
        )
        offset += rng.choice((1, 1, 1, 4))
    return records


def legacy_log(rng: Random) -> bytes:
    """Draw a sound log of magic 0 or 1."""
    magic = rng.randrange(2)
    if rng.random() < 0.4:
        return rng.choice(golden(f"v{magic}"))
    at, log = rng.choice((0, 5, 2**33)), b""
    for _ in range(rng.randrange(1, BATCHES_MOST)):
        count = rng.choice((1, 1, 3))
        is_wrapped = count > 1 or rng.random() < 0.3
        inner = b"".join(
            _message((i if magic and is_wrapped else at + i), magic, rng) for i in range(count)
        )
        at += count
        if is_wrapped:
            codec = rng.choice((Codec.GZIP, Codec.SNAPPY, Codec.LZ4))
            attributes = rng.choice((0, 8)) if magic else 0
            inner = wrapper(at - 1, inner, magic=magic, codec=codec, attributes=attributes)
        log += inner
    return log


def _message(offset: int, magic: int, rng: Random) -> bytes:
    key, value = rng.choice(_KEYS), rng.choice(_VALUES)
    return message(offset, value, magic=magic, timestamp_ms=TIME_MS, key=key)


def lying(log: bytes, rng: Random) -> bytes:
    """Change one batch of a sound log and its checksum, or repeat, drop or truncate the batch."""
    batches = list(cut_in_batches(log))
    i = rng.randrange(len(batches))
    kind = rng.random()
    if kind < 0.05:
        batches.insert(rng.randrange(len(batches)), batches[i])
    elif kind < 0.08:
        del batches[i]
    elif kind < 0.12:
        batches[i] = batches[i][:61]
    else:
        change = _changed_v2 if batches[i][16] == 2 else _changed_legacy
        batches[i] = change(batches[i], rng)
    return b"".join(batches)


def _changed_v2(batch: bytes, rng: Random) -> bytes:
    (attributes,) = struct.unpack_from(">h", batch, 21)
    (count,) = struct.unpack_from(">i", batch, 57)
    kind = rng.random()
    if kind < 0.4 or not count:
        return summed(overwritten(batch, V2_FIELDS, rng))
    if kind < 0.55:
        return rebuilt(batch, corrupted(batch[61:], rng))
    codec = attributes & 7
    plain = plain_payload(codec, batch[61:]) if codec else batch[61:]
    if kind < 0.75:
        plain = corrupted(plain, rng)
    else:
        plain = lying_record(rng) * rng.choice((1, 1, 1, count))
    if rng.random() < 0.2:
        codec = rng.choice(list(Codec))
        batch = overwritten_at(batch, (21, "h"), attributes & ~7 | codec)
    return rebuilt(batch, compress(codec, plain))


def lying_record(rng: Random) -> bytes:
    """Draw a record of magic 2 with a wrong length, count or delta."""
    numbers = [b"\x00", b"\x00", b"\x02", b"\x04", b"\x02", b"\x02", b"\x00"]
    numbers[rng.randrange(len(numbers))] = rng.choice(VARINT_EXTREMES)
    time, offset, key, value, headers, name, header = numbers
    body = b"\x00" + time + offset + key + b"k" + value + b"vv" + headers
    if rng.random() < 0.7:
        body += name + b"n" + header
    size = bytes([2 * len(body)]) if len(body) < 64 else bytes([2 * len(body) & 0x7F | 0x80, 1])
    if rng.random() < 0.2:
        size = rng.choice(VARINT_EXTREMES)
    return size + body


def _changed_legacy(batch: bytes, rng: Random) -> bytes:
    magic = batch[16]
    fields = V1_FIELDS if magic else V0_FIELDS
    codec = batch[17] & 7
    value_at = fields[-1][0] + 8
    kind = rng.random()
    if not codec or kind < 0.4:
        if kind < 0.6:
            return summed(overwritten(batch, fields, rng))
        return summed(resized(corrupted(batch, rng)))
    stored = batch[value_at:]
    if kind < 0.55:
        stored = corrupted(stored, rng)
    else:
        inner = list(cut_in_batches(plain_payload(codec, stored)))
        i = rng.randrange(len(inner))
        change = rng.random()
        if change < 0.5:
            inner[i] = overwritten(inner[i], fields, rng)
        elif change < 0.9:
            inner[i] = corrupted(inner[i], rng)
        else:
            inner = []
        stored = compress(codec, b"".join(inner))
    length = struct.pack(">i", len(stored))
    return summed(resized(batch[: value_at - 4] + length + stored))


def rebuilt(batch: bytes, payload: bytes) -> bytes:
    """Return a batch of magic 2 with another payload."""
    return summed(resized(batch[:61] + payload))


def resized(batch: bytes) -> bytes:
    """Return the batch with its length field corrected."""
    return overwritten_at(batch, (8, "i"), len(batch) - 12)


def summed(batch: bytes) -> bytes:
    """Return the batch with its checksum recomputed, as its magic byte demands."""
    if len(batch) < 26:
        return batch
    is_v2 = batch[16] == 2
    return summed_v2(batch) if is_v2 else patched(batch, 12, "I", zlib.crc32(batch[16:]))


def malformed(log: bytes, rng: Random) -> bytes:
    """Corrupt a log at random, make it lie, or both; rarely return it unchanged."""
    kind = rng.random()
    if kind < 0.02:
        return log
    if kind < 0.25:
        return corrupted(log, rng)
    log = lying(log, rng)
    return corrupted(log, rng) if kind > 0.95 else log


def control_batch(rng: Random) -> bytes:
    """Draw a control batch with an arbitrary record."""
    key = struct.pack(">hh", interesting("h", rng), rng.choice((0, 1, 2, 5, 77)))
    value = struct.pack(">hi", interesting("h", rng), interesting("i", rng))
    record = RecordDraft(
        offset=9,
        timestamp_ms=TIME_MS,
        key=rng.choice((key, key, corrupted(key, rng), None)),
        value=rng.choice((value, corrupted(value, rng), None)),
    )
    chosen = rng.choice(((record,), (record,), (record, record), ()))
    records = tuple(replace(record, offset=9 + i) for i, record in enumerate(chosen))
    return write_batch(BatchDraft(base_offset=9, records=records, is_control=True, producer_id=5))
