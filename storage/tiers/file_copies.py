"""Copies the bytes of an open file into another: by the file system or its server if they can.

btrfs and XFS then share the blocks, so a copy takes neither time nor space; NFS 4.2 and SMB copy on
the server; other file systems copy within the kernel.

A hard link would be no copy. It shows the time of the first file, so `vacuum` would take it for an
old orphan while it is still being made; and a program that rewrites one file would change both.
"""

from __future__ import annotations

import errno
import os
from typing import Final

PIECE_BYTES: Final = 2**20
"""Copied at a time where the kernel does not copy."""

_CANNOT: Final = frozenset(
    {
        errno.EXDEV,  # Two file systems.
        errno.ENOSYS,
        errno.EOPNOTSUPP,
        errno.EINVAL,
        errno.EPERM,  # A container's filter of system calls.
    }
)
"""How a kernel says that it cannot copy between these files; a write may still succeed."""


def copied_bytes(source: int, target: int, size_bytes: int) -> int:
    """Copy up to so many bytes between two descriptors, from where they are; return how many.

    Fewer: the source ends earlier. Raises OSError.
    """
    copied = _copied_by_kernel(source, target, size_bytes)
    while piece := os.read(source, min(PIECE_BYTES, size_bytes - copied)):
        view = memoryview(piece)
        while view:
            written = os.write(target, view)
            copied += written
            view = view[written:]
    return copied


def _copied_by_kernel(source: int, target: int, size_bytes: int) -> int:
    copied = 0
    if not hasattr(os, "copy_file_range"):  # macOS lacks it.
        return copied
    try:
        while count := os.copy_file_range(source, target, size_bytes - copied):
            copied += count
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    return copied
