"""Walks a log from batch to batch, by the length that each one claims.

Nothing else of a batch is looked at but its magic: see `storage.kafka.batch_headers`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import BATCH_HEADER_BYTES
from tierfold.storage.kafka.batch_layout import (
    LEGACY_BYTES_MIN,
    LOG_OVERHEAD_BYTES,
    corrupt_batch,
    unknown_batch,
)
from tierfold.storage.kafka.wire import as_kernel_input, be_int, kernel

HEAD_BYTES_MIN: Final = 17
"""Enough to know a batch's length and magic; every batch is longer."""

_OK, _TORN, _SHORT, _MAGIC = range(4)
_CORRUPTIONS: Final = {
    _TORN: "the log is torn at byte {at}: a batch there needs {found} bytes more",
    _SHORT: "the batch at byte {at} claims {found} bytes, fewer than a batch can have",
    _MAGIC: "the batch at byte {at} has magic {found}; Kafka has 0, 1 and 2",
}


def batch_starts(log: NDArray[np.uint8], *, where: str, origin: int = 0) -> NDArray[np.int64]:
    """Where each batch of whole batches (uint8) starts, shape (batches,).

    For errors: `where` is the object or file, `origin` the position of `log[0]` in it. Raises
    CorruptLog if the batches are not whole, or one of them claims what no batch can have.
    """
    log = as_kernel_input(log)
    batches, code, at, found = _count_batches(log)
    if code != _OK:
        refused = unknown_batch if code == _MAGIC else corrupt_batch
        raise refused(_CORRUPTIONS[code].format(at=origin + at, found=found), where)
    start = np.empty(batches, np.int64)
    _fill_starts(log, start)
    return start


def whole_batches_bytes(log: NDArray[np.uint8]) -> tuple[int, int]:
    """How many bytes at the start of `log` are whole batches, and how many the next one lacks.

    If a batch claims what no batch can have, all bytes count as whole: `batch_starts` refuses them.
    """
    _, code, at, found = _count_batches(as_kernel_input(log))
    return (at, found) if code == _TORN else (len(log), 0)


def have_sizes(
    log: NDArray[np.uint8], start: NDArray[np.int64], size_bytes: NDArray[np.int32]
) -> bool:
    """Whether batches of these sizes and of a known magic start there; both: shape (batches,)."""
    if len(start) and start[-1] + size_bytes[-1] > len(log):
        return False
    return bool(_have_sizes(as_kernel_input(log), start, size_bytes))


def torn_batch(at: int, missing_bytes: int, where: str) -> CorruptLog:
    """The error for a batch at byte `at` that the log ends within."""
    return corrupt_batch(_CORRUPTIONS[_TORN].format(at=at, found=missing_bytes), where)


@kernel
def _count_batches(log: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """Return the number of batches, and a code, the byte position and the offending number."""
    at = 0
    batches = 0
    while at < log.size:
        left = log.size - at
        if left < HEAD_BYTES_MIN:
            return batches, _TORN, at, HEAD_BYTES_MIN - left
        magic = be_int(log, at + 16, 1)
        if magic < 0 or magic > 2:
            return batches, _MAGIC, at, magic
        size_bytes = be_int(log, at + 8, 4) + LOG_OVERHEAD_BYTES
        if size_bytes < (BATCH_HEADER_BYTES if magic == 2 else LEGACY_BYTES_MIN[magic]):
            return batches, _SHORT, at, size_bytes
        if size_bytes > left:
            return batches, _TORN, at, size_bytes - left
        at += size_bytes
        batches += 1
    return batches, _OK, at, 0


@kernel
def _fill_starts(log: NDArray[np.uint8], start: NDArray[np.int64]) -> None:
    """Fill in where the batches start, which were counted."""
    at = 0
    for i in range(start.size):
        start[i] = at
        at += be_int(log, at + 8, 4) + LOG_OVERHEAD_BYTES


@kernel
def _have_sizes(
    log: NDArray[np.uint8], start: NDArray[np.int64], size_bytes: NDArray[np.int32]
) -> bool:
    """Whether batches of these sizes and of a known magic start there."""
    for i in range(start.size):
        at = start[i]
        magic = be_int(log, at + 16, 1)
        if magic < 0 or magic > 2:
            return False
        if be_int(log, at + 8, 4) + LOG_OVERHEAD_BYTES != size_bytes[i]:
            return False
    return True
