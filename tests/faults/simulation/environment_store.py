"""An object store in memory, as one actor sees it; a call behaves like `ObjectStore` or fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from tests.faults.simulation.simulation_scheduler import READ_FAULTS, WRITE_FAULTS, Actor, Call
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.listed_count import LISTED
from tierfold.storage.tiers.object_store import (
    Bytes,
    ObjectClasses,
    ObjectEntry,
    ObjectWriter,
    as_view,
)
from tierfold.storage.tiers.request_counts import Requests

PAGE: Final = 9
"""Objects per page of a listing; a folder may change between two pages."""

WRITE_WEIGHT: Final = 2
"""How much more often a write fails than a read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The content of an object, or what its writer has written so far."""

    data: bytes | bytearray
    modified_ms: int


@dataclass(slots=True, kw_only=True)
class Objects:
    """The objects of a store, and the keys of those that were deleted."""

    now_ms: Callable[[], int]
    removed: Callable[[str], None]
    """Called with the key after each deletion."""
    deletes: Callable[[str], None]
    """Called with the key before each deletion."""
    folders: frozenset[str] = frozenset()
    """Top-level folders that exist even when empty."""
    stored: dict[str, Stored] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Keys that were deleted."""
    unfinished: dict[str, Stored] = field(default_factory=dict)
    """Hidden files of writers that are writing or died."""
    _hidden: count[int] = field(default_factory=count)

    def begin(self, key: str) -> str:
        """Start a hidden file beside `key`; return its name, or raise UnreadableObject if taken."""
        if key in self.stored:
            raise _taken(key)
        folder, _, name = key.rpartition("/")
        hidden = f"{folder}/.{name}.{next(self._hidden)}.staged"
        self.unfinished[hidden] = Stored(data=bytearray(), modified_ms=self.now_ms())
        return hidden

    def end(self, key: str, hidden: str, data: bytes) -> None:
        """Link a hidden file to `key`; raises UnreadableObject if it is gone or `key` is taken."""
        if key not in self.stored and self.unfinished.pop(hidden, None) is None:
            raise _missing(key)
        self.put(key, data)

    def put(self, key: str, data: bytes) -> None:
        """Add an object; raises UnreadableObject if the key is taken."""
        new = Stored(data=data, modified_ms=self.now_ms())
        if self.stored.setdefault(key, new) is not new:
            raise _taken(key)

    def remove(self, key: str) -> None:
        """Delete an object; a missing one is not an error."""
        self.unfinished.pop(key, None)
        if key in self.stored:
            self.deletes(key)
        if self.stored.pop(key, None) is not None:
            self.gone.add(key)
            self.removed(key)

    def get(self, key: str) -> bytes | bytearray:
        """Return an object's content; raises UnreadableObject if it is missing."""
        if key not in self.stored:
            raise _missing(key)
        return self.stored[key].data

    def inside(self, folder: str, *, beyond: str, unfinished: bool) -> list[ObjectEntry]:
        """Return the next page of a listing: keys after `beyond`."""
        among = self.unfinished if unfinished else self.stored
        inside = f"{folder}/" if folder else ""
        keys = sorted(
            key
            for key in among
            if key.startswith(inside) and "/" not in key[len(inside) :] and key > beyond
        )
        return [
            ObjectEntry(
                key=key, size_bytes=len(among[key].data), modified_ms=among[key].modified_ms
            )
            for key in keys[:PAGE]
        ]

    def folders_in(self, folder: str) -> list[str]:
        """Return the names of its folders, sorted."""
        inside = f"{folder}/" if folder else ""
        rests = (key[len(inside) :] for key in self.stored if key.startswith(inside))
        names = {rest.partition("/")[0] for rest in rests if "/" in rest}
        return sorted(names if folder else names | self.folders)


