"""A broker's log directory: the partitions in it, and what it has of each.

    meta.properties                     shows that this is one
    <topic>-<partition>/                a partition; `-delete`, `-future` and `-stray` end the names
                                        of folders that are none, or not yet
        partition.metadata              the topic id
        leader-epoch-checkpoint
        <20 digits>.log .index .timeindex .txnindex     a segment, named by its first offset
        <20 digits>.snapshot            the producers at that offset
    *-checkpoint                        `offset_checkpoints`

A broker may write all of it meanwhile. So what is wanted for a decision is small and read at once;
the segments are read later, each by files that were opened together (`segment_files`).

While a broker's cleaner replaces a segment, its `.log` has another name for a while. A segment
that a listing lacks would make the one below it seem to end later, and its records would be left
out. So a listing counts only if it shows that none is being replaced:

    no `.swap`                               that is what the new files are called meanwhile
    no `.snapshot` between two segments      each segment but the first has one where it begins,
                                             which a replacement does not rename; of others
                                             `stray_snapshots`
    no segment missing at the log's start    the leader epochs begin at the log start, or below
Rule: Kafka `LogManager`, `LogFileUtils`, `PartitionMetadataFile`, `LocalLog.replaceSegments`.
"""

from __future__ import annotations

import errno
import os
import re
from bisect import bisect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.compaction.model.segment_ids import KAFKA_UUID_PATTERN
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.regions import last_stable_of
from tierfold.compaction.uploading.local_log import LocalLog, LocalSegment
from tierfold.storage.clock import pause
from tierfold.storage.indexes.leader_epoch_checkpoint import read_leader_epoch_checkpoint
from tierfold.storage.indexes.producer_snapshot import read_producer_snapshot
from tierfold.storage.kafka.topic_names import TOPIC_PATTERN, is_topic
from tierfold.storage.log_dirs.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    OffsetsByName,
    read_offset_checkpoint,
)
from tierfold.storage.log_dirs.stray_snapshots import is_within

META_PROPERTIES: Final = "meta.properties"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
_PARTITION_METADATA: Final = "partition.metadata"

