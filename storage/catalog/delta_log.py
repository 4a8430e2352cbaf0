"""Checks, syncs and cuts the log of a Delta table in a local folder, and writes checkpoints.

delta-rs syncs nothing. A power cut may leave an empty commit file, which delta-rs reads as a commit
without changes. So the log is checked before delta-rs reads it, and synced before a commit is
reported.

    read_tail           the newest checkpoint and the commits since, checked
    DeltaLog.sync       makes them durable, with the data files that they add
    DeltaLog.checkpoint writes the next checkpoint, once the commits before it are durable
    DeltaLog.cut        deletes old commits, below a durable boundary (`log_boundary`)

A checkpoint appears only when its content is durable: delta-rs writes it in a scratch folder with
links to the log, and then it is linked into the log. A crash in between leaves the scratch folder,
which a later `cut` deletes.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.catalog.delta_commits import (
    REPAIR,
    DeltaCommit,
    commit_violation,
    read_commit,
)
from tierfold.storage.catalog.file_sync import sync, sync_all
from tierfold.storage.catalog.log_boundary import LogBoundary

LOG_FOLDER: Final = "_delta_log"

POINTER: Final = "_last_checkpoint"
"""Names the newest checkpoint, which spares a reader the listing; it may be missing."""

SCRATCH_PREFIX: Final = "_tierfold_checkpoint-"

_COMMIT: Final = ".json"
_CHECKPOINT: Final = ".checkpoint.parquet"
_PARQUET_MAGIC: Final = b"PAR1"


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


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The log of the table in `table`."""

    table: Path

    @property
    def folder(self) -> Path:
        """The folder of commits and checkpoints."""
        return self.table / LOG_FOLDER

    @property
    def boundary(self) -> LogBoundary:
        """The boundary below which versions are deleted."""
        return LogBoundary(self.table)

    def commit_path(self, version: int) -> Path:
        """The commit file of a version."""
        return self.folder / f"{version:020d}{_COMMIT}"

    def checkpoint_path(self, version: int) -> Path:
        """The checkpoint file of a version."""
        return self.folder / f"{version:020d}{_CHECKPOINT}"

    def read_tail(self) -> Tail:
        """The newest checkpoint and the commits since; none if there is no log.

        Raises OSError, and CorruptLog if one of them is empty, cut short or missing, or all are
        gone.
        """
        checkpoint = max(self._versions(_CHECKPOINT), default=None)
        if checkpoint is not None:
            _ensure_whole(self.checkpoint_path(checkpoint))
        first = 0 if checkpoint is None else checkpoint + 1
        since = sorted(version for version in self._versions(_COMMIT) if version >= first)
        if checkpoint is None and not since and self._is_lost():
            raise _corrupt(self.folder, "it has no commit, but the table has data files")
        for expected, found in enumerate(since, first):
            if found != expected:
                path = self.commit_path(expected)
                raise _corrupt(path, "the commit is missing, but later ones exist")
        return Tail(checkpoint, tuple(read_commit(self.commit_path(version)) for version in since))

    def readable_before(self, version: int) -> Iterator[int]:
        """Yield the versions before this one, newest first, as long as they can be read."""
        checkpoints = sorted(self._versions(_CHECKPOINT))
        is_whole = cache(self._is_whole)
        for older in range(version - 1, -1, -1):
            at = bisect_right(checkpoints, older)
            first = checkpoints[at - 1] + 1 if at else 0
            if not all(map(is_whole, range(first, older + 1))):
                return
            yield older

    def _is_whole(self, version: int) -> bool:
        try:
            return commit_violation(self.commit_path(version).read_bytes()) == ""
        except OSError:
            return False

    def sync(self) -> Tail:
        """Make the checkpoint, the commits and their data durable, also those of another run.

        Raises OSError, and CorruptLog as `read_tail` does.
        """
        tail = self.read_tail()
        data = [self.table / name for commit in tail.commits for name in commit.added]
        for path in dict.fromkeys(data):
            # A file that was superseded long ago may have been deleted.
            with contextlib.suppress(FileNotFoundError):
                sync(path)
        if tail.checkpoint is not None:
            sync(self.checkpoint_path(tail.checkpoint))
        sync_all(self.commit_path(commit.version) for commit in tail.commits)
        sync_all(path.parent for path in data if path.parent.exists())
        sync_all((self.folder, self.table))
        return tail

    def checkpoint(self, tail: Tail) -> None:
        """Write a checkpoint of the newest version of `tail`, which is durable.

        If it fails, the next commit tries again.
        """
        scratch = self.table / f"{SCRATCH_PREFIX}{uuid.uuid4().hex}"
        with contextlib.suppress(OSError, DeltaError):
            try:
                self._checkpoint_in(scratch / LOG_FOLDER, tail)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def _checkpoint_in(self, scratch: Path, tail: Tail) -> None:
        scratch.mkdir(parents=True)
        read = [self.commit_path(commit.version) for commit in tail.commits]
        if tail.checkpoint is not None:
            read.append(self.checkpoint_path(tail.checkpoint))
        for path in read:
            (scratch / path.name).hardlink_to(path)
        DeltaTable(str(scratch.parent)).create_checkpoint()
        made = self.checkpoint_path(tail.newest)
        sync(scratch / made.name)
        sync(scratch / POINTER)
        # Another run may have made it already, whole and with the same content.
        with contextlib.suppress(FileExistsError):
            made.hardlink_to(scratch / made.name)
        sync(self.folder)
        (scratch / POINTER).replace(self.folder / POINTER)
        sync(self.folder)

    def cut(self, *, older_than_ms: int, is_dry_run: bool = False) -> int:
        """Delete commits and checkpoints that only old versions need; return how many.

        Old versions were superseded before `older_than_ms` (epoch milliseconds), by the files'
        modification times. The checkpoint that the later versions need stays, and the boundary is
        durable before the first file is deleted. A dry run only counts.

        Raises OSError, and CorruptLog if the checkpoint that stays is not whole.
        """
        kept = self._oldest_needed(older_than_ms)
        going = [
            self.folder / f"{version:020d}{suffix}"
            for suffix in (_COMMIT, _CHECKPOINT)
            for version in self._versions(suffix)
            if version < kept
        ]
        if is_dry_run:
            return len(going)
        self._delete_scratch(older_than_ms)
        if going:
            _ensure_parquet(self.checkpoint_path(kept))
            sync_all((self.checkpoint_path(kept), self.folder))
            self.boundary.raise_to(kept)
        for entry in going:
            entry.unlink(missing_ok=True)
        return len(going)

    def _oldest_needed(self, older_than_ms: int) -> int:
        """The newest checkpoint of a version that was current at that time, or before.

        It is at least the boundary: a file below that was written too late, even a new one.
        """
        boundary = self.boundary.read()
        young = [
            version
            for version in self._versions(_COMMIT)
            if version >= boundary and _modified_ms(self.commit_path(version)) >= older_than_ms
        ]
        old = [
            version
            for version in self._versions(_CHECKPOINT)
            if version < min(young, default=version + 1)
        ]
        return max((boundary, *old))

    def _delete_scratch(self, older_than_ms: int) -> None:
        for path in self.table.glob(f"{SCRATCH_PREFIX}*"):
            if _modified_ms(path) < older_than_ms:
                shutil.rmtree(path)

    def _is_lost(self) -> bool:
        """Whether there was a log: the first commit precedes all data files."""
        has_data = any(self.table.rglob("part-*.parquet"))
        # Another run may have made the table meanwhile.
        return has_data and not (self._versions(_CHECKPOINT) or self._versions(_COMMIT))

    def _versions(self, suffix: str) -> list[int]:
        if not self.folder.is_dir():
            return []
        names = [path.name.partition(".") for path in self.folder.iterdir()]
        return [
            int(stem)
            for stem, dot, rest in names
            if dot + rest == suffix and len(stem) == 20 and stem.isdecimal()
        ]


def _ensure_whole(checkpoint: Path) -> None:
    """Check the magic bytes at a parquet file's end; its reader checks the rest."""
    with checkpoint.open("rb") as file:
        file.seek(0, 2)
        size_bytes = file.tell()
        file.seek(max(0, size_bytes - len(_PARQUET_MAGIC)))
        if file.read() != _PARQUET_MAGIC:
            raise _corrupt(checkpoint, f"the checkpoint is cut short, it has {size_bytes} bytes")


def _ensure_parquet(checkpoint: Path) -> None:
    try:
        pq.read_table(checkpoint)
    except pa.ArrowException as error:
        raise _corrupt(checkpoint, "the checkpoint cannot be read") from error


def _corrupt(path: Path, what: str) -> CorruptLog:
    return CorruptLog(what, where=str(path), remedy=REPAIR)


def _modified_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000
