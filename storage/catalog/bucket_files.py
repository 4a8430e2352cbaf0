"""The files of a Delta table in an object store.

A put is atomic and durable, so nothing is synced, and a checkpoint is made in a temporary folder of
this machine.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.storage.private_folders import scratch_parent
from tierfold.storage.tiers.object_store import Bytes, ObjectEntry, ObjectStore


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """The files of the table at `uri`, whose keys are relative to `store`; see `TableFiles`."""

    uri: str
    store: ObjectStore
    delta_options: Callable[[], dict[str, str]]
    """See `TableFiles.delta_options`."""

    @property
    def is_atomic(self) -> bool:
        """Yes, by the contract of `ObjectStore`."""
        return True

    def where(self, name: str) -> str:
        """The object's URI."""
        return self.store.uri(name)

    def ensure_plain(self) -> None:
        """Do nothing: a bucket has only objects."""

    def ensure_space(self, size_bytes: int) -> None:
        """Do nothing: a bucket is never full."""

    def make_table(self) -> None:
        """Check that the store refuses a conditional put of a name that is taken.

        A store that ignores the condition would overwrite the commits of other runs. Raises
        BadSettings if it does.
        """
        probe = f"_tierfold_probe-{uuid.uuid4().hex}"
        self.store.create(probe, b"first")
        with suppress(UnreadableObject):
            self.store.create(probe, b"second")
        is_kept = self.read(probe) == b"first"
        self.store.delete(probe)
        if not is_kept:
            raise BadSettings(
                "the store ignores the condition of a put (If-None-Match: *), so runs would"
                " overwrite each other's commits",
                where=self.uri,
                remedy="Put the catalog on a store that keeps it, or in a folder (--catalog).",
            )

    def entries(self, folder: str) -> tuple[ObjectEntry, ...]:
        """See `TableFiles.entries`."""
        return tuple(self.store.list(folder))

    def has_data(self) -> bool:
        """See `TableFiles.has_data`."""
        folders = ("", *self.store.list_folders(""))
        return any(_is_data(entry.key) for folder in folders for entry in self.store.list(folder))

    def existing(self, names: Iterable[str]) -> list[str]:
        """See `TableFiles.existing`; it lists each folder once."""
        wanted = list(names)
        folders = {name.rpartition("/")[0] for name in wanted}
        found = {entry.key for folder in sorted(folders) for entry in self.store.list(folder)}
        return [name for name in wanted if name in found]

    def read(self, name: str) -> bytes:
        """See `TableFiles.read`."""
        return self.store.read(name).tobytes()

    def read_end(self, name: str, size_bytes: int, *, of_bytes: int) -> bytes:
        """See `TableFiles.read_end`."""
        start = max(0, of_bytes - size_bytes)
        return self.store.read_range(name, start, of_bytes - start).tobytes()

    def delete(self, name: str) -> None:
        """See `TableFiles.delete`."""
        self.store.delete(name)

    def create_empty(self, name: str) -> None:
        """See `TableFiles.create_empty`."""
        self._create(name, b"")

    def sync(self, log: Iterable[str], data: Iterable[str] = ()) -> None:
        """Do nothing: an object is durable as soon as it exists."""

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """See `TableFiles.scratch`."""
        parent = scratch_parent()
        with tempfile.TemporaryDirectory(prefix="tierfold-checkpoint-", dir=parent) as folder:
            yield Path(folder)

    def fetch(self, name: str, path: Path) -> None:
        """See `TableFiles.fetch`."""
        path.write_bytes(self.read(name))

    def publish(self, path: Path, name: str) -> None:
        """See `TableFiles.publish`."""
        self._create(name, path.read_bytes())

    def replace(self, path: Path, name: str) -> None:
        """Delete the object and create it again, because a store never overwrites.

        If another run creates it in between, the other one's stays.
        """
        self.store.delete(name)
        self._create(name, path.read_bytes())

    def delete_scratch(self, *, older_than_ms: int) -> None:
        """Do nothing: the operating system deletes old temporary folders."""

    def _create(self, name: str, data: Bytes) -> None:
        """Create an object unless it exists, also if the answer to an own attempt was lost."""
        try:
            self.store.create(name, data)
        except UnreadableObject:
            if not self.store.exists(name):
                raise


def _is_data(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name.startswith("part-") and name.endswith(".parquet")
