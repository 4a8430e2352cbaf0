"""Opens and deletes files below a folder without following links, and opens only regular files.

Anyone who may write below a tier can put a link, a FIFO or a device in the place of a file or
folder. A link would lead a deletion to files that are not tierfold's, and a FIFO would hold a run
for ever.

    opened_file       opens a regular file; it refuses anything else
    deleted_file      deletes a file through handles on the folders above it
    deleted_folder    the same for a folder with all that is in it
    ensure_unlinked   no folder on the way to a file, and not the file, is a link
    ensure_plain      everything below a folder is a folder or a regular file

A deletion holds each folder open while it enters the next one, so a folder that is exchanged for a
link meanwhile is not entered. What is checked before another program opens it by its path
(delta-rs, Spark) can be exchanged in between; docs/security.md says who could.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tierfold.compaction.model.errors import UnreadableObject

DEPTH_MAX: Final = 16
"""Levels of folders below one that is looked through. A table has two, with one more of a run that
died; thousands would exhaust the stack, here or in the programs that open the folder next."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_IS_LINK: Final = (errno.ELOOP, errno.ENOTDIR)
"""What Linux and macOS report of a link that is opened as a folder, but not followed."""


@contextmanager
def opened_file(path: Path, *, follows_links: bool = True) -> Iterator[int]:
    """A descriptor that reads the regular file at `path`; it never waits for a writer.

    `follows_links`: the file, or a folder on the way, may be a link. Raises OSError, and
    UnreadableObject if it is no regular file.
    """
    # Without the flag, a FIFO would be opened only once somebody writes to it.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in {errno.ENXIO, errno.EOPNOTSUPP}:  # A socket, or a device without one.
            raise _not_regular(path) from None
        if error.errno == errno.ELOOP and path.is_symlink() and not follows_links:
            raise _linked(path) from None
        raise
    try:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            raise _not_regular(path)
        yield descriptor
    finally:
        os.close(descriptor)


def deleted_file(root: Path, name: str) -> None:
    """Delete the file `name` below `root`, if it is there; a link itself is deleted.

    Raises UnreadableObject if a folder between them is a link, and OSError, also if there is no
    `root`.
    """
    with _parent_handle(root, name) as folder, suppress(FileNotFoundError):
        if folder is not None:
            os.unlink(Path(name).name, dir_fd=folder)


def deleted_folder(root: Path, name: str) -> None:
    """Delete the folder `name` below `root` with its content; raises as `deleted_file` does."""
    with _parent_handle(root, name) as folder, suppress(FileNotFoundError):
        if folder is not None:
            shutil.rmtree(Path(name).name, dir_fd=folder)


def ensure_unlinked(root: Path, name: str) -> None:
    """Raise UnreadableObject if `root`, or a component of `name` below it, is a link."""
    path = root
    for part in ("", *Path(name).parts):
        path /= part
        if path.is_symlink():
            raise _linked(path)


def ensure_plain(folder: Path) -> None:
    """Raise UnreadableObject unless all below `folder` are regular files and folders, not too deep.

    Nothing may be there at all. Raises OSError if a folder cannot be listed.
    """
    ensure_unlinked(folder.parent, folder.name)
    with suppress(FileNotFoundError):
        _ensure_plain(folder, depth=0)


def _ensure_plain(folder: Path, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise UnreadableObject(
            f"folders are nested deeper than {DEPTH_MAX} levels",
            where=str(folder),
            remedy="Move them away. Who put them there? tierfold nests no folders like that.",
        )
    with os.scandir(folder) as entries:
        children = tuple(entries)
    for child in children:
        path = Path(child.path)
        if child.is_symlink():
            raise _linked(path)
        if child.is_dir(follow_symlinks=False):
            # Another run may delete it meanwhile.
            with suppress(FileNotFoundError):
                _ensure_plain(path, depth + 1)
        elif not child.is_file(follow_symlinks=False) and os.path.lexists(path):
            raise _not_regular(path)


@contextmanager
def _parent_handle(root: Path, name: str) -> Iterator[int | None]:
    """A handle on the folder that holds `name`; None if that is missing, but not `root`."""
    handle = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    path = root
    is_missing = False
    try:
        for part in Path(name).parts[:-1]:
            path /= part
            try:
                below = os.open(part, _FOLDER, dir_fd=handle)
            except FileNotFoundError:
                is_missing = True
                break
            except OSError as error:
                if error.errno in _IS_LINK and path.is_symlink():
                    raise _linked(path) from None
                raise
            os.close(handle)
            handle = below
        yield None if is_missing else handle
    finally:
        os.close(handle)


def _linked(path: Path) -> UnreadableObject:
    return UnreadableObject(
        "this is a symbolic link, which is not followed here",
        where=str(path),
        remedy="Put the folder or file itself there. Who made the link? It may lead tierfold to"
        " files that are not its own.",
    )


def _not_regular(path: Path) -> UnreadableObject:
    return UnreadableObject(
        "this is no regular file",
        where=str(path),
        remedy="Move it away. Who put it there? A FIFO or a device can hold a run for ever.",
    )
