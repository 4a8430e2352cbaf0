"""An object store in memory, as one actor sees it: it obeys `storage.object_store`, or fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from compaction.errors import UnreadableObject
from storage.local_tiered_storage import TIER_FOLDER
from storage.object_store import Bytes, ObjectEntry, ObjectWriter, as_view
from tests.faults.simulation_scheduler import READ_FAULTS, WRITE_FAULTS, Actor, Call, Killed

PAGE: Final = 9
"""Objects per page of a listing: a folder changes between two pages."""

WRITE_WEIGHT: Final = 2
"""How much more often a write goes wrong than a read."""

SPACE_BYTES: Final = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object that exists."""

    data: bytes
    modified_ms: int


def nothing() -> None:
    """Nobody looks."""


@dataclass(slots=True, kw_only=True)
class Objects:
    """What exists, and what did."""

    now_ms: Callable[[], int]
    stored: dict[str, Stored] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Keys that were deleted."""
    unfinished: set[str] = field(default_factory=set)
    """Hidden files that a dead writer left."""
    removed: Callable[[], None] = nothing
    """Called after each deletion."""

    def put(self, key: str, data: bytes) -> None:
        """Raises UnreadableObject where the key is taken."""
        if key in self.stored:
            raise _refused(key, "the name is taken, and nothing is ever overwritten")
        self.stored[key] = Stored(data=data, modified_ms=self.now_ms())

    def remove(self, key: str) -> None:
        """One that is not there is gone as well."""
        if self.stored.pop(key, None) is not None:
            self.gone.add(key)
            self.removed()

    def get(self, key: str) -> bytes:
        """Raises UnreadableObject where it is not there."""
        if key not in self.stored:
            raise _refused(key, "it is not there, or no longer")
        return self.stored[key].data


@dataclass(frozen=True, slots=True)
class VirtualStore:
    """The store in one actor's hands; each call is a point."""

    actor: Actor
    objects: Objects

    def list(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.list`; page by page, each as of its own moment."""
        beyond = ""
        while True:
            page = self._read(f"list {folder[-8:]} {beyond[-30:]}", lambda: self._page(folder, beyond))
            yield from page
            if len(page) < PAGE:
                return
            beyond = page[-1].key

    def _page(self, folder: str, beyond: str) -> list[ObjectEntry]:
        inside = f"{folder}/"
        keys = sorted(key for key in self.objects.stored if key.startswith(inside) and key > beyond)
        return [
            ObjectEntry(key=key, size_bytes=len(each.data), modified_ms=each.modified_ms)
            for key in keys[:PAGE]
            for each in [self.objects.stored[key]]
        ]

    def list_folders(self, folder: str) -> Iterator[str]:
        """See `ObjectStore.list_folders`."""
        inside = f"{folder}/" if folder else ""

        def found() -> list[str]:
            names = {
                key.removeprefix(inside).partition("/")[0]
                for key in self.objects.stored
                if key.startswith(inside) and "/" in key.removeprefix(inside)
            }
            return sorted(names | ({TIER_FOLDER} if not folder else set()))

        return iter(self._read(f"list folders {folder}", found))

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        return bool(self._read(f"exists {key[-30:]}", lambda: key in self.objects.stored))

    def read(self, key: str) -> NDArray[np.uint8]:
        """See `ObjectStore.read`."""
        data = self._read(f"read {_short(key)}", lambda: self.objects.get(key))
        return np.frombuffer(data, np.uint8).copy()

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        """See `ObjectStore.read_range`."""
        data = self._read(f"read {_short(key)} from {start}", lambda: self.objects.get(key))
        return np.frombuffer(data[start : start + length], np.uint8).copy()

    def create(self, key: str, data: Bytes) -> None:
        """See `ObjectStore.create`."""
        with self.open_new(key) as writer:
            writer.write(data)

    @contextmanager
    def open_new(self, key: str) -> Iterator[ObjectWriter]:
        """See `ObjectStore.open_new`; what a dead writer held stays behind, hidden."""
        if key in self.objects.stored:
            raise _refused(key, "the name is taken, and nothing is ever overwritten")
        writer = _VirtualWriter()
        self.objects.unfinished.add(key)
        try:
            yield writer
            data = bytes(writer.data)
            self._write(f"create {_short(key)}", key, lambda: self.objects.put(key, data))
        except Killed:
            raise
        except BaseException:
            self.objects.unfinished.discard(key)
            raise
        self.objects.unfinished.discard(key)

    def uri(self, key: str) -> str:
        """The object's full name."""
        return f"virtual://{key}"

    def _read(self, what: str, effect: Callable[[], Any]) -> Any:
        def refusal(cause: str) -> UnreadableObject:
            return _refused(what, cause)

        return self.actor.do(Call(what=what, effect=effect, faults=READ_FAULTS, refusal=refusal))

    def _write(self, what: str, key: str, effect: Callable[[], None]) -> None:
        def refusal(cause: str) -> UnreadableObject:
            return _refused(key, cause)

        self.actor.do(
            Call(
                what=what,
                effect=effect,
                faults=WRITE_FAULTS,
                refusal=refusal,
                weight=WRITE_WEIGHT,
            )
        )


@dataclass(slots=True)
class _VirtualWriter:
    data: bytearray = field(default_factory=bytearray)

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def write(self, data: Bytes) -> None:
        self.data += as_view(data)


def _short(key: str) -> str:
    """Enough of a key to know it: the topic's id, start offset, segment id and part."""
    folder, _, name = key.rpartition("/")
    return f"{folder[-22:-16]}/{name.lstrip('0')}"


def _refused(where: str, cause: str) -> UnreadableObject:
    return UnreadableObject(cause, where=where, remedy="Run again.")