_FOLDER: Final = re.compile(rf"({TOPIC_PATTERN})-(0|[1-9][0-9]{{0,9}})")
_TOPIC_ID: Final = re.compile(rf"topic_id: ({KAFKA_UUID_PATTERN})")
_FILE: Final = re.compile(r"([0-9]{20})\.(log|snapshot)")
_SWAP: Final = ".swap"
_TIME_ENTRY_BYTES: Final = 12
_TRIES: Final = 8
"""A broker that cleans a log replaces segments one after the other, each within milliseconds."""
_PAUSE_MS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoints:
    """What the checkpoints of a log directory say, as of one time."""

    recovery_points: OffsetsByName
    high_watermarks: OffsetsByName
    log_starts: OffsetsByName
    cleaner_offsets: OffsetsByName


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A log directory; a small value that can be pickled."""

    path: Path

    def check(self) -> None:
        """Raise BadSettings if this is no log directory, UnreadableObject if it cannot be read."""
        with readable(self.path / META_PROPERTIES):
            if (self.path / META_PROPERTIES).is_file():
                return
        raise BadSettings(
            f"this is no log directory of a broker: it has no {META_PROPERTIES}",
            where=str(self.path),
            remedy="Name one of the folders in the broker's log.dirs, or a copy of one.",
        )

    def partitions(self) -> tuple[PartitionKey, ...]:
        """The partitions in it, sorted; raises as `check`.

        One whose topic id cannot be read has none, and `log` raises.
        """
        self.check()
        found = []
        with readable(self.path), os.scandir(self.path) as entries:
            for entry in entries:
                name = _FOLDER.fullmatch(entry.name)
                if name is None or not is_topic(name[1]) or not entry.is_dir():
                    continue
                try:
                    topic_id = self._topic_id(entry.name)
                except CorruptLog:
                    topic_id = ""
                if topic_id is not None:
                    found.append(
                        PartitionKey(topic=name[1], partition=int(name[2]), topic_id=topic_id)
                    )
        return tuple(sorted(found))

    def checkpoints(self) -> LogCheckpoints:
        """What its checkpoints say; raises CorruptLog and UnreadableObject.

        Read it before a partition: then what it says still holds.
        """
        with readable(self.path):
            return LogCheckpoints(
                recovery_points=read_offset_checkpoint(self.path / RECOVERY_POINTS),
                high_watermarks=read_offset_checkpoint(self.path / HIGH_WATERMARKS),
                log_starts=read_offset_checkpoint(self.path / LOG_STARTS),
                cleaner_offsets=read_offset_checkpoint(self.path / CLEANER_OFFSETS),
            )

    def topic_id(self, key: PartitionKey) -> str | None:
        """The topic id in a partition's folder; None: there is none. Raises CorruptLog, OSError."""
        return self._topic_id(str(key))

    def folder(self, key: PartitionKey) -> Path:
        """The folder of a partition."""
        return self.path / str(key)

    def log_sizes(self, key: PartitionKey) -> dict[int, int]:
        """Bytes of each `.log` of a partition, by its first offset; raises OSError.

        What a broker deletes or replaces meanwhile is left out.
        """
        found = {}
        with os.scandir(self.folder(key)) as entries:
            for entry in entries:
                name = _FILE.fullmatch(entry.name)
                if name is not None and name[2] == "log":
                    with suppress(FileNotFoundError):
                        found[int(name[1])] = entry.stat().st_size
        return found

    def log(self, key: PartitionKey, checkpoints: LogCheckpoints) -> LocalLog:
        """What it has of a partition; raises CorruptLog and UnreadableObject.

        While a broker replaces files, the folder is read again.
        """
        for number in range(_TRIES):
            pause(_PAUSE_MS * number)
            try:
                if not key.topic_id:
                    self._topic_id(str(key))
                with readable(self.folder(key), but=(FileNotFoundError,)):
                    return self._log(key, checkpoints)
            except FileNotFoundError:
                continue
        raise UnreadableObject(
            f"segments were being replaced each of the {_TRIES} times that it was read",
            where=str(self.folder(key)),
            remedy="Run again. If no broker is at work there, it died while it cleaned the log:"
            " start it once, which finishes that. Of a copy, copy the folder again. If a snapshot"
            " lies where no segment begins or goes on, restart the broker, which deletes it.",
        )

    def _topic_id(self, folder: str) -> str | None:
        """The id of a partition's topic; None: it was deleted or is being made.

        Raises CorruptLog and OSError.
        """
        file = self.path / folder / _PARTITION_METADATA
        try:
            lines = file.read_text("utf-8", errors="replace").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return None
        found = [_TOPIC_ID.fullmatch(line) for line in lines[1:]]
        if lines[:1] != ["version: 0"] or len(found) != 1 or found[0] is None:
            raise CorruptLog(
                f"it has {lines[:2]}, not version 0 and a topic id",
                where=str(file),
                remedy="Of a copy, copy the file again; else leave the topic out with --topic.",
            )
        return found[0][1]

    def _log(self, key: PartitionKey, checkpoints: LogCheckpoints) -> LocalLog:
        folder, name = self.folder(key), (key.topic, key.partition)
        epochs = folder / LEADER_EPOCHS
        lineage = read_leader_epoch_checkpoint(epochs.read_bytes(), str(epochs))
        logs, snapshots = _offsets(folder)
        if logs and lineage and logs[0] > lineage[0].start_offset:
            raise being_replaced(folder)
        if not logs:
            raise UnreadableObject(
                "there is no segment in it",
                where=str(folder),
                remedy="Of a copy, copy the folder again; else leave the topic out with --topic.",
            )
        rolled = tuple(_segment(folder, *span, snapshots) for span in pairwise(logs))
        return LocalLog(
            key=key,
            rolled=rolled,
            active_start_offset=logs[-1],
            active_bytes=segment_file(folder, logs[-1], "log").stat().st_size,
            lineage=lineage,
            recovery_point=checkpoints.recovery_points.get(name, 0),
            high_watermark=checkpoints.high_watermarks.get(name, 0),
            last_stable_offset=_last_stable(folder, snapshots, logs[-1]),
            log_start_offset=checkpoints.log_starts.get(name),
            cleaner_offset=checkpoints.cleaner_offsets.get(name, 0),
        )


