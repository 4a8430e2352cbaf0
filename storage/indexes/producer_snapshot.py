"""The producer snapshot (`.snapshot`): the state of each producer at a segment's end.

Rule: Kafka `ProducerStateManager` and its `ProducerSnapshot` schema. Big-endian: int16 version 1,
uint32 CRC32C of the rest, int32 number of entries, then entries of 46 bytes. −1 means no offset, or
no open transaction.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import google_crc32c

from tierfold.compaction.model.errors import CorruptLog, from_backup, of_unknown_version
from tierfold.compaction.model.producers import NO_DATA_OFFSET, ProducerEntry
from tierfold.storage.tiers.object_store import Bytes

_HEAD: Final = struct.Struct(
    ">h"  # version
    "I"  # crc32c of all that follows
)
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(
    ">q"  # producer id
    "h"  # epoch
    "i"  # last sequence
    "q"  # last data offset
    "i"  # last offset delta
    "q"  # last timestamp, ms
    "i"  # coordinator epoch
    "q"  # first offset of the open transaction
)
_NAMES: Final = tuple(field.name for field in fields(ProducerEntry))  # In the same order.
_VERSION: Final = 1
_NO_TRANSACTION: Final = -1


def read_producer_snapshot(data: Bytes, where: str) -> tuple[ProducerEntry, ...]:
    """The producers in a whole snapshot; raises CorruptLog."""
    raw = bytes(data)
    head_bytes = _HEAD.size + _COUNT.size
    if len(raw) < head_bytes:
        raise _corrupt(f"it has {len(raw)} bytes, and needs at least {head_bytes}", where)
    version, crc = _HEAD.unpack_from(raw)
    if version != _VERSION:
        raise CorruptLog(
            f"the producer snapshot has version {version}, and tierfold knows only {_VERSION}",
            where=where,
            remedy=of_unknown_version("the snapshot"),
        )
    found = int(google_crc32c.value(raw[_HEAD.size :]))
    if found != crc:
        raise _corrupt(f"its CRC is {crc:#010x}, its bytes give {found:#010x}", where)
    (count,) = _COUNT.unpack_from(raw, _HEAD.size)
    if count < 0 or len(raw) != head_bytes + count * _ENTRY.size:
        raise _corrupt(f"{len(raw)} bytes cannot hold {count} producers", where)
    return tuple(_entry(fields) for fields in _ENTRY.iter_unpack(raw[head_bytes:]))


def write_producer_snapshot(entries: Sequence[ProducerEntry]) -> bytes:
    """The bytes of a snapshot, with the entries in this order."""
    body = _COUNT.pack(len(entries)) + b"".join(_packed(entry) for entry in entries)
    return _HEAD.pack(_VERSION, int(google_crc32c.value(body))) + body


def _entry(values: tuple[int, ...]) -> ProducerEntry:
    entry: dict[str, Any] = dict(zip(_NAMES, values, strict=True))
    entry["last_data_offset"] = max(entry["last_data_offset"], NO_DATA_OFFSET)
    if entry["current_txn_first_offset"] < 0:
        entry["current_txn_first_offset"] = None
    return ProducerEntry(**entry)


def _packed(entry: ProducerEntry) -> bytes:
    values = (getattr(entry, name) for name in _NAMES)
    return _ENTRY.pack(*(_NO_TRANSACTION if value is None else value for value in values))


def _corrupt(what: str, where: str) -> CorruptLog:
    return CorruptLog(
        f"the producer snapshot is damaged: {what}",
        where=where,
        remedy=from_backup("it"),
    )
