"""Ranges of files as arrays: a large one is mapped, a smaller one copied.

Measured with 256 MB in the page cache: a copy takes 65 ms and 256 MB of memory, a mapping 0.2 ms,
and 15 ms to load its pages. A page that cannot be read would kill the process (SIGBUS). So the
kernel loads every page that will be used before the array is returned, and reports a page that it
cannot read as an error. The remaining risk is a file that is truncated while in use: the tier's
objects never are, and a deleted one stays readable through its mapping.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.storage.tiers.object_store import Spans

MAPPED_BYTES_MIN: Final = 1 << 20
"""Ranges of this size and above are mapped; a smaller one is copied as fast."""

LOADED_GAP_BYTES: Final = 128 << 10
"""Pages between two spans are loaded too if there are no more than this. That takes up to 7 µs, and
another call 3. Where the system's cache holds large pages, a call for everything is fastest: 256
MiB of which every fifth page is used take 2 ms with one call, and 10 with 3,200."""

_MADV_POPULATE_READ: Final = 22  # Linux 5.14; Python names it from 3.13 on.
_C: Final = ctypes.CDLL(None, use_errno=True)


def file_range(
    descriptor: int, start: int, length: int, used: Spans | None = None
) -> NDArray[np.uint8]:
    """Bytes of the file, fewer at its end; writing into the array never reaches the file.

    `used`: the only bytes that will be used, counted from `start`; None: all of them.

    Raises OSError: EFAULT if the file has shrunk or a page cannot be read.
    """
    length = max(0, min(length, os.fstat(descriptor).st_size - start))
    if length < MAPPED_BYTES_MIN:
        return _copied(descriptor, start, length)
    before = start % mmap.ALLOCATIONGRANULARITY
    try:
        mapping = mmap.mmap(
            descriptor, before + length, access=mmap.ACCESS_COPY, offset=start - before
        )
    except ValueError as error:  # The file has shrunk.
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from error
    data = np.frombuffer(mapping, np.uint8)
    if _loaded(data, _runs(before, data.size, used)):
        return data[before:]
    return _copied(descriptor, start, length)


def _runs(before: int, size_bytes: int, used: Spans | None) -> list[tuple[int, int]]:
    """The ranges `[start, end)` of a mapping to load, from page to page.

    The range that was asked for begins after `before` bytes of the mapping.
    """
    if used is None:
        return [(0, size_bytes)]
    start, end = used.start + before, np.minimum(used.end + before, size_bytes)
    is_there = start < end  # The file may be shorter than expected.
    start, end = start[is_there], end[is_there]
    is_turn = start[1:] - end[:-1] > LOADED_GAP_BYTES
    first, last = np.append(True, is_turn)[: start.size], np.append(is_turn, True)[: end.size]
    from_page = start[first] // mmap.PAGESIZE * mmap.PAGESIZE
    return list(zip(from_page.tolist(), end[last].tolist(), strict=True))


def _loaded(data: NDArray[np.uint8], runs: list[tuple[int, int]]) -> bool:
    """Load the pages of the runs; return whether this kernel can. Raises OSError."""
    for start, end in runs:
        # Not `mapping.madvise`: that would keep Python's lock while the kernel loads the pages.
        address = ctypes.c_void_p(data.ctypes.data + start)
        if _C.madvise(address, ctypes.c_size_t(end - start), _MADV_POPULATE_READ) != 0:
            number = ctypes.get_errno()
            if number == errno.EINVAL:
                return False
            raise OSError(number, os.strerror(number))
    return True


def _copied(descriptor: int, start: int, length: int) -> NDArray[np.uint8]:
    data = np.empty(length, np.uint8)
    view = data.data
    at = 0
    while at < length:
        got = os.preadv(descriptor, [view[at:]], start + at)
        if got == 0:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        at += got
    return data
