"""Computes checksums: CRC32C of magic 2 batches and of objects, CRC32 (zlib) of older batches.

No byte is copied. The checksums of many batches take one call, which releases Python's lock.
"""

from __future__ import annotations

import ctypes
import zlib
from typing import Final

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from tierfold.storage.kafka.native_calls import address_of, c_function, call, pointer
from tierfold.storage.kafka.wire import as_kernel_input, kernel

V2_CRC_COVERS_FROM: Final = 21
"""From the attributes to the batch's end (KIP-98): brokers set the epoch later."""

LEGACY_CRC_COVERS_FROM: Final = 16
"""From the magic byte to the message's end (KIP-31)."""

CRC32C_EXTEND: Final = address_of("google_crc32c._crc32c", "crc32c_extend")
"""(checksum so far, address, bytes) → the checksum with these bytes; for `crc32c_of`."""

_EXTEND: Final = c_function("google_crc32c._crc32c", "crc32c_extend")


def crc32c(batch: NDArray[np.uint8]) -> int:
    """The checksum that a whole magic 2 batch (uint8, from its base offset on) must have."""
    return int(google_crc32c.value(batch[V2_CRC_COVERS_FROM:]))


def crc32(message: NDArray[np.uint8]) -> int:
    """The checksum that a whole magic 0 or 1 message (uint8, from its offset on) must have."""
    return zlib.crc32(message[LEGACY_CRC_COVERS_FROM:].data)


def checksum(batch: NDArray[np.uint8], magic: int) -> int:
    """The checksum that a whole batch of that magic must have."""
    return crc32c(batch) if magic >= 2 else crc32(batch)


def checksums(
    log: NDArray[np.uint8],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    magic: NDArray[np.int8],
) -> NDArray[np.uint32]:
    """The checksum that each batch `log[start:end]` must have, shape (batches,).

    The batches are whole. The other arrays have that shape, too.
    """
    found = np.empty(len(start), np.uint32)
    _crc32c_each(CRC32C_EXTEND, as_kernel_input(log), start, end, magic, found)
    for i in np.flatnonzero(magic < 2).tolist():
        found[i] = crc32(log[start[i] : end[i]])
    return found


def object_crc32c(data: NDArray[np.uint8] | bytes, before: int = 0) -> int:
    """The CRC32C of an object (uint8) up to the end of `data`; `before`: of what precedes it."""
    found = np.frombuffer(data, np.uint8)
    address, size_bytes = ctypes.c_void_p(found.ctypes.data), ctypes.c_size_t(found.size)
    return int(_EXTEND(ctypes.c_uint32(before), address, size_bytes)) & 0xFFFFFFFF


@kernel
def crc32c_of(extend: int, log: NDArray[np.uint8], start: int, end: int) -> int:
    """The checksum that the magic 2 batch `log[start:end]` must have, for kernels.

    `extend` is `CRC32C_EXTEND`.
    """
    at = start + V2_CRC_COVERS_FROM
    return int(call(extend, (0, pointer(log, at), end - at)) & 0xFFFFFFFF)


@kernel
def _crc32c_each(
    extend: int,
    log: NDArray[np.uint8],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    magic: NDArray[np.int8],
    out: NDArray[np.uint32],
) -> None:
    """Fill `out` for the batches of magic 2."""
    for i in range(start.size):
        if magic[i] == 2:
            out[i] = crc32c_of(extend, log, start[i], end[i])
