"""Reads a segment's batches one at a time, for `dump`, also from a corrupt segment.

Other readers refuse a corrupt segment as a whole. Here each batch is read by itself, so the first
one of a large file appears at once, and a corrupt one does not hide the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tierfold.storage.kafka.batch_headers import BatchHeads, read_heads
from tierfold.storage.kafka.batch_layout import claimed_bytes
from tierfold.storage.kafka.checksums import checksum
from tierfold.storage.kafka.compression import USUAL_LIMITS, PlainLimits
from tierfold.storage.segments.segment_reader import Record, SegmentContent, unreadable
from tierfold.storage.tiers.folder_handles import opened_file


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedBatch:
    """One batch of a log, whether its checksum is right or not."""

    position: int
    """Byte position in the log."""
    heads: BatchHeads
    """Of this one batch."""
    data: NDArray[np.uint8]
    """Its bytes."""
    is_valid: bool
    """Its checksum is right; if not, its fields cannot be trusted."""
    where: str

    def records(self, limits: PlainLimits = USUAL_LIMITS) -> tuple[Record, ...]:
        """Its records; raises CorruptLog if they are not what the header promises."""
        content = SegmentContent(
            heads=self.heads, log=self.data, where=self.where, limits=limits
        )
        return tuple(record for batch in content.batches() for record in batch.records)


def walk(path: Path) -> Iterator[WalkedBatch]:
    """The batches of a `.log` in file order.

    Raises UnreadableObject, and CorruptLog at a torn batch or an impossible header: then the next
    batch cannot be found.
    """
    return walk_log(mapped(path), str(path))


def walk_log(log: NDArray[np.uint8], name: str) -> Iterator[WalkedBatch]:
    """The batches of a log that was read; `name` is for messages. Raises CorruptLog as `walk`."""
    position = 0
    while position < len(log):
        where = f"{name} from byte {position} on"
        data = log[position : position + claimed_bytes(log.data[position:])]
        heads = read_heads(data, where=where, check_crc=False)
        yield WalkedBatch(
            position=position,
            heads=heads,
            data=data,
            is_valid=checksum(data, int(heads.magic[0])) == int(heads.crc[0]),
            where=where,
        )
        position += len(data)


def mapped(path: Path) -> NDArray[np.uint8]:
    """The bytes of a `.log`; there may be none. Raises UnreadableObject."""
    try:
        with opened_file(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
            if os.fstat(descriptor).st_size == 0:
                return np.empty(0, np.uint8)  # A broker's cleaner has emptied it; it has no map.
            return np.memmap(file, np.uint8, mode="r")
    except OSError as error:
        raise unreadable(error, str(path)) from error
