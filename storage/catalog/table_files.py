"""The interface of a Delta table's files, wherever they are.

Names are relative to the table, with `/` between folders. A file is created once and never changed;
only the pointer to the newest checkpoint is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tierfold.storage.tiers.object_store import ObjectEntry


class TableFiles(Protocol):
    """The files of one table; every method raises OSError or UnreadableObject."""

    @property
    def uri(self) -> str:
        """The table's URI or path, for delta-rs and messages."""

    @property
    def is_atomic(self) -> bool:
        """Whether a file is whole and durable as soon as a listing shows it."""

    def delta_options(self) -> dict[str, str]:
        """The storage options of delta-rs, with credentials that are valid now."""

    def where(self, name: str) -> str:
        """The full name of a file or folder, for messages."""

    def ensure_plain(self) -> None:
        """Raise UnreadableObject if a link, a FIFO or a device is where a file or folder belongs.

        delta-rs and Spark open the files by their paths: a link would lead them elsewhere.
        """

    def ensure_space(self, size_bytes: int) -> None:
        """Raise OSError (ENOSPC) unless a commit of about this size fits.

        delta-rs panics in a thread of its own if the disk is full.
        """

    def make_table(self) -> None:
        """Make the place of a new table durably; raises BadSettings if it cannot be used."""

    def entries(self, folder: str) -> tuple[ObjectEntry, ...]:
        """The files directly in a folder, in no order; none if there is no such folder."""

    def has_data(self) -> bool:
        """Whether there is a data file in any folder."""

    def existing(self, names: Iterable[str]) -> list[str]:
        """Those of the files that exist, in their order."""

    def read(self, name: str) -> bytes:
        """A whole file."""

    def read_end(self, name: str, size_bytes: int, *, of_bytes: int) -> bytes:
        """The last bytes of a file that has `of_bytes`; all of a shorter one."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    def create_empty(self, name: str) -> None:
        """Create an empty file durably, unless it exists."""

    def sync(self, log: Iterable[str], data: Iterable[str] = ()) -> None:
        """Make files of the log and data files durable, with their folders and the table's.

        A data file may be missing: one that was superseded long ago is deleted.
        """

    def scratch(self) -> AbstractContextManager[Path]:
        """A private local folder, which is deleted when its context ends."""

    def fetch(self, name: str, path: Path) -> None:
        """Bring a file into the scratch folder."""

    def publish(self, path: Path, name: str) -> None:
        """Create a file with the content of one in the scratch folder, unless it exists.

        It appears whole and durable.
        """

    def replace(self, path: Path, name: str) -> None:
        """Create or replace a file by one in the scratch folder.

        Readers find the old one, the new one or none.
        """

    def delete_scratch(self, *, older_than_ms: int) -> None:
        """Delete the scratch folders of runs that died before this time."""
