"""The logs in log directories of this machine that are read in place of a tier's.

A file is proven to be the segment's once per process (`segment_proof`), which reads it whole. It
stays open meanwhile, so a broker that deletes or replaces it changes nothing. If it is written to,
cut off, or cannot be read, the rest comes from the tier: after an unclean election a broker
truncates a log, and appends sound batches of other records.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.uploading.local_log import LocalSegment
from tierfold.storage.log_dirs.log_directory import LogDirectory, segment_file
from tierfold.storage.log_dirs.segment_files import opened
from tierfold.storage.log_dirs.segment_proof import is_same
from tierfold.storage.tiers.near_reads import NearReadCounter, NearReads
from tierfold.storage.tiers.remote_tier import NearLog, NearLogs, Part, RemoteTier, address_of

_Content: TypeAlias = tuple[int, int]
"""A file's size and the time of its last change; another name changes neither."""
_State: TypeAlias = tuple[int, int, _Content]
"""A file's inode, the time of the last change of it, and the content."""

_KNOWN_MAX: Final = 10_000
_known: Final[dict[tuple[str, str, PartitionKey, Segment], tuple[_State, bool]]] = {}
"""What this process has found, by the names of a file and of the tier's log: in which state the
file was, and whether it was the segment's."""


@dataclass(frozen=True, slots=True)
class NearSegments(NearLogs):
    """The rolled segments in some log directories; see `NearLogs`."""

    directories: tuple[LogDirectory, ...]
    counter: NearReadCounter
    """Counts what is read there."""

    def log_of(self, tier: RemoteTier, key: PartitionKey, segment: Segment) -> NearLog | None:
        """See `NearLogs.log_of`: no broker has what a run wrote."""
        if not segment.is_upload:
            return None
        for directory in self.directories:
            name = segment_file(directory.folder(key), segment.own_start_offset, "log")
            with suppress(OSError, TierfoldError):
                if (proven := _proven(directory, tier, key, segment)) is not None:
                    found = _OpenLog(*proven, tier, key, segment, self.counter)
                    return NearLog(read=found.read, where=str(name))
        return None

    def is_named_by(self, error: TierfoldError) -> bool:
        """See `NearLogs.is_named_by`."""
        return any(error.where.startswith(f"{one.path}{os.sep}") for one in self.directories)


def near_segments(directories: Iterable[str], counter: NearReadCounter) -> NearSegments:
    """The segments in these log directories, which need not exist on this machine."""
    return NearSegments(tuple(LogDirectory(Path(one)) for one in directories), counter)


class _OpenLog(NamedTuple):
    """An open file with the bytes of a segment's log."""

    file: BinaryIO
    content: _Content
    """As it was before it was proven."""
    tier: RemoteTier
    key: PartitionKey
    segment: Segment
    counter: NearReadCounter

    def read(self, start: int, length: int) -> NDArray[np.uint8]:
        """See `NearLog.read`."""
        wanted_bytes = max(0, min(length, self.segment.log_bytes - start))
        data, is_same = b"", False
        with suppress(OSError):
            data = os.pread(self.file.fileno(), wanted_bytes, start)
            is_same = _content_of(os.fstat(self.file.fileno())) == self.content
        if not is_same or len(data) < wanted_bytes:
            address = address_of(self.key, self.segment)
            return self.tier.read_range(address, Part.LOG, start, length)
        self.counter.add(NearReads(reads=1, read_bytes=len(data)))
        return np.frombuffer(data, np.uint8)


def _proven(
    directory: LogDirectory, tier: RemoteTier, key: PartitionKey, segment: Segment
) -> tuple[BinaryIO, _Content] | None:
    """The open `.log` of the segment; None: it is another's. Raises OSError and TierfoldError."""
    if directory.topic_id(key) != key.topic_id:
        return None
    wanted = LocalSegment(
        start_offset=segment.own_start_offset,
        end_offset=segment.end_offset,
        size_bytes=segment.log_bytes,
        max_timestamp_ms=segment.max_timestamp_ms,
        stray_snapshots=None,
    )
    with opened(directory.folder(key), wanted) as files:
        status = os.fstat(files.log.fileno())
        content = _content_of(status)
        state = status.st_ino, status.st_ctime_ns, content
        name = files.where, tier.uri(address_of(key, segment), Part.LOG), key, segment
        known = _known.get(name)
        if known is None or known[0] != state:
            found = is_same(files, directory.path, tier, key, segment)
            if len(_known) >= _KNOWN_MAX:
                _known.clear()
            known = _known[name] = state, found
        return (os.fdopen(os.dup(files.log.fileno()), "rb"), content) if known[1] else None


def _content_of(status: os.stat_result) -> _Content:
    return status.st_size, status.st_mtime_ns
