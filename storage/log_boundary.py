"""Below which version a table's commits are deleted: a durable boundary, checked after each write.

A commit creates the file of its version, and of two creations one is refused. That holds only as
long as the file stays: once old commits are deleted, a writer that was held up between its conflict
check and its creation could create an old version a second time. So whoever deletes makes a boundary
durable first, and whoever has created a commit looks at it afterwards:

- the file was there when the writer came: its creation was refused;
- it had been deleted: then the boundary is above it, and the writer sees that.

A version below the boundary therefore says nothing: it was either created in time, long ago, or in
vain. Its writer takes the file away, which whoever raised the boundary does as well, and asks the
rows. slatedb's RFC 0026 has the idea.

A boundary is an object named by its version; the highest counts. One that is written late by a
deleter that was held up itself lowers nothing, and its content does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storage.file_sync import make_folder, sync

BOUNDARY_FOLDER: Final = "_tierfold_log_boundary"


@dataclass(frozen=True, slots=True)
class LogBoundary:
    """The boundary of the table in `table`."""

    table: Path

    @property
    def folder(self) -> Path:
        """Where its objects lie."""
        return self.table / BOUNDARY_FOLDER

    def read(self) -> int:
        """The lowest version that is kept: 0 at first; raises OSError."""
        return max(self._versions(), default=0)

    def raise_to(self, version: int) -> None:
        """Make it durable that versions below `version` may be deleted; raises OSError."""
        make_folder(self.folder)
        (self.folder / f"{version:020d}").touch()
        sync(self.folder)
        for each in self._versions():
            if each < version:
                (self.folder / f"{each:020d}").unlink(missing_ok=True)

    def _versions(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return [int(each.name) for each in self.folder.iterdir() if each.name.isdecimal()]


def is_kept(version: int, boundary: int) -> bool:
    """Whether a commit that was just created at `version` counts, by the boundary read since."""
    return version >= boundary
