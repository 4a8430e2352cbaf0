"""Decompresses and compresses the lz4 and zstd payloads of a window in one call.

`storage.kafka.compression` does the same for one payload, by the packages' own functions. What a
call cannot do is left to it: other codecs, a payload without room, a corrupt one. So its errors and
its bounds hold here, too.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.storage.kafka.compression import ZSTD_LEVEL, Codec, plain_bytes_max
from tierfold.storage.kafka.memory_copy import copy_bytes
from tierfold.storage.kafka.native_calls import address_of, c_function, call, pointer
from tierfold.storage.kafka.wire import kernel

_ZSTD: Final = "zstandard._cffi"
_LZ4: Final = "lz4.frame._frame"
_LZ4F_VERSION: Final = 100
_ZSTD_C_LEVEL: Final = 100
"""The number of zstd's parameter `ZSTD_c_compressionLevel`."""

_LZ4_PREFERENCES: Final = np.frombuffer(struct.pack("=iiiiQIi6I", 4, 1, *[0] * 11), np.uint8)
"""`LZ4F_preferences_t`: blocks of at most 64 KiB, independent, as `compression.compress` has it."""

_ZSTD_DECOMPRESS: Final = address_of(_ZSTD, "ZSTD_decompressDCtx")
_ZSTD_COMPRESS: Final = address_of(_ZSTD, "ZSTD_compress2")
_SET_PARAMETER: Final = c_function(_ZSTD, "ZSTD_CCtx_setParameter")
_LZ4_DECOMPRESS: Final = address_of(_LZ4, "LZ4F_decompress")
_LZ4_COMPRESS: Final = address_of(_LZ4, "LZ4F_compressFrame")

LEFT: Final = -1
"""The size of a payload that was not compressed."""

_NONE, _LZ4_CODEC, _ZSTD_CODEC = int(Codec.NONE), int(Codec.LZ4), int(Codec.ZSTD)


class Payloads(NamedTuple):
    """The payloads of a window's batches; every array has one entry per batch."""

    start: NDArray[np.int64]
    """`log[start:end]` is the payload as it is stored."""
    end: NDArray[np.int64]
    codec: NDArray[np.int8]
    records: NDArray[np.int32]
    """Kafka ignores the payload of a batch without any."""
    out_bytes: NDArray[np.int64]
    """Of the payload as it is written: the runs set it."""


class Progress(NamedTuple):
    """How far a window is decompressed."""

    batch: int
    """The first batch that is not."""
    at: int
    """Where its payload goes."""
    budget_bytes: int
    """What the compressed payloads from there on may expand to."""


class _Functions(NamedTuple):
    """Addresses of C functions, and of what each needs: working memory, or lz4's preferences."""

    zstd: int
    zstd_memory: int
    lz4: int
    lz4_memory: int


def decompress_run(
    log: NDArray[np.uint8], payloads: Payloads, body: NDArray[np.uint8], progress: Progress
) -> Progress:
    """Decompress payloads of `log` (read-only) into `body`, up to one that this cannot do.

    That one is of another codec, is corrupt, or is too large for `body` or for a bound.
    """
    with _zstd_memory("DCtx") as zstd_memory, _lz4_memory() as lz4_memory:
        functions = _Functions(_ZSTD_DECOMPRESS, zstd_memory, _LZ4_DECOMPRESS, lz4_memory)
        sizes = np.empty(2, np.int64)
        return Progress(*_decompress(functions, log, payloads, body, sizes, progress))


def compress_run(
    plain: NDArray[np.uint8], payloads: Payloads, out: NDArray[np.uint8], at: NDArray[np.int64]
) -> None:
    """Compress `plain[start:end]` of each payload into `out`, from `at` on.

    The room of a payload ends where the next one's begins. Its size is `LEFT` if that does not
    suffice, or if it has another codec.
    """
    with _zstd_memory("CCtx") as memory:
        _SET_PARAMETER(ctypes.c_void_p(memory), _ZSTD_C_LEVEL, ZSTD_LEVEL)
        preferences = _LZ4_PREFERENCES.ctypes.data
        functions = _Functions(_ZSTD_COMPRESS, memory, _LZ4_COMPRESS, preferences)
        _compress(functions, plain, payloads, out, at)


