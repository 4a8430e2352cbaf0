"""Reads a segment's batches one at a time, sound or not, for people who look for corruption.

Other readers refuse a corrupt segment as a whole. Here each batch is read by itself, so the first
one appears at once however large the file is, and a corrupt one does not hide the others.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.kafka.batch_headers import LOG_OVERHEAD_BYTES, BatchHeads, read_heads
from tierfold.storage.kafka.checksums import checksum
from tierfold.storage.segments.segment_reader import Record, SegmentContent

_LENGTH: Final = struct.Struct(">8xi")


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedBatch:
    """One batch as it lies in the log."""

    position: int
    """Byte position in the log."""
    heads: BatchHeads
    """Of this one batch."""
    data: NDArray[np.uint8]
    """Its bytes."""
    is_valid: bool
    """Its checksum is right; otherwise none of its fields can be trusted."""
    where: str

    def records(self) -> tuple[Record, ...]:
        """Its records.

        Raises:
            CorruptLog: They are not what the header promises.
        """
        content = SegmentContent(heads=self.heads, log=self.data, where=self.where)
        return tuple(record for batch in content.batches() for record in batch.records)


def walk(path: Path) -> Iterator[WalkedBatch]:
    """The batches of a `.log` in file order.

    Raises:
        UnreadableObject: The file is missing or cannot be read.
        CorruptLog: A batch's header is impossible or the log is torn, so that the next
            batch's start is unknown; the batches before it were yielded.
    """
    log = _mapped(path)
    position = 0
    while position < len(log):
        where = f"{path} from byte {position} on"
        size_bytes = len(log) - position
        if size_bytes >= LOG_OVERHEAD_BYTES:
            (length,) = _LENGTH.unpack_from(log.data, position)
            size_bytes = min(size_bytes, max(length, 0) + LOG_OVERHEAD_BYTES)
        data = log[position : position + size_bytes]
        heads = read_heads(data, where=where, check_crc=False)
        yield WalkedBatch(
            position=position,
            heads=heads,
            data=data,
            is_valid=checksum(data, int(heads.magic[0])) == int(heads.crc[0]),
            where=where,
        )
        position += size_bytes


def _mapped(path: Path) -> NDArray[np.uint8]:
    try:
        if path.stat().st_size == 0:
            raise CorruptLog(
                "0 bytes: no broker uploads such a segment",
                where=str(path),
                remedy="Restore it from a copy.",
            )
        return np.memmap(path, np.uint8, mode="r")
    except OSError as error:
        raise UnreadableObject(
            f"the file cannot be read ({error.strerror})",
            where=str(path),
            remedy="Check the path and its rights.",
        ) from error
