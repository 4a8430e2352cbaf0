"""The object store interface that the engine needs, and nothing more.

Keys are relative paths with `/` between folders. An object is created whole or not at all, never
overwritten, never changed, and deleted by `vacuum` alone; every failure is an `UnreadableObject`
that names cause and remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]
"""What can be written: any contiguous buffer of single bytes."""


def as_view(data: Bytes) -> memoryview:
    """`data` without a copy, as the operating system and `struct` take it."""
    return data.data if isinstance(data, np.ndarray) else memoryview(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEntry:
    """An object as a listing shows it."""

    key: str
    size_bytes: int
    modified_ms: int


class ObjectWriter(Protocol):
    """An object being written; it appears only if its context ends without an error."""

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        ...

    def write(self, data: Bytes) -> None:
        """Append all of `data`; raises UnreadableObject."""
        ...


class ObjectStore(Protocol):
    """A flat space of immutable objects; its contract: `tests/storage/object_store_contract.py`."""

    def list(self, folder: str) -> Iterator[ObjectEntry]:
        """The objects directly in `folder`, sorted by key; none if there is no such folder.

        Objects that are still being written are not listed.
        """
        ...

    def list_folders(self, folder: str) -> Iterator[str]:
        """The names of the folders directly in `folder` (an S3 delimiter's prefixes), sorted."""
        ...

    def exists(self, key: str) -> bool:
        """Whether the object is there."""
        ...

    def read(self, key: str) -> NDArray[np.uint8]:
        """A whole object, as a writable array that is the caller's own."""
        ...

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        """Up to `length` bytes from `start` on; fewer where the object ends before."""
        ...

    def create(self, key: str, data: Bytes) -> None:
        """Write a whole object; refuses if the key is taken."""
        ...

    def open_new(self, key: str) -> AbstractContextManager[ObjectWriter]:
        """Write an object piece by piece; it appears, durable, when the context ends.

        If the body raises, nothing appears. Refuses if the key is taken.
        """
        ...

    def unfinished(self, folder: str) -> Iterator[ObjectEntry]:
        """Files of unfinished writes directly in `folder`, sorted by key.

        They are no objects: `list` omits them. `delete` accepts their keys.
        """
        ...

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is no error."""
        ...

    def free_bytes(self) -> int:
        """How much more can be written."""
        ...

    def uri(self, key: str) -> str:
        """The object's full name, for messages and for people."""
        ...
