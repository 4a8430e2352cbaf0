"""The files of a Delta table in a local folder."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from tierfold.storage.catalog.file_sync import make_folder, sync, sync_all
from tierfold.storage.tiers.folder_handles import (
    deleted_file,
    deleted_folder,
    ensure_plain,
    opened_file,
)
from tierfold.storage.tiers.object_store import ObjectEntry

COMMIT_BYTES: Final = 256 << 10
"""What a commit may take beside its rows: their schema, the log, a new table."""

SCRATCH_PREFIX: Final = "_tierfold_checkpoint-"


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files below `table`; see `TableFiles`. No link is followed below the catalog's folder.

    Files are durable once they are synced. A file is published by a link, so it appears whole; that
    needs a scratch folder on the same disk, in the table. If a run dies, its scratch folder stays.
    """

    table: Path
    uri: str

    @property
    def is_atomic(self) -> bool:
        """No: a power cut may leave an empty file."""
        return False

    def delta_options(self) -> dict[str, str]:
        """None: delta-rs opens the folder itself."""
        return {}

    def where(self, name: str) -> str:
        """The path."""
        return str(self.table / name)

    def ensure_plain(self) -> None:
        """See `TableFiles.ensure_plain`; the catalog's own folder is no link either."""
        ensure_plain(self.table)

    def ensure_space(self, size_bytes: int) -> None:
        """See `TableFiles.ensure_space`; the folder may not be there yet."""
        there = next(path for path in (self.table, *self.table.parents) if path.exists())
        if shutil.disk_usage(there).free < size_bytes + COMMIT_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.table))

    def make_table(self) -> None:
        """See `TableFiles.make_table`."""
        make_folder(self.table)

    def entries(self, folder: str) -> tuple[ObjectEntry, ...]:
        """See `TableFiles.entries`; it includes folders."""
        path = self.table / folder
        if not path.is_dir():
            return ()
        with os.scandir(path) as children:
            found = [(child.name, _stat(child)) for child in children]
        return tuple(
            ObjectEntry(
                key=f"{folder}/{name}",
                size_bytes=stat.st_size,
                modified_ms=stat.st_mtime_ns // 1_000_000,
            )
            for name, stat in found
            if stat is not None
        )

    def has_data(self) -> bool:
        """See `TableFiles.has_data`."""
        return any(self.table.rglob("part-*.parquet"))

    def existing(self, names: Iterable[str]) -> list[str]:
        """See `TableFiles.existing`."""
        return [name for name in names if os.path.lexists(self.table / name)]

    def read(self, name: str) -> bytes:
        """See `TableFiles.read`."""
        with self._opened(name) as file:
            return file.read()

    def read_end(self, name: str, size_bytes: int, *, of_bytes: int) -> bytes:
        """See `TableFiles.read_end`."""
        with self._opened(name) as file:
            file.seek(max(0, of_bytes - size_bytes))
            return file.read(size_bytes)

    @contextmanager
    def _opened(self, name: str) -> Iterator[BinaryIO]:
        with (
            opened_file(self.table / name, follows_links=False) as descriptor,
            open(descriptor, "rb", closefd=False) as file,
        ):
            yield file

    def delete(self, name: str) -> None:
        """See `TableFiles.delete`; it goes through handles on the folders."""
        deleted_file(self.table.parent, f"{self.table.name}/{name}")

    def create_empty(self, name: str) -> None:
        """See `TableFiles.create_empty`."""
        path = self.table / name
        make_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        sync(path.parent)

    def sync(self, log: Iterable[str], data: Iterable[str] = ()) -> None:
        """See `TableFiles.sync`."""
        data_paths = list(dict.fromkeys(self.table / name for name in data))
        for path in data_paths:
            with contextlib.suppress(FileNotFoundError):
                sync(path)
        log_paths = [self.table / name for name in log]
        sync_all(log_paths)
        sync_all(path.parent for path in data_paths if path.parent.exists())
        sync_all((*(path.parent for path in log_paths), self.table))

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """See `TableFiles.scratch`."""
        folder = self.table / f"{SCRATCH_PREFIX}{uuid.uuid4().hex}"
        try:
            folder.mkdir()
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def fetch(self, name: str, path: Path) -> None:
        """See `TableFiles.fetch`."""
        os.link(self.table / name, path, follow_symlinks=False)

    def publish(self, path: Path, name: str) -> None:
        """See `TableFiles.publish`."""
        final = self.table / name
        sync(path)
        with contextlib.suppress(FileExistsError):
            final.hardlink_to(path)
        sync(final.parent)

    def replace(self, path: Path, name: str) -> None:
        """See `TableFiles.replace`."""
        final = self.table / name
        sync(path)
        path.replace(final)
        sync(final.parent)

    def delete_scratch(self, *, older_than_ms: int) -> None:
        """See `TableFiles.delete_scratch`."""
        for path in self.table.glob(f"{SCRATCH_PREFIX}*"):
            if path.lstat().st_mtime_ns // 1_000_000 < older_than_ms:
                deleted_folder(self.table.parent, f"{self.table.name}/{path.name}")


def _stat(child: os.DirEntry[str]) -> os.stat_result | None:
    """The status of a file, or of a link itself; None: it was deleted."""
    try:
        return child.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
