"""An object store in a folder.

Writing: a hidden file is filled, synced, and linked to the final name. Linking fails if the name is
taken, so nothing is ever overwritten, even in a race. So is a copy made, see `file_copies`.

Reading: small objects and ranges are copied, large ones mapped, see `file_ranges`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.file_copies import copied_bytes
from tierfold.storage.tiers.file_ranges import file_range
from tierfold.storage.tiers.folder_handles import deleted_file, ensure_unlinked, opened_file
from tierfold.storage.tiers.object_store import (
    Bytes,
    MapRange,
    ObjectClasses,
    ObjectEntry,
    ObjectWriter,
    Spans,
    as_view,
    check_copied,
    is_staged,
    listed_one_by_one,
    staged_name,
)
from tierfold.storage.tiers.request_counts import Requests

WRITE_BACK_BYTES_MIN: Final = 1 << 20
"""The disk begins to write pieces of this size and above at once."""

_CAUSES: Final = {
    errno.ENOENT: (
        "it is not there, or no longer",
        "List the tier again; if a segment still names it, restore it from a copy.",
    ),
    errno.EACCES: (
        "no permission",
        "Let the user that runs tierfold read the tier and write new files in it.",
    ),
    errno.ENOSPC: (
        "no space left on the device",
        "Free space, then run again; nothing was committed.",
    ),
    errno.EFBIG: (
        "the file would pass the file size limit",
        "Raise the limit (ulimit -f) or lower segment.bytes, then run again.",
    ),
    errno.EIO: (
        "the device reports an input/output error",
        "Check the disk and its mount (dmesg), then run again.",
    ),
    errno.EEXIST: (
        "the name is taken, and nothing is ever overwritten",
        "Run again: every attempt takes new names.",
    ),
    errno.EFAULT: (
        "a part of it cannot be read, or it shrank meanwhile",
        "Check the disk (dmesg) and whether something else changes the tier's files.",
    ),
    errno.EMLINK: (
        "the file system makes no hard links",
        "Put the tier on a file system with hard links.",
    ),
}
_SAME_CAUSE: Final = {
    errno.ESTALE: errno.ENOENT,
    errno.EPERM: errno.EACCES,
    errno.EROFS: errno.EACCES,
    errno.EDQUOT: errno.ENOSPC,
    errno.ENOTSUP: errno.EMLINK,
}


_DURABLE: Final[set[Path]] = set()
"""Folders that this process has found durable; to sync them for each object would take long."""


@dataclass(frozen=True, slots=True)
class LocalStore:
    """The objects below `root`; a small value that can be pickled for a Spark worker.

    Nothing is deleted through a link. Everything else follows the links that an operator placed in
    the tree, unless the store follows none.
    """

    root: Path
    follows_links: bool = True
    """Whether an object, or a folder below `root`, may be a symbolic link; otherwise it is refused,
    and so is `root`."""
    keeps_empty_folders = True
    """See `ObjectStore.keeps_empty_folders`."""

    def in_classes(self, _: ObjectClasses) -> Self:
        """See `ObjectStore.in_classes`: a folder has none."""
        return self

    def list(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.list`; raises UnreadableObject if `root` itself is gone."""
        return self._entries(folder, staged=False)

    def list_each(
        self, folders: Sequence[str]
    ) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
        """See `ObjectStore.list_each`."""
        return listed_one_by_one(self.list, folders)

    def list_folders(self, folder: str) -> Iterator[str]:
        """See `ObjectStore.list_folders`; raises UnreadableObject if `root` itself is gone."""
        return iter(sorted(child.name for child in self._children(folder) if child.is_dir()))

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        path = self._way(key)
        with _translated(path, "look for"):
            try:
                path.stat()
            except FileNotFoundError:
                return False
            return True

    def read(self, key: str) -> NDArray[np.uint8]:
        """See `ObjectStore.read`; writing into a mapped array never reaches the file."""
        path = self._way(key)
        with _translated(path, "read"), self._opened(path) as descriptor:
            return file_range(descriptor, 0, os.fstat(descriptor).st_size)

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        """See `ObjectStore.read_range`; writing into a mapped array never reaches the file."""
        return self._range(key, start, length)

    def range_mapper(self, key: str) -> MapRange:
        """See `ObjectStore.range_mapper`; a small range is copied, and all before Linux 5.14."""
        return partial(self._range, key)

    def create(self, key: str, data: Bytes) -> None:
        """See `ObjectStore.create`."""
        with self.open_new(key) as writer:
            writer.write(data)

    @contextmanager
    def open_new(self, key: str) -> Iterator[ObjectWriter]:
        """See `ObjectStore.open_new`."""
        with self._new_file(key) as writer:
            yield writer

    def copy(self, source: str, target: str) -> int:
        """See `ObjectStore.copy`."""
        path = self._way(source)
        with _translated(path, "copy"), self._opened(path) as descriptor:
            size_bytes = os.fstat(descriptor).st_size
            with self._new_file(target) as writer:
                writer.copy(descriptor, size_bytes, path)
                check_copied(writer.size_bytes, size_bytes, self.uri(target))
        return size_bytes

    @contextmanager
    def _new_file(self, key: str) -> Iterator[_LocalWriter]:
        final = self._way(key)
        staged = final.with_name(staged_name(final.name, uuid.uuid4().hex))
        with _translated(final, "create"):
            _make_folders(self.root, final.parent)
            if final.exists():  # The link decides; this only saves a useless write.
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            try:
                yield _LocalWriter(descriptor, final)
                with _translated(final, "write"):
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            with _translated(final, "create"):
                os.link(staged, final)
        finally:
            with contextlib.suppress(OSError):
                staged.unlink()
        with _translated(final, "create"):
            _sync_folder(final.parent)

    def stored_checksum(self, key: str) -> None:
        """See `ObjectStore.stored_checksum`: a file system has none."""

    def unfinished(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.unfinished`: the hidden files of writers that died."""
        return self._entries(folder, staged=True)

    def unfinished_each(
        self, folders: Sequence[str]
    ) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
        """See `ObjectStore.unfinished_each`."""
        return listed_one_by_one(self.unfinished, folders)

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`; refuses a folder that is reached through a link.

        If the object itself is a link, the link is deleted and its target stays.
        """
        path = self._path(key)
        with _translated(path, "delete"):
            deleted_file(self.root, key)

    def free_bytes(self) -> int:
        """See `ObjectStore.free_bytes`: the free space of the file system for this user."""
        with _translated(self.root, "find the free space of"):
            return shutil.disk_usage(self.root).free

    def uri(self, key: str) -> str:
        """The object's file path."""
        return str(self._path(key))

    def requests(self) -> Requests:
        """See `ObjectStore.requests`."""
        return Requests()

    def _range(
        self, key: str, start: int, length: int, used: Spans | None = None
    ) -> NDArray[np.uint8]:
        path = self._way(key)
        with _translated(path, "read"), self._opened(path) as descriptor:
            return file_range(descriptor, start, length, used)

    def _opened(self, path: Path) -> AbstractContextManager[int]:
        return opened_file(path, follows_links=self.follows_links)

    def _path(self, key: str) -> Path:
        if "\0" in key or any(part in {"", ".", ".."} for part in key.split("/")):
            raise UnreadableObject(
                f"the key {key!r} leaves the store or names nothing in it",
                where=str(self.root),
                remedy="Keys are relative paths without empty parts, `.` and `..`.",
            )
        return self.root / key

    def _way(self, key: str) -> Path:
        """The path of an object or a folder, unless a link on the way is refused."""
        path = self._path(key)
        if not self.follows_links:
            ensure_unlinked(self.root, key)
        return path

    def _entries(self, folder: str, *, staged: bool) -> Iterator[ObjectEntry]:
        entries = [
            entry
            for child in self._children(folder)
            if is_staged(child.name) is staged
            and (entry := _object_entry(child, f"{folder}/{child.name}" if folder else child.name))
        ]
        return iter(sorted(entries, key=lambda entry: entry.key))

    def _children(self, folder: str) -> tuple[os.DirEntry[str], ...]:
        path = self._way(folder) if folder else self.root
        with _translated(path, "list"):
            try:
                with os.scandir(path) as entries:
                    return tuple(entries)
            except FileNotFoundError:
                # A missing folder is empty; if the root is missing, the disk is not mounted.
                if folder and self.root.is_dir():
                    return ()
                raise


class _LocalWriter:
    """Appends to an open file; errors name the final object, not the staged file."""

    def __init__(self, descriptor: int, final: Path) -> None:
        self._descriptor = descriptor
        self._final = final
        self.size_bytes = 0

    def write(self, data: Bytes) -> None:
        view = as_view(data)
        with _translated(self._final, "write"):
            at = 0
            while at < len(view):  # The kernel writes at most 2 GiB at once, less on a full disk.
                at += os.write(self._descriptor, view[at:])
        if len(view) >= WRITE_BACK_BYTES_MIN:
            _begin_write_back(self._descriptor, self.size_bytes, len(view))
        self.size_bytes += len(view)

    def copy(self, descriptor: int, size_bytes: int, path: Path) -> None:
        """Append so many bytes of the open file at `path`, fewer if it ends earlier."""
        with _translated(self._final, f"copy {path} to"):
            self.size_bytes += copied_bytes(descriptor, self._descriptor, size_bytes)


def _begin_write_back(descriptor: int, start: int, length: int) -> None:
    """Advise the kernel to write this range to the disk, so that the sync at the end waits less.

    By itself, Linux begins once a tenth of the memory is unwritten. Pages that are not written yet
    stay in the cache, so that reading the object back does not touch the disk.
    """
    if hasattr(os, "posix_fadvise"):  # macOS lacks it.
        with contextlib.suppress(OSError):
            os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_DONTNEED)