@contextmanager
def _zstd_memory(kind: str) -> Iterator[int]:
    """The address of a `ZSTD_DCtx` or `ZSTD_CCtx`; raises MemoryError."""
    memory = c_function(_ZSTD, f"ZSTD_create{kind}")()
    if not memory:
        raise MemoryError
    try:
        yield memory
    finally:
        c_function(_ZSTD, f"ZSTD_free{kind}")(ctypes.c_void_p(memory))


@contextmanager
def _lz4_memory() -> Iterator[int]:
    """The address of an `LZ4F_dctx`; raises MemoryError."""
    memory = ctypes.c_void_p()
    c_function(_LZ4, "LZ4F_createDecompressionContext")(ctypes.byref(memory), _LZ4F_VERSION)
    if memory.value is None:
        raise MemoryError
    try:
        yield memory.value or 0
    finally:
        c_function(_LZ4, "LZ4F_freeDecompressionContext")(memory)


@kernel
def _decompress(
    functions: _Functions,
    log: NDArray[np.uint8],
    payloads: Payloads,
    body: NDArray[np.uint8],
    sizes: NDArray[np.int64],
    progress: Progress,
) -> tuple[int, int, int]:
    """See `decompress_run`; `sizes` has room for two, by which lz4 takes and returns sizes."""
    at, budget_bytes = progress.at, progress.budget_bytes
    for b in range(progress.batch, payloads.start.size):
        start = payloads.start[b]
        stored_bytes = payloads.end[b] - start
        codec = payloads.codec[b]
        room = body.size - at
        plain_bytes = 0
        if codec == _NONE:
            if stored_bytes > room:
                return b, at, budget_bytes
            copy_bytes(log, start, stored_bytes, body, at)
            plain_bytes = stored_bytes
        elif payloads.records[b] > 0:
            room = min(room, budget_bytes, plain_bytes_max(stored_bytes))
            source, target = pointer(log, start), pointer(body, at)
            if codec == _ZSTD_CODEC and stored_bytes > 0:
                plain_bytes = call(
                    functions.zstd, (functions.zstd_memory, target, room, source, stored_bytes)
                )
                if plain_bytes < 0:  # An error code, as a signed number.
                    return b, at, budget_bytes
            elif codec == _LZ4_CODEC:
                sizes[0], sizes[1] = room, stored_bytes
                taken, found = pointer(sizes, 1), pointer(sizes, 0)
                left_bytes = call(
                    functions.lz4, (functions.lz4_memory, target, found, source, taken, 0)
                )
                if left_bytes != 0 or sizes[1] != stored_bytes:
                    return b, at, budget_bytes  # An error, half a frame, or more than one.
                plain_bytes = sizes[0]
            else:
                return b, at, budget_bytes
            budget_bytes -= plain_bytes
        payloads.out_bytes[b] = plain_bytes
        at += plain_bytes
    return payloads.start.size, at, budget_bytes


@kernel
def _compress(
    functions: _Functions,
    plain: NDArray[np.uint8],
    payloads: Payloads,
    out: NDArray[np.uint8],
    at: NDArray[np.int64],
) -> None:
    for b in range(at.size):
        plain_bytes = payloads.end[b] - payloads.start[b]
        room = (at[b + 1] if b + 1 < at.size else out.size) - at[b]
        source, target = pointer(plain, payloads.start[b]), pointer(out, at[b])
        size = LEFT
        if payloads.codec[b] == _ZSTD_CODEC:
            size = call(
                functions.zstd, (functions.zstd_memory, target, room, source, plain_bytes)
            )
        elif payloads.codec[b] == _LZ4_CODEC:
            size = call(functions.lz4, (target, room, source, plain_bytes, functions.lz4_memory))
        payloads.out_bytes[b] = max(size, LEFT)  # An error code is a negative number.
