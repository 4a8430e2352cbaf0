"""Checks, syncs and cuts the log of a Delta table, and writes checkpoints.

delta-rs syncs nothing. In a folder, a power cut may leave an empty commit file, which delta-rs
reads as a commit without changes. So the log is checked before delta-rs reads it, and synced before
a commit is reported. A bucket shows a file only once it is whole and durable: there the listing is
checked, and nothing is synced.

    read_tail           the newest checkpoint and the commits since, checked
    DeltaLog.sync       makes them durable, with the data files that they add
    DeltaLog.checkpoint writes the next checkpoint, once the commits before it are durable
    DeltaLog.cut        deletes old commits, below a durable boundary (`log_boundary`)

A checkpoint appears only when its content is durable, and is never overwritten, so no reader finds
half of one: delta-rs writes it in a local scratch folder with the files that it needs, and then it
is published. A crash in between leaves the scratch folder, which a later `cut` deletes.
"""

from __future__ import annotations

import contextlib
import io
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.catalog.delta_commits import (
    EMPTY_COMMIT,
    REPAIR,
    DeltaCommit,
    commit_violation,
    read_commit,
)
from tierfold.storage.catalog.file_bounds import json_violation, parquet_violation
from tierfold.storage.catalog.log_boundary import LogBoundary
from tierfold.storage.catalog.table_files import TableFiles
from tierfold.storage.tiers.object_store import ObjectEntry

LOG_FOLDER: Final = "_delta_log"

POINTER: Final = "_last_checkpoint"
"""Names the newest checkpoint, which spares a reader the listing; it may be missing."""

_COMMIT: Final = ".json"
_CHECKPOINT: Final = ".checkpoint.parquet"
_FOREIGN: Final = re.compile(r"\.compacted\.json$|\.checkpoint\..*\.json$|/_sidecars$")


def commit_name(version: int) -> str:
    """The commit file of a version."""
    return f"{LOG_FOLDER}/{version:020d}{_COMMIT}"


def checkpoint_name(version: int) -> str:
    """The checkpoint file of a version."""
    return f"{LOG_FOLDER}/{version:020d}{_CHECKPOINT}"


