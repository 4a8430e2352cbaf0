"""A durable boundary below which a table's commits are deleted; checked after each write.

A commit creates the file of its version. If two writers try, one is refused, but only as long as
the file exists. Once it is deleted, a writer that stalled between its conflict check and its
creation could create an old version again. So before it deletes commits, a process makes a boundary
durable, and a writer reads the boundary after it has created a commit:

- if the file still existed, the creation was refused;
- if the file had been deleted, the boundary is above its version, and the writer sees that.

A commit below the boundary may have been created in time or too late. So its writer deletes the
file and reads the rows to find out. The idea is from slatedb's RFC 0026.

A boundary is an empty file named by its version; the highest one counts. So a stalled deleter
cannot lower it, and a plain put can write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tierfold.storage.catalog.table_files import TableFiles

BOUNDARY_FOLDER: Final = "_tierfold_log_boundary"


@dataclass(frozen=True, slots=True)
class LogBoundary:
    """The boundary of the table with these files."""

    files: TableFiles

    def read(self) -> int:
        """The lowest version that is kept, 0 at first; raises OSError or UnreadableObject."""
        return max(self._versions(), default=0)

    def raise_to(self, version: int) -> None:
        """Allow durably that versions below `version` are deleted; raises as `read` does."""
        self.files.create_empty(f"{BOUNDARY_FOLDER}/{version:020d}")
        for older in self._versions():
            if older < version:
                self.files.delete(f"{BOUNDARY_FOLDER}/{older:020d}")

    def _versions(self) -> list[int]:
        names = [entry.key.rpartition("/")[2] for entry in self.files.entries(BOUNDARY_FOLDER)]
        return [int(name) for name in names if name.isdecimal()]


def is_kept(version: int, boundary: int) -> bool:
    """Whether a commit just created at `version` counts, by the boundary read afterwards."""
    return version >= boundary
