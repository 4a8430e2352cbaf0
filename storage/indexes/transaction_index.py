"""The transaction index (`.txnindex`): the aborted transactions whose marker is in the segment.

Rule: Kafka `AbortedTxn` and `TransactionIndex`. Entries of 34 bytes, big-endian: int16 version 0,
int64 producer id, int64 first offset, int64 last offset, int64 last stable offset; last offsets
ascend. A segment without aborted transactions has no transaction index.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from typing import Final

from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog, from_backup, of_unknown_version
from tierfold.storage.tiers.object_store import Bytes, as_view

ABORTED_ENTRY_BYTES: Final = 34

_ENTRY: Final = struct.Struct(
    ">h"  # version
    "q"  # producer id
    "q"  # first offset
    "q"  # last offset: the marker's
    "q"  # last stable offset
)
_NAMES: Final = tuple(field.name for field in dataclasses.fields(AbortedTransaction))
"""In the order of the entry."""
_VERSION: Final = 0
_REMEDY: Final = (
    "Without the index, readers take aborted records for committed ones. "
    + from_backup("the index")
)


def read_transaction_index(data: Bytes, where: str) -> tuple[AbortedTransaction, ...]:
    """The entries of a whole index; raises CorruptLog."""
    if len(data) % ABORTED_ENTRY_BYTES:
        raise CorruptLog(
            f"a transaction index of {len(data)} bytes is torn: entries have {ABORTED_ENTRY_BYTES}",
            where=where,
            remedy=_REMEDY,
        )
    found: list[AbortedTransaction] = []
    for entry, fields in enumerate(_ENTRY.iter_unpack(as_view(data))):
        version, producer_id, first_offset, last_offset, last_stable_offset = fields
        before = found[-1].last_offset if found else -1
        corruption = None
        if version != _VERSION:
            raise CorruptLog(
                f"entry {entry} of the transaction index has version {version}, and tierfold knows"
                f" only {_VERSION}",
                where=where,
                remedy=of_unknown_version("the index"),
            )
        if min(producer_id, first_offset, last_stable_offset) < 0 or last_offset < first_offset:
            corruption = f"has offsets {first_offset} to {last_offset} of producer {producer_id}"
        elif last_offset <= before:
            corruption = (
                f"ends at offset {last_offset}, not above {before}, where the one before ends"
            )
        if corruption is not None:
            raise CorruptLog(
                f"entry {entry} of the transaction index {corruption}", where=where, remedy=_REMEDY
            )
        found.append(AbortedTransaction(**dict(zip(_NAMES, fields[1:], strict=True))))
    return tuple(found)


def write_transaction_index(aborted: Sequence[AbortedTransaction]) -> bytes:
    """The bytes of an index; `aborted` is ordered by last offset."""
    return b"".join(
        _ENTRY.pack(_VERSION, *(getattr(transaction, name) for name in _NAMES))
        for transaction in aborted
    )