@dataclass(frozen=True, slots=True)
class Tail:
    """The part of the log that a reader of the newest version needs."""

    checkpoint: int | None
    """The newest checkpoint's version; None: there is none."""
    commits: tuple[DeltaCommit, ...]
    """The commits since, oldest first."""

    @property
    def newest(self) -> int:
        """The table's newest version; -1: there is none."""
        if self.commits:
            return self.commits[-1].version
        return -1 if self.checkpoint is None else self.checkpoint

    @property
    def names(self) -> list[str]:
        """Its files, the checkpoint first."""
        checkpoints = [] if self.checkpoint is None else [checkpoint_name(self.checkpoint)]
        return checkpoints + [commit_name(commit.version) for commit in self.commits]


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The log of the table with these files."""

    files: TableFiles
    bounded: set[str] = field(default_factory=set, compare=False, repr=False)
    """Files that were found to be whole and not too large."""

    @property
    def boundary(self) -> LogBoundary:
        """The boundary below which versions are deleted."""
        return LogBoundary(self.files)

    def exists(self) -> bool:
        """Whether there is a commit or a checkpoint, readable or not."""
        return any(entry.key.endswith((".json", ".parquet")) for entry in self._entries())

    def read_tail(self) -> Tail:
        """The newest checkpoint and the commits since; none if there is no log.

        Raises OSError, UnreadableObject, and CorruptLog if one of them is empty, cut short or
        missing, or all are gone.
        """
        entries = self._entries()
        commits, checkpoints = _versions(entries, _COMMIT), _versions(entries, _CHECKPOINT)
        self._ensure_bounded_log(entries)
        checkpoint = max(checkpoints, default=None)
        if checkpoint is not None:
            self._ensure_whole(checkpoints[checkpoint])
        first = 0 if checkpoint is None else checkpoint + 1
        since = sorted(version for version in commits if version >= first)
        if checkpoint is None and not since and self._is_lost():
            raise self._corrupt(LOG_FOLDER, "it has no commit, but the table has data files")
        for expected, found in enumerate(since, first):
            if found != expected:
                name = commit_name(expected)
                raise self._corrupt(name, "the commit is missing, but later ones exist")
        return Tail(checkpoint, tuple(self._commit(version, commits[version]) for version in since))

    def _commit(self, version: int, entry: ObjectEntry) -> DeltaCommit:
        if violation := json_violation(entry.size_bytes):
            raise self._corrupt(entry.key, f"the commit file {violation}")
        if not self.files.is_atomic:
            return read_commit(self.files, entry.key)
        if not entry.size_bytes:
            raise self._corrupt(entry.key, EMPTY_COMMIT)
        return DeltaCommit(version=version, added=())

    def _ensure_whole(self, checkpoint: ObjectEntry) -> None:
        """Check the footer of a parquet file and what it says; its reader checks the rest."""
        self.ensure_bounded(checkpoint.key, checkpoint.size_bytes)

    def ensure_bounded(self, name: str, size_bytes: int) -> None:
        """Refuse a checkpoint or data file that is cut short, or unpacks to far too much.

        In a bucket each is looked at once. Raises CorruptLog, OSError and UnreadableObject.
        """
        if name in self.bounded:
            return
        read_end = partial(self.files.read_end, name, of_bytes=size_bytes)
        if violation := parquet_violation(size_bytes, read_end):
            kind = "checkpoint" if name.endswith(_CHECKPOINT) else "data file"
            raise self._corrupt(name, f"the {kind} {violation}")
        if self.files.is_atomic:
            self.bounded.add(name)

    def _ensure_bounded_log(self, entries: tuple[ObjectEntry, ...]) -> None:
        """Look at every file but tierfold's checkpoints: delta-rs reads more kinds than it writes.

        There are checksums (`.crc`), and checkpoints in parts. What names files that are not looked
        at is refused: commits joined in one file, and checkpoints with further files (sidecars).
        """
        for entry in entries:
            if entry.key.endswith(".parquet"):
                if ".checkpoint." in entry.key and not entry.key.endswith(_CHECKPOINT):
                    self.ensure_bounded(entry.key, entry.size_bytes)
            elif why := json_violation(entry.size_bytes):
                kind = "commit file" if entry.key.endswith(_COMMIT) else "file"
                raise self._corrupt(entry.key, f"the {kind} {why}")
            elif _FOREIGN.search(entry.key):
                raise self._corrupt(entry.key, "tierfold has nothing of that name in a log")

    def readable_before(self, version: int) -> Iterator[int]:
        """Yield the versions before this one, newest first, as long as they can be read."""
        entries = self._entries()
        files = _versions(entries, _CHECKPOINT)
        checkpoints = sorted(files)
        is_whole = cache(partial(self._is_whole, _versions(entries, _COMMIT)))
        is_bounded = cache(self._is_bounded)
        for older in range(version - 1, -1, -1):
            at = bisect_right(checkpoints, older)
            first = checkpoints[at - 1] + 1 if at else 0
            if not all(map(is_whole, range(first, older + 1))):
                return
            if at and not is_bounded(files[checkpoints[at - 1]]):
                return
            yield older

    def _is_bounded(self, checkpoint: ObjectEntry) -> bool:
        try:
            self.ensure_bounded(checkpoint.key, checkpoint.size_bytes)
        except (CorruptLog, OSError):
            return False
        return True

    def _is_whole(self, commits: dict[int, ObjectEntry], version: int) -> bool:
        if version not in commits or self.files.is_atomic:
            return version in commits and commits[version].size_bytes > 0
        try:
            if json_violation(commits[version].size_bytes):
                return False
            return commit_violation(self.files.read(commit_name(version))) == ""
        except OSError:
            return False

    def sync(self) -> Tail:
        """Make the checkpoint, the commits and their data durable, also those of another run.

        Raises as `read_tail` does.
        """
        tail = self.read_tail()
        self.files.sync(tail.names, [name for commit in tail.commits for name in commit.added])
        return tail

    def checkpoint(self, tail: Tail) -> None:
        """Write a checkpoint of the newest version of `tail`, which is durable.

        If it fails, the next commit tries again.
        """
        with (
            contextlib.suppress(OSError, DeltaError, UnreadableObject),
            self.files.scratch() as scratch,
        ):
            self._checkpoint_in(scratch, tail)

    def _checkpoint_in(self, scratch: Path, tail: Tail) -> None:
        (scratch / LOG_FOLDER).mkdir()
        for name in tail.names:
            self.files.fetch(name, scratch / name)
        DeltaTable(str(scratch)).create_checkpoint()
        # Another run may have made it already, whole and with the same content.
        made = checkpoint_name(tail.newest)
        self.files.publish(scratch / made, made)
        self.files.replace(scratch / LOG_FOLDER / POINTER, f"{LOG_FOLDER}/{POINTER}")

    def cut(self, *, older_than_ms: int, is_dry_run: bool = False) -> int:
        """Delete commits and checkpoints that only old versions need; return how many.

        Old versions were superseded before `older_than_ms` (epoch milliseconds), by the files'
        modification times. The checkpoint that the later versions need stays, and the boundary is
        durable before the first file is deleted. A dry run only counts.

        Raises OSError, UnreadableObject, and CorruptLog if the checkpoint that stays is not whole.
        """
        entries = self._entries()
        boundary = self.boundary.read()
        kept = _oldest_needed(entries, boundary, older_than_ms)
        going = [
            entry.key
            for suffix in (_COMMIT, _CHECKPOINT)
            for version, entry in _versions(entries, suffix).items()
            if version < kept
        ]
        if is_dry_run:
            return len(going)
        self.files.delete_scratch(older_than_ms=older_than_ms)
        if going:
            self._ensure_parquet(checkpoint_name(kept))
            self.files.sync([checkpoint_name(kept)])
            self.boundary.raise_to(kept)
        for name in going:
            self.files.delete(name)
        return len(going)

    def _ensure_parquet(self, checkpoint: str) -> None:
        try:
            pq.read_table(io.BytesIO(self.files.read(checkpoint)))
        except pa.ArrowException as error:
            raise self._corrupt(checkpoint, "the checkpoint cannot be read") from error

    def _is_lost(self) -> bool:
        """Whether there was a log: the first commit precedes all data files."""
        if not self.files.has_data():
            return False
        # Another run may have made the table meanwhile.
        entries = self._entries()
        return not (_versions(entries, _CHECKPOINT) or _versions(entries, _COMMIT))

    def _entries(self) -> tuple[ObjectEntry, ...]:
        return self.files.entries(LOG_FOLDER)

    def _corrupt(self, name: str, what: str) -> CorruptLog:
        return CorruptLog(what, where=self.files.where(name), remedy=REPAIR)


def _oldest_needed(entries: tuple[ObjectEntry, ...], boundary: int, older_than_ms: int) -> int:
    """The newest checkpoint of a version that was current at that time, or before.

    It is at least the boundary: a file below it was written too late, however new it is.
    """
    young = [
        version
        for version, entry in _versions(entries, _COMMIT).items()
        if version >= boundary and entry.modified_ms >= older_than_ms
    ]
    old = [
        version
        for version in _versions(entries, _CHECKPOINT)
        if version < min(young, default=version + 1)
    ]
    return max((boundary, *old))


def _versions(entries: tuple[ObjectEntry, ...], suffix: str) -> dict[int, ObjectEntry]:
    """The files of the log with this suffix, by version."""
    found = {}
    for entry in entries:
        stem, dot, rest = entry.key.rpartition("/")[2].partition(".")
        if dot + rest == suffix and len(stem) == 20 and stem.isdecimal():
            found[int(stem)] = entry
    return found