@dataclass(frozen=True, slots=True)
class VirtualStore:
    """The `ObjectStore` of one actor; each call is a scheduling point."""

    actor: Actor
    objects: Objects

    keeps_empty_folders = True
    """See `ObjectStore.keeps_empty_folders`: those of `Objects.folders`."""

    def in_classes(self, _: ObjectClasses) -> Self:
        """See `ObjectStore.in_classes`: nothing here reads one."""
        return self

    def range_mapper(self, _: str) -> None:
        """See `ObjectStore.range_mapper`."""

    def stored_checksum(self, _: str) -> None:
        """See `ObjectStore.stored_checksum`: there is none, so the product reads objects back."""

    def list(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.list`; the store may change between two pages."""
        yield from self._listed("list", folder, unfinished=False)

    def unfinished(self, folder: str) -> Iterator[ObjectEntry]:
        """See `ObjectStore.unfinished`."""
        yield from self._listed("list unfinished", folder, unfinished=True)

    def _listed(self, what: str, folder: str, *, unfinished: bool) -> Iterator[ObjectEntry]:
        beyond = ""
        while True:
            page = self._read(
                f"{what} from {beyond[-40:] or 'the start'}",
                folder,
                partial(self.objects.inside, folder, beyond=beyond, unfinished=unfinished),
            )
            yield from page
            if len(page) < PAGE:
                return
            beyond = page[-1].key

    def list_each(
        self, folders: Sequence[str]
    ) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
        """See `ObjectStore.list_each`."""
        return _each(self.list, folders)

    def unfinished_each(
        self, folders: Sequence[str]
    ) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
        """See `ObjectStore.unfinished_each`."""
        return _each(self.unfinished, folders)

    def list_folders(self, folder: str) -> Iterator[str]:
        """See `ObjectStore.list_folders`."""
        return iter(self._read("list folders", folder, lambda: self.objects.folders_in(folder)))

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        return bool(self._read("look for", _checked(key), lambda: key in self.objects.stored))

    def read(self, key: str) -> NDArray[np.uint8]:
        """See `ObjectStore.read`."""
        data = self._read("read", _checked(key), lambda: self.objects.get(key))
        return np.frombuffer(data, np.uint8).copy()

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        """See `ObjectStore.read_range`."""
        what = f"read from byte {start} on of"
        data = self._read(what, _checked(key), lambda: self.objects.get(key))
        return np.frombuffer(data[start : start + length], np.uint8).copy()

    def create(self, key: str, data: Bytes) -> None:
        """See `ObjectStore.create`."""
        with self.open_new(key) as writer:
            writer.write(data)

    @contextmanager
    def open_new(self, key: str) -> Iterator[ObjectWriter]:
        """See `ObjectStore.open_new`; a dead writer's hidden file stays."""
        objects = self.objects
        hidden = objects.begin(_checked(key))
        writer = _VirtualWriter(objects.unfinished[hidden].data)
        try:
            yield writer
            data = bytes(writer.data)
            self._write(
                "create",
                key,
                lambda: objects.end(key, hidden, data),
                late=lambda: objects.put(key, data),
            )
        except Exception:
            objects.unfinished.pop(hidden, None)
            raise

    def copy(self, source: str, target: str) -> int:
        """See `ObjectStore.copy`."""
        data = bytes(self._read("copy", _checked(source), lambda: self.objects.get(source)))
        with self.open_new(target) as writer:
            writer.write(data)
        return len(data)

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        self._write("delete", key, lambda: self.objects.remove(key))

    def free_bytes(self) -> int:
        """See `ObjectStore.free_bytes`."""
        return 2**40

    def requests(self) -> Requests:
        """See `ObjectStore.requests`."""
        return Requests()

    def uri(self, key: str) -> str:
        """The object's full name."""
        return f"virtual://{key}"

    def _read(self, what: str, key: str, effect: Callable[[], Any]) -> Any:
        call = Call(
            what=f"{what} {_short(key)}",
            effect=effect,
            faults=READ_FAULTS,
            error=partial(_error, key),
        )
        return self.actor.do(call)

    def _write(
        self,
        what: str,
        key: str,
        effect: Callable[[], None],
        *,
        late: Callable[[], None] | None = None,
    ) -> None:
        call = Call(
            what=f"{what} {_short(_checked(key))}",
            effect=effect,
            late=late,
            faults=WRITE_FAULTS,
            error=partial(_error, key),
            weight=WRITE_WEIGHT,
        )
        self.actor.do(call)


@dataclass(slots=True)
class _VirtualWriter:
    data: bytearray

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def write(self, data: Bytes) -> None:
        self.data += as_view(data)


def _short(key: str) -> str:
    """Shorten a key to six characters of the topic id and the file name."""
    folder, _, name = key.rpartition("/")
    return f"{folder[-22:-16]}/{name.lstrip('0')}"


def _each(
    listed: Callable[[str], Iterator[ObjectEntry]], folders: Sequence[str]
) -> dict[str, tuple[ObjectEntry, ...] | Exception]:
    """List the folders as `listed_one_by_one` does, but without threads."""
    found: dict[str, tuple[ObjectEntry, ...] | Exception] = {}
    for folder in folders:
        try:
            entries = tuple(listed(folder))
            LISTED.add(len(entries))
            found[folder] = entries
        except Exception as error:  # noqa: BLE001 - it concerns this folder alone
            found[folder] = error
    return found


def _checked(key: str) -> str:
    if "\0" in key or any(part in {"", ".", ".."} for part in key.split("/")):
        raise _error(key, "the key leaves the store or names nothing in it")
    return key


def _taken(key: str) -> UnreadableObject:
    return _error(key, "the name is taken, and nothing is ever overwritten")


def _missing(key: str) -> UnreadableObject:
    return _error(key, "it is not there, or no longer")


def _error(key: str, cause: str) -> UnreadableObject:
    return UnreadableObject(cause, where=f"virtual://{key}", remedy="Run again.")
