"""Finds the first batch in bytes that may begin in the middle of one."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.units import BATCH_HEADER_BYTES, OffsetSpan
from tierfold.storage.kafka.batch_layout import CRC, CRC_AT, LOG_OVERHEAD_BYTES, MAGIC
from tierfold.storage.kafka.checksums import crc32c

_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_STEP: Final = 2**16
"""Places that are looked at together: each takes 16 bytes."""


def first_batch(log: NDArray[np.uint8], offsets: OffsetSpan) -> int | None:
    """Where the first whole batch of magic 2 begins whose base offset is in `offsets`.

    None: there is none. It is known by its checksum: other bytes look like a batch of a given
    length and checksum once in 4 billion times. `log`: uint8.
    """
    count = len(log) - BATCH_HEADER_BYTES + 1
    if count <= 0:
        return None
    data = np.ascontiguousarray(log)
    base = np.ndarray((count,), ">i8", data, strides=(1,))
    length = np.ndarray((count,), ">i4", data, _LENGTH_AT, strides=(1,))
    for first in range(0, count, _STEP):
        last = min(first + _STEP, count)
        bases, lengths = base[first:last], length[first:last]
        ends = np.arange(first, last) + LOG_OVERHEAD_BYTES + lengths.astype(np.int64)
        fits = (lengths >= BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES) & (ends <= len(data))
        is_within = (bases >= offsets.start) & (bases < offsets.end)
        may_be = fits & is_within & (data[_MAGIC_AT + first : _MAGIC_AT + last] == MAGIC)
        for at in np.flatnonzero(may_be).tolist():
            (claimed,) = CRC.unpack_from(data.data, first + at + CRC_AT)
            if crc32c(data[first + at : ends[at]]) == claimed:
                return int(first + at)
    return None
