"""Reads and writes control records (KIP-98, KIP-595, KIP-853).

The key holds the type: version int16, type int16. Later versions may append fields, which are
ignored. The value of a transaction marker: version int16, coordinator epoch int32 (Kafka
`EndTransactionMarker`).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.batch_layout import corrupt_batch
from tierfold.storage.kafka.records import Records

NOT_CONTROL: Final = -1
"""In `control_types`: an ordinary batch."""

EMPTIED: Final = -2
"""In `control_types`: a control batch whose record a cleaner removed."""

_KEY: Final = struct.Struct(">hh")
_END_MARKER: Final = struct.Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    """Kafka `ControlRecordType`."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


def control_types(
    records: Records, heads: BatchHeads, *, where: str, origin: int = 0
) -> NDArray[np.int16]:
    """The type of each batch's first record, shape (batches,); it may be none of `ControlType`.

    `NOT_CONTROL` for an ordinary batch, `EMPTIED` for a control batch without records. `where` and
    `origin` as for `decode`. Raises CorruptLog if a control record's key is too short, or its
    version or type is negative.
    """
    kinds = np.full(len(heads), NOT_CONTROL, np.int16)
    if not heads.is_control.any():
        return kinds
    first, after = records.first_record[:-1], records.first_record[1:]
    kinds[heads.is_control & (first == after)] = EMPTIED
    batches = np.flatnonzero(heads.is_control & (first < after))
    marker = first[batches]
    long_enough = records.key_bytes[marker] >= _KEY.size
    # A short key must not be read: byte 0 is read instead, and the key is refused below.
    at = np.where(long_enough, records.key_at[marker], 0)
    version = _int16(records.body, at)
    kind = _int16(records.body, at + 2)
    broken = np.flatnonzero(~long_enough | (version < 0) | (kind < 0))
    if broken.size:
        i = int(batches[broken[0]])
        raise corrupt_batch(
            f"the control batch at byte {origin + heads.position[i]} "
            f"(base offset {heads.base_offset[i]}) has no readable type in its record's key",
            where,
        )
    kinds[batches] = kind
    return kinds


def control_type(key: bytes | None) -> ControlType:
    """The type in a control record's key; UNKNOWN if Kafka has none like it."""
    if key is None or len(key) < _KEY.size:
        return ControlType.UNKNOWN
    version, kind = _KEY.unpack_from(key)
    known = version >= 0 and kind in ControlType.__members__.values()
    return ControlType(kind) if known else ControlType.UNKNOWN


def coordinator_epoch(value: bytes | None) -> int | None:
    """The coordinator epoch in a transaction marker's value; None if the value is too short."""
    if value is None or len(value) < _END_MARKER.size:
        return None
    _version, epoch = _END_MARKER.unpack_from(value)
    return int(epoch)


def end_marker(epoch: int, kind: ControlType) -> tuple[bytes, bytes]:
    """Key and value of a transaction marker."""
    return _KEY.pack(_VERSION, kind), _END_MARKER.pack(_VERSION, epoch)


def _int16(body: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int16]:
    high, low = body[at].astype(np.uint16), body[at + 1].astype(np.uint16)
    return ((high << 8) | low).view(np.int16)
