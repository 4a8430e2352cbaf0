"""Snapshots of producers at offsets where no segment begins.

A broker that shuts down takes one at the end of each log, in the middle of the active segment, and
keeps it when it starts again. So it may stay long after that segment has been rolled. While the
cleaner replaces a segment, the snapshot at its start looks just like that. What tells the two
apart is the segment below: if it has a batch that reaches the snapshot's offset, then no segment
begins there.
Rule: Kafka `ProducerStateManager.removeStraySnapshots`, `UnifiedLog.close`.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from tierfold.compaction.model.units import BATCH_HEADER_BYTES
from tierfold.storage.kafka.batch_layout import read_header

_ENTRY: Final = struct.Struct(">ii")
"""Of an offset index: an offset, from the segment's start on, and the position of its batch."""


def is_within(log: Path, index: Path, offset: int) -> bool:
    """Whether a segment has a batch that ends at `offset` or above; raises OSError.

    The last entry of its offset index is near its end, so little of the log is read.
    """
    with log.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        position = _last_position(index)
        with suppress(ValueError):
            while position < size_bytes:
                head = read_header(_at(file, position), size_bytes - position)
                if head.last_offset >= offset:
                    return True
                position += head.size_bytes
    return False


def _last_position(index: Path) -> int:
    """Where the last batch begins that the index of a rolled segment names; 0: it names none."""
    with index.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        if size_bytes < _ENTRY.size:
            return 0
        file.seek(size_bytes - _ENTRY.size)
        position: int = _ENTRY.unpack(file.read(_ENTRY.size))[1]
    return max(0, position)


def _at(file: BinaryIO, position: int) -> bytes:
    return os.pread(file.fileno(), BATCH_HEADER_BYTES, position)
