"""What a process keeps of the segments that it read last: manifests, data keys, open chunks."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from tierfold.storage.tiers.aiven.large_chunks import OpenChunks
from tierfold.storage.tiers.aiven.manifest import Manifest

KEPT_MAX: Final = 64
"""Kept at a time: more than the segments that a process reads at once."""

KEPT_BYTES_MAX: Final = 32 * 2**20
"""Of chunk indexes: four of the largest, or thousands of usual ones."""

_Kept = TypeVar("_Kept")


class LastRead(Generic[_Kept]):
    """The values that were read last, by name; `size_of` returns the bytes that one takes."""

    def __init__(self, size_of: Callable[[_Kept], int] = lambda _: 0) -> None:
        self._size_of = size_of
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def get(self, name: str, read: Callable[[], _Kept]) -> _Kept:
        """The one kept under that name, else what `read` returns."""
        with self._lock:
            found = self._kept.get(name)
        if found is None:
            found = read()
        with self._lock:
            self._kept[name] = found
            self._kept.move_to_end(name)
            while len(self._kept) > KEPT_MAX or self._held_bytes() > KEPT_BYTES_MAX:
                self._kept.popitem(last=False)
        return found

    def _held_bytes(self) -> int:
        return sum(map(self._size_of, self._kept.values()))


class Kept:
    """What one tier keeps; it stays in this process."""

    def __init__(self) -> None:
        self.manifests: LastRead[Manifest] = LastRead(lambda read: read.chunks.held_bytes)
        self.parsing = threading.Lock()
        """Held while a manifest is parsed: a large one takes ten times its size, and many threads
        read some."""
        self.data_keys: LastRead[bytes] = LastRead()
        """By the wrapped key."""
        self.open_chunks = OpenChunks()

    def __reduce__(self) -> tuple[object, ...]:
        return (Kept, ())
