"""Computes checksums: CRC32C of magic 2 batches and of objects, CRC32 (zlib) of older batches.

Each is one C call over a view; no byte is copied.
"""

from __future__ import annotations

import zlib
from typing import Final

import google_crc32c
import numpy as np
from numpy.typing import NDArray

V2_CRC_COVERS_FROM: Final = 21
"""From the attributes to the batch's end (KIP-98): brokers set the epoch later."""

LEGACY_CRC_COVERS_FROM: Final = 16
"""From the magic byte to the message's end (KIP-31)."""


def crc32c(batch: NDArray[np.uint8]) -> int:
    """The checksum that a whole magic 2 batch (uint8, from its base offset on) must have."""
    return int(google_crc32c.value(batch[V2_CRC_COVERS_FROM:]))


def crc32(message: NDArray[np.uint8]) -> int:
    """The checksum that a whole magic 0 or 1 message (uint8, from its offset on) must have."""
    return zlib.crc32(message[LEGACY_CRC_COVERS_FROM:].data)


def checksum(batch: NDArray[np.uint8], magic: int) -> int:
    """The checksum that a whole batch of that magic must have."""
    return crc32c(batch) if magic >= 2 else crc32(batch)


def object_crc32c(data: NDArray[np.uint8] | bytes, before: int = 0) -> int:
    """The CRC32C of an object (uint8) up to the end of `data`; `before`: of what precedes it."""
    return int(google_crc32c.extend(before, data))
