"""The files of a segment in a log directory, all as of one time.

A broker's cleaner writes a segment beside the old one, and swaps their files one after the other by
renaming them. What is open stays readable, so the files are opened first. If then each name still
leads to the file that was opened, the next segment still begins where it did, and none lies
between, they belong together.
Rule: Kafka `LocalLog.replaceSegments`, `LogFileUtils`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.uploading.local_log import LocalSegment
from tierfold.storage.log_dirs.log_directory import (
    listed_offsets,
    readable,
    segment_file,
)
from tierfold.storage.segments.log_windows import StoredObject
from tierfold.storage.tiers.remote_tier import Part

_BESIDE: Final = {
    Part.OFFSET_INDEX: "index",
    Part.TIME_INDEX: "timeindex",
    Part.TRANSACTION_INDEX: "txnindex",
}


class SegmentReplaced(UnreadableObject):
    """The broker replaced or deleted the segment meanwhile; there is nothing to mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSegment:
    """A segment whose files are open."""

    segment: LocalSegment
    log: BinaryIO
    where: str
    """The name of its `.log`."""
    beside: Mapping[Part, bytes]
    """Its other files, whole, without a leader epoch checkpoint."""

    def stored(self) -> StoredObject:
        """Its `.log`, which is read as it was opened."""
        return StoredObject(read=self._read, end=self.segment.size_bytes, where=self.where)

    def _read(self, start: int, length: int) -> NDArray[np.uint8]:
        # Not mapped: a broker may truncate a log, and the process would die.
        return np.frombuffer(os.pread(self.log.fileno(), length, start), np.uint8)


@contextmanager
def opened(folder: Path, segment: LocalSegment) -> Iterator[OpenSegment]:
    """Open the files of a segment; raises SegmentReplaced, UnreadableObject."""
    following = segment.end_offset + 1
    names = {part: segment_file(folder, segment.start_offset, _BESIDE[part]) for part in _BESIDE}
    names[Part.SNAPSHOT] = segment_file(folder, following, "snapshot")
    log_name = segment_file(folder, segment.start_offset, "log")
    with ExitStack() as stack, readable(folder):
        try:
            log = stack.enter_context(log_name.open("rb"))
            files = {
                part: stack.enter_context(name.open("rb"))
                for part, name in names.items()
                if part is not Part.TRANSACTION_INDEX or name.exists()
            }
            found = OpenSegment(
                segment=segment,
                log=log,
                where=str(log_name),
                beside={part: file.read() for part, file in files.items()},
            )
            is_same = all(_leads_to(names[part], file) for part, file in files.items())
            is_same = is_same and _leads_to(log_name, log)
            is_same = is_same and os.fstat(log.fileno()).st_size == segment.size_bytes
            logs, snapshots = listed_offsets(folder)
            strays = segment.stray_snapshots
            starts = logs if strays is None else logs | (snapshots - strays)
            between = any(segment.start_offset < one < following for one in starts)
            is_same = is_same and following in logs and not between
        except FileNotFoundError as error:
            raise _replaced(log_name) from error
        if not is_same:
            raise _replaced(log_name)
        yield found


def _leads_to(name: Path, file: BinaryIO) -> bool:
    return os.path.samestat(name.stat(), os.fstat(file.fileno()))


def _replaced(log_name: Path) -> SegmentReplaced:
    return SegmentReplaced(
        "the broker replaced or deleted it meanwhile",
        where=str(log_name),
        remedy="The next upload takes what is there then.",
    )