@contextmanager
def _translated(path: Path, doing: str) -> Iterator[None]:
    """Turn an error of the operating system into an UnreadableObject with a remedy."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        cause, remedy = _CAUSES.get(
            _SAME_CAUSE.get(number, number),
            (error.strerror or str(error), "Check the path and its file system, then run again."),
        )
        raise UnreadableObject(
            f"cannot {doing} this: {cause}", where=str(path), remedy=remedy
        ) from error


def _object_entry(child: os.DirEntry[str], key: str) -> ObjectEntry | None:
    """The entry of a file; None if it is no file, or is gone by now."""
    try:
        if not child.is_file():
            return None
        found = child.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        with _translated(Path(child.path), "list"):
            raise error from None
    return ObjectEntry(
        key=key, size_bytes=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000
    )


def _make_folders(root: Path, folder: Path) -> None:
    """Make the missing folders between `root` and `folder`, but never `root`; all are durable then.

    A folder that is there may not be durable yet: a process that made it may have been killed.
    """
    step = root
    for name in folder.relative_to(root).parts:
        step /= name
        with contextlib.suppress(FileExistsError):
            step.mkdir()
            _DURABLE.discard(step)
        if step not in _DURABLE:
            _sync_folder(step.parent)
            _DURABLE.add(step)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