def segment_file(folder: Path, offset: int, suffix: str) -> Path:
    """A file of the segment that starts there, or the snapshot of that offset."""
    return folder / f"{offset:020d}.{suffix}"


def _offsets(folder: Path) -> tuple[list[int], list[int]]:
    """The offsets of the segments and of the snapshots in a folder, ascending.

    Raises FileNotFoundError while a segment is being replaced.
    """
    logs, snapshots = map(sorted, listed_offsets(folder))
    between = {one for one in snapshots if logs and logs[0] < one < logs[-1]}.difference(logs)
    if not all(_is_stray(folder, logs[bisect(logs, one) - 1], one) for one in between):
        raise being_replaced(folder)
    return logs, snapshots


def _is_stray(folder: Path, start: int, offset: int) -> bool:
    """Whether the segment that starts there has what the snapshot stands for."""
    log, index = (segment_file(folder, start, suffix) for suffix in ("log", "index"))
    return is_within(log, index, offset)


def listed_offsets(folder: Path) -> tuple[set[int], set[int]]:
    """The offsets of the segments and of the snapshots in a folder.

    Raises FileNotFoundError if a segment is being replaced.
    """
    found: dict[str, set[int]] = {"log": set(), "snapshot": set()}
    for file in folder.iterdir():
        if file.suffix == _SWAP:
            raise being_replaced(folder)
        if (match := _FILE.fullmatch(file.name)) is not None:
            found[match[2]].add(int(match[1]))
    return found["log"], found["snapshot"]


def being_replaced(folder: Path) -> FileNotFoundError:
    """The error while a broker replaces a segment."""
    return FileNotFoundError(errno.ENOENT, "a segment is being replaced", str(folder))


def _segment(folder: Path, start: int, following: int, snapshots: Iterable[int]) -> LocalSegment:
    log = segment_file(folder, start, "log").stat()
    last = _last_entry(segment_file(folder, start, "timeindex"))
    newest_ms = int.from_bytes(last[:8], "big", signed=True) if any(last) else -1
    return LocalSegment(
        start_offset=start,
        end_offset=following - 1,
        size_bytes=log.st_size,
        max_timestamp_ms=newest_ms if newest_ms >= 0 else log.st_mtime_ns // 1_000_000,
        stray_snapshots=frozenset(one for one in snapshots if start < one < following),
    )


def _last_entry(time_index: Path) -> bytes:
    """The last entry of a time index, which may have megabytes; empty: it has none."""
    with time_index.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        if size_bytes < _TIME_ENTRY_BYTES:
            return b""
        file.seek(size_bytes - _TIME_ENTRY_BYTES)
        return file.read(_TIME_ENTRY_BYTES)


def _last_stable(folder: Path, snapshots: list[int], active_start: int) -> int:
    """The offset below which no transaction was open when the active segment began.

    A broker takes a snapshot whenever it rolls a segment; beyond the newest one nothing is known.
    """
    if not snapshots:
        return 0
    file = segment_file(folder, snapshots[-1], "snapshot")
    oldest_open = last_stable_of(read_producer_snapshot(file.read_bytes(), str(file)))
    known = min(active_start, snapshots[-1])
    return known if oldest_open is None else min(known, oldest_open.offset)


@contextmanager
def readable(path: Path, but: tuple[type[OSError], ...] = ()) -> Iterator[None]:
    """Raise UnreadableObject in place of an OSError, unless it is of a kind in `but`."""
    try:
        yield
    except but:
        raise
    except OSError as error:
        raise UnreadableObject(
            f"it cannot be read: {error.strerror}",
            where=str(error.filename or path),
            remedy="Grant this user the right to read the broker's files, or name a copy of them.",
        ) from error
