"""The interface of an object store.

Keys are relative paths with `/` between folders. An object is created whole or not at all, never
changed, and only `vacuum` deletes it. Every failure is an `UnreadableObject` with cause and remedy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.listed_count import LISTED
from tierfold.storage.tiers.request_counts import Requests

STAGED_SUFFIX: Final = ".staged"
"""The suffix of the hidden name under which an object is written."""

LISTERS: Final = 16
"""Folders listed at a time: a listing mostly waits for the network."""

Bytes: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]
"""Any contiguous buffer of single bytes."""


class Spans(NamedTuple):
    """Bytes `[start, end)` of a range, in order; the arrays have one entry per span."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]


USUAL_CLASS: Final = "STANDARD"
"""The storage class of S3 that objects have unless their writer named another."""

ObjectClasses: TypeAlias = tuple[tuple[str, str], ...]
"""Storage classes of objects: what a key ends with after its last dot, and the class. An object
that is not named has the store's usual class."""

MapRange: TypeAlias = Callable[[int, int, Spans], NDArray[np.uint8]]
"""(start, length, spans) → as `ObjectStore.read_range`, of which only the spans, counted from
`start`, may be used; it is neither copied nor held in memory. Raises UnreadableObject."""


def as_view(data: Bytes) -> memoryview:
    """A view of `data` for the operating system and `struct`, without a copy."""
    return data.data if isinstance(data, np.ndarray) else memoryview(data)


def staged_name(key: str, token: str) -> str:
    """The hidden name, in the same folder, under which an object is written."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{token}{STAGED_SUFFIX}"


def is_strange(key: str) -> bool:
    """Whether a key has a part that is empty, `.` or `..`, or is not printable.

    obstore refuses such a name, so that the object could not be read or deleted.
    """
    return not key.isprintable() or not {"", ".", ".."}.isdisjoint(key.split("/"))


def is_staged(name: str) -> bool:
    """Whether an object or file of that name, without its folder, is being written."""
    return name.startswith(".") and name.endswith(STAGED_SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEntry:
    """An object as a listing shows it."""

    key: str
    size_bytes: int
    modified_ms: int
    storage_class: str = ""
    """As the store names it; empty: its usual one, or the listing does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChecksum:
    """What the store itself says of an object's bytes."""

    size_bytes: int
    crc32c: int
    """Of the whole object."""


class ObjectWriter(Protocol):
    """An object being written; it appears when its context ends without an error."""

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""

    def write(self, data: Bytes) -> None:
        """Append all of `data`; raises UnreadableObject."""


class ObjectStore(Protocol):
    """Immutable objects; `tests/storage/object_store_contract.py` tests the contract."""

    def in_classes(self, classes: ObjectClasses) -> ObjectStore:
        """The same store; what it writes and copies gets these classes, if the store has any."""

    def list(self, folder: str) -> Iterator[ObjectEntry]:
        """The finished objects directly in `folder`, by key; none if there is no such folder."""

    def list_each(
        self, folders: Sequence[str]
    ) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
        """By folder, the finished objects directly in it, or why it cannot be listed.

        A bucket lists many folders of one parent at once. Objects count as `LISTED` once they are.
        """

    def list_folders(self, folder: str) -> Iterator[str]:
        """The names of the folders directly in `folder` (an S3 delimiter's prefixes), sorted."""

    def exists(self, key: str) -> bool:
        """Whether the object is there."""

    def read(self, key: str) -> NDArray[np.uint8]:
        """A whole object, as a writable array that no one else uses."""

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        """Up to `length` bytes from `start` on, fewer at the object's end; maybe read-only."""

    def range_mapper(self, key: str) -> MapRange | None:
        """How to map ranges of the object from a file; None: the store cannot."""

    def create(self, key: str, data: Bytes) -> None:
        """Write a whole object; refuse a key that is taken."""

    def open_new(self, key: str) -> AbstractContextManager[ObjectWriter]:
        """Write an object piece by piece; it appears, durable, when the context ends.

        If the body raises, nothing appears. A key that is taken is refused.
        """

    def copy(self, source: str, target: str) -> int:
        """Copy an object within the store, by the store itself if it can; return its bytes.

        It appears whole, durable, and with the time of the copy, which protects it from `vacuum`
        as long as no row names it. A key that is taken is refused, and so is a copy of another
        size than its source. Whether its bytes are equal is for the caller to find out, as after
        `create`.

        Raises UnreadableObject.
        """

    def stored_checksum(self, key: str) -> StoredChecksum | None:
        """The checksum that the store computed of the bytes that it keeps.

        None: it cannot say, so only reading the object back shows what it keeps. Some emulators
        compute wrong ones; so if one differs, read back before calling the object corrupt.

        Raises UnreadableObject.
        """

    def unfinished(self, folder: str) -> Iterator[ObjectEntry]:
        """Files of unfinished writes directly in `folder`, by key; `delete` accepts them."""

    def unfinished_each(
        self, folders: Sequence[str]
    ) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
        """By folder, what `unfinished` returns, or why it cannot be listed."""

    def delete(self, key: str) -> None:
        """Delete an object, if it exists."""

    def free_bytes(self) -> int | None:
        """How many more bytes can be written; None: the store sets no limit."""

    def uri(self, key: str) -> str:
        """The object's full name, for messages."""

    def requests(self) -> Requests:
        """The requests that this process has made to the store so far; a folder takes none."""

    @property
    def keeps_empty_folders(self) -> bool:
        """Whether a folder exists without objects: on a disk, not in a bucket."""


def check_copied(copied_bytes: int, source_bytes: int, where: str) -> None:
    """Raise UnreadableObject if a copy, named `where`, has another size than its source."""
    if copied_bytes != source_bytes:
        what = f"it was copied from an object of {source_bytes} bytes, and has {copied_bytes}"
        raise not_as_written(what, where)


def not_as_written(what: str, where: str) -> UnreadableObject:
    """The error for a new object that has not the bytes that were written or copied."""
    return UnreadableObject(
        what,
        where=where,
        remedy="Nothing was committed. Check the disk or store, and whether another program"
        " changes the tier's objects; then run again.",
    )


def listed_one_by_one(
    list_folder: Callable[[str], Iterable[ObjectEntry]], folders: Sequence[str]
) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
    """See `ObjectStore.list_each`: a listing for each folder, several at a time."""

    def listed(folder: str) -> tuple[ObjectEntry, ...] | Exception:
        try:
            return tuple(list_folder(folder))
        except Exception as error:  # noqa: BLE001 - it concerns this folder alone
            return error

    by_folder = {}
    with ThreadPoolExecutor(LISTERS) as pool:
        for folder, found in zip(folders, pool.map(listed, folders), strict=True):
            by_folder[folder] = found
            LISTED.add(0 if isinstance(found, Exception) else len(found))
    return by_folder


class PartWriter(ObjectWriter):
    """Collects what is written into parts of `part_bytes`, each of which `send_part` sends."""

    size_bytes = 0
    """See `ObjectWriter`."""

    def __init__(self, part_bytes: int) -> None:
        self.part_bytes = part_bytes
        self.part = bytearray()
        """The part that is being filled."""

    def write(self, data: Bytes) -> None:
        """See `ObjectWriter`."""
        view = as_view(data)
        at = 0
        while at < len(view):
            took = min(len(view) - at, self.part_bytes - len(self.part))
            self.part += view[at : at + took]
            at += took
            if len(self.part) == self.part_bytes:
                self.send_part()
        self.size_bytes += len(view)

    @abstractmethod
    def send_part(self) -> None:
        """Send `part`, and begin another; raises UnreadableObject."""
