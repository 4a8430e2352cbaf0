"""An object store in memory, as one actor sees it: it obeys `storage.object_store`, or fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from compaction.errors import UnreadableObject
from storage.local_tiered_storage import TIER_FOLDER
from storage.object_store import Bytes, ObjectEntry, ObjectWriter, as_view
from tests.faults.simulation_scheduler import READ_FAULTS, WRITE_FAULTS, Actor, Call

PAGE: Final = 9
"""Objects per page of a listing: a folder changes between two pages."""

WRITE_WEIGHT: Final = 2
"""How much more often a write goes wrong than a read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object that exists."""

    data: bytes
    modified_ms: int


@dataclass(slots=True, kw_only=True)
class Objects:
    """What exists, and what did."""

    now_ms: Callable[[], int]
    removed: Callable[[], None]
    """Called after each deletion."""
    stored: dict[str, Stored] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Keys that were deleted."""
    unfinished: dict[str, Stored] = field(default_factory=dict)
    """Hidden files of writers that are at work, or dead."""
    _hidden: count[int] = field(default_factory=count)

    def begin(self, key: str) -> str:
        """The hidden name beside `key`; raises UnreadableObject where that is taken."""
        if key in self.stored:
            raise refused(key, "the name is taken, and nothing is ever overwritten")
        folder, _, name = key.rpartition("/")
        hidden = f"{folder}/.{name}.{next(self._hidden)}.staged"
        self.unfinished[hidden] = Stored(data=b"", modified_ms=self.now_ms())
        return hidden

    def end(self, key: str, hidden: str, data: bytes) -> None:
        """Raises UnreadableObject where the key is taken, or the hidden file was swept away."""
        if key not in self.stored and self.unfinished.pop(hidden, None) is None:
            raise refused(hidden, "it is not there, or no longer")
        self.put(key, data)

    def put(self, key: str, data: bytes) -> None:
        """Raises UnreadableObject where the key is taken."""
        if key in self.stored:
            raise refused(key, "the name is taken, and nothing is ever overwritten")
        self.stored[key] = Stored(data=data, modified_ms=self.now_ms())

    def remove(self, key: str) -> None:
        """One that is not there is gone as well."""
        self.unfinished.pop(key, None)
        if self.stored.pop(key, None) is not None:
            self.gone.add(key)
            self.removed()

    def get(self, key: str) -> bytes:
        """Raises UnreadableObject where it is not there."""
        if key not in self.stored:
            raise refused(key, "it is not there, or no longer")
        return self.stored[key].data


@dataclass(frozen=True, slots=True)
class VirtualStore:
    """The store in one actor's hands; each call is a point."""

    actor: Actor
    objects: Objects

    def list(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.list`; page by page, each as of its own moment."""
        yield from self._listed("list", folder, self.objects.stored)

    def unfinished(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.unfinished`."""
        yield from self._listed("list unfinished", folder, self.objects.unfinished)

    def _listed(
        self, what: str, folder: str, among: Mapping[str, Stored]
    ) -> Iterator[ObjectEntry]:
        beyond = ""
        while True:
            said = f"{what} {folder[-22:-16]}/ from {beyond[-40:] or 'the start'}"
            page = self._read(said, lambda beyond=beyond: _page(folder, among, beyond))
            yield from page
            if len(page) < PAGE:
                return
            beyond = page[-1].key

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
        data = self._read(f"read {short(key)}", lambda: self.objects.get(key))
        return np.frombuffer(data, np.uint8).copy()

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        """See `ObjectStore.read_range`."""
        data = self._read(f"read {short(key)} from {start}", lambda: self.objects.get(key))
        return np.frombuffer(data[start : start + length], np.uint8).copy()

    def create(self, key: str, data: Bytes) -> None:
        """See `ObjectStore.create`."""
        with self.open_new(key) as writer:
            writer.write(data)

    @contextmanager
    def open_new(self, key: str) -> Iterator[ObjectWriter]:
        """See `ObjectStore.open_new`; a dead writer's hidden file stays."""
        objects, writer = self.objects, _VirtualWriter()
        hidden = objects.begin(key)
        try:
            yield writer
            data = bytes(writer.data)
            self._write(
                f"create {short(key)}",
                key,
                lambda: objects.end(key, hidden, data),
                late=lambda: objects.put(key, data),
            )
        except Exception:
            objects.unfinished.pop(hidden, None)
            raise

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        self._write(f"delete {short(key)}", key, lambda: self.objects.remove(key))

    def free_bytes(self) -> int:
        """See `ObjectStore.free_bytes`."""
        return 2**40

    def uri(self, key: str) -> str:
        """The object's full name."""
        return f"virtual://{key}"

    def _read(self, what: str, effect: Callable[[], Any]) -> Any:
        def refusal(cause: str) -> UnreadableObject:
            return refused(what, cause)

        return self.actor.do(Call(what=what, effect=effect, faults=READ_FAULTS, refusal=refusal))

    def _write(
        self, what: str, key: str, effect: Callable[[], None], late: Callable[[], None] | None = None
    ) -> None:
        def refusal(cause: str) -> UnreadableObject:
            return refused(key, cause)

        self.actor.do(
            Call(
                what=what,
                effect=effect,
                late=late,
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


def _page(folder: str, among: Mapping[str, Stored], beyond: str) -> list[ObjectEntry]:
    inside = f"{folder}/"
    keys = sorted(key for key in among if key.startswith(inside) and key > beyond)
    return [
        ObjectEntry(
            key=key, size_bytes=len(among[key].data), modified_ms=among[key].modified_ms
        )
        for key in keys[:PAGE]
    ]


def short(key: str) -> str:
    """Enough of a key to know it: the topic's id, start offset, segment id and part."""
    folder, _, name = key.rpartition("/")
    return f"{folder[-22:-16]}/{name.lstrip('0')}"


def refused(where: str, cause: str) -> UnreadableObject:
    return UnreadableObject(cause, where=where, remedy="Run again.")
