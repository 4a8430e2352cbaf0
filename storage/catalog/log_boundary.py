"""A durable boundary below which a table's commits are deleted; checked after each write.

A commit creates the file of its version; of two creations one is refused. That holds as long as the
file stays: once old commits are deleted, a writer that was held up between its conflict check and
its creation could create an old version a second time. So a deleter first makes a boundary durable,
and a writer reads the boundary after it has created a commit:

- if the file was there when the writer came, its creation was refused;
- if the file had been deleted, the boundary is above its version, and the writer sees that.

So a version below the boundary proves nothing: it was created in time, long ago, or too late. Its
writer deletes the file, as the deleter does, and reads the rows to find out. The idea is from
slatedb's RFC 0026.

A boundary is an object named by its version, without content; the highest one counts. So a deleter
that was held up itself cannot lower it, and a plain put is enough to write one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tierfold.storage.catalog.file_sync import make_folder, sync

BOUNDARY_FOLDER: Final = "_tierfold_log_boundary"


@dataclass(frozen=True, slots=True)
class LogBoundary:
    """The boundary of the table in `table`."""

    table: Path

    @property
    def folder(self) -> Path:
        """The folder of its objects."""
        return self.table / BOUNDARY_FOLDER

    def read(self) -> int:
        """The lowest version that is kept: 0 at first; raises OSError."""
        return max(self._versions(), default=0)

    def raise_to(self, version: int) -> None:
        """Make it durable that versions below `version` may be deleted; raises OSError."""
        make_folder(self.folder)
        (self.folder / f"{version:020d}").touch()
        sync(self.folder)
        for older in self._versions():
            if older < version:
                (self.folder / f"{older:020d}").unlink(missing_ok=True)

    def _versions(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return [int(path.name) for path in self.folder.iterdir() if path.name.isdecimal()]


def is_kept(version: int, boundary: int) -> bool:
    """Whether a commit just created at `version` counts, by the boundary read afterwards."""
    return version >= boundary
