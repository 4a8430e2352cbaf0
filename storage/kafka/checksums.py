"""Checksums: CRC32C of magic 2 batches, CRC32 (zlib) of older ones, CRC32C of objects.

One C call per batch or object over a view of it; no byte is copied.
"""

from __future__ import annotations

import zlib
from typing import Final

import google_crc32c
import numpy as np
from numpy.typing import NDArray

V2_CRC_COVERS_FROM: Final = 21
"""From the attributes to the batch's end (KIP-98); brokers set the epoch before it."""

LEGACY_CRC_COVERS_FROM: Final = 16
"""From the magic byte to the message's end (KIP-31)."""


def crc32c(batch: NDArray[np.uint8]) -> int:
    """The checksum that a whole magic 2 batch (uint8, from its base offset on) should carry."""
    return int(google_crc32c.value(batch[V2_CRC_COVERS_FROM:]))


def crc32(message: NDArray[np.uint8]) -> int:
    """The checksum that a whole magic 0 or 1 message (uint8, from its offset on) should carry."""
    return zlib.crc32(message[LEGACY_CRC_COVERS_FROM:].data)


def checksum(batch: NDArray[np.uint8], magic: int) -> int:
    """The checksum that a whole batch of that magic should carry."""
    return crc32c(batch) if magic >= 2 else crc32(batch)


def object_crc32c(data: NDArray[np.uint8] | bytes, before: int = 0) -> int:
    """The CRC32C of a whole object (uint8), or of what is known of it so far and `data`.

    `before` is the checksum of all that comes before `data` in the object.
    """
    return int(google_crc32c.extend(before, data))
