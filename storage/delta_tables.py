"""Delta tables through delta-rs: opened, read, appended to, and compared and swapped.

delta-rs alone writes the catalog, by conditional puts (S3, GCS, Azure) or exclusive creates (local
folders): of two commits on the same version one is refused, or moved on to the next version if
neither read what the other wrote. Rows are read with its own engine:
the Arrow data set it also offers leaves threads behind that abort the process at exit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)

from compaction.errors import BadSettings, CorruptLog, TierfoldError, UnreadableObject

COMMIT_RETRIES: Final = 100
"""How often delta-rs moves a commit on to the next version when others took the one it wanted.

Only commits that do not conflict are moved on; its default, 15, is less than the runs that may
commit at the same moment on different partitions.
"""

CHECKPOINT_INTERVAL: Final = 20
"""Commits between checkpoints: opening a table reads the last one and at most so many commits."""


MEMORY_HOURS: Final = 30 * 24
"""How long what was superseded can be read: as long as Delta keeps its log by default."""

REMOVALS_KEPT_HOURS: Final = 2 * MEMORY_HOURS
"""How long checkpoints say which files were superseded. What they forget nobody deletes any more:
there is a month to do it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """What a table is made of when it is first needed."""

    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    """Delta partition columns; a table of other ones is refused, never misread."""


class DeltaVersion:
    """One version of a table: what it says, and a write that only its successor may take."""

    def __init__(self, table: DeltaTable, uri: str) -> None:
        self._table = table
        self._uri = uri

    def read(self, predicate: str) -> pa.Table:
        """The rows of this version that meet a predicate over partition columns, in no order."""
        with _told_plainly(self._uri):
            return pa.table(self._table.scan(predicate=predicate))

    def replace(self, predicate: str, rows: pa.Table) -> bool:
        """Put `rows` in the place of all rows that meet `predicate`, in one commit.

        Returns False where a later version has other rows there: nothing was written then.
        """
        with _told_plainly(self._uri):
            try:
                # This very table, not its URI: the version that it holds is what delta-rs checks
                # later commits against.
                write_deltalake(
                    self._table,
                    rows,
                    mode="overwrite",
                    predicate=predicate,
                    # A table of an older version lacks columns: they are added, and null there.
                    schema_mode="merge",
                    commit_properties=_COMMIT,
                )
            except CommitFailedError:
                return False
            return True


class DeltaFolder:
    """One Delta table at a URI; every call opens it afresh.

    Raises, from every method:
        UnreadableObject: the folder is forbidden or the disk is full.
        CorruptLog: its transaction log contradicts itself.
        BadSettings: it needs a newer version of the Delta protocol, or is laid out otherwise.
    """

    def __init__(self, uri: str, layout: TableLayout) -> None:
        self._uri = uri
        self._layout = layout

    @property
    def uri(self) -> str:
        """Where the table lies."""
        return self._uri

    def read(self, predicate: str | None = None) -> pa.Table:
        """The rows that meet an SQL predicate; none where there is no table. Nothing is written.

        Rows come in no particular order, with the layout's columns first.
        """
        with _told_plainly(self._uri):
            table = self._open()
            if table is None:
                return self._layout.schema.empty_table()
            return pa.table(table.scan(predicate=predicate))

    def past(self, predicate: str) -> Iterator[pa.Table]:
        """The rows that met a predicate over partition columns, newest version first; lazily.

        Versions that left them as they were are passed by. It ends at the table's first version, or
        where an older one can no longer be read: they are kept for `MEMORY_HOURS`.
        """
        with _told_plainly(self._uri):
            table = self._open()
            if table is None:
                return
            files = table.file_uris(file_pruning_predicate=predicate)
            rows = pa.table(table.scan(predicate=predicate))
        yield rows
        for version in range(table.version() - 1, -1, -1):
            try:
                table.load_as_version(version)
                found = table.file_uris(file_pruning_predicate=predicate)
                if found == files:
                    continue
                rows = pa.table(table.scan(predicate=predicate))
            except (DeltaError, OSError, pa.ArrowException):
                return
            files = found
            yield rows

    def append(self, rows: pa.Table) -> None:
        """Add rows; the table is made where there is none."""
        with _told_plainly(self._uri):
            write_deltalake(
                self._opened_or_made(), rows, mode="append", commit_properties=_COMMIT
            )

    def vacuum(self, *, is_dry_run: bool = False) -> int:
        """Delete files that were superseded more than `MEMORY_HOURS` ago; how many went.

        A dry run says how many would. Only what the log calls removed goes, which no version can
        ever name again. What it has never named stays whatever its age: a writer that was stalled
        may name it yet.
        """
        with _told_plainly(self._uri):
            table = self._open()
            if table is None:
                return 0
            due = self._there(_vacuum(table, is_dry_run=True))
            if is_dry_run or not due:
                return len(due)
            # It notes in the log what it does, and others write there too: what did not go this
            # time goes the next.
            with suppress(CommitFailedError):
                _vacuum(table)
            return len(due) - len(self._there(due))

    def _there(self, files: Sequence[str]) -> list[str]:
        """Those that are not gone; delta-rs names them, too, until its next checkpoint."""
        folder = local_folder(self._uri)
        return [] if folder is None else [each for each in files if (folder / each).exists()]

    def newest(self) -> DeltaVersion:
        """The table as it is now; it is made where there is none."""
        with _told_plainly(self._uri):
            return DeltaVersion(self._opened_or_made(), self._uri)

    def _open(self) -> DeltaTable | None:
        try:
            table = DeltaTable(self._uri)
        except TableNotFoundError:
            if not self._has_commits():
                return None
            # Either another run has just made the table, or its log cannot be read.
            table = DeltaTable(self._uri)
        self._refuse_other_layout(table)
        return table

    def _refuse_other_layout(self, table: DeltaTable) -> None:
        found = tuple(table.metadata().partition_columns)
        if found != self._layout.partition_by:
            raise BadSettings(
                f"another version of tierfold made the table: it is partitioned by"
                f" {_columns(found)}, here by {_columns(self._layout.partition_by)}",
                where=self._uri,
                remedy="Use that version. Where it has compacted nothing yet, move the catalog"
                " away instead. Nothing was changed.",
            )

    def _has_commits(self) -> bool:
        """delta-rs says "not found" of a folder that it may not enter, too; a local one tells."""
        folder = local_folder(self._uri)
        if folder is None:
            return False
        log = folder / "_delta_log"
        return log.is_dir() and any(each.suffix in _COMMIT_SUFFIXES for each in log.iterdir())

    def _opened_or_made(self) -> DeltaTable:
        table = self._open()
        if table is not None:
            return table
        try:
            return DeltaTable.create(
                self._uri,
                schema=self._layout.schema,
                mode="error",
                partition_by=list(self._layout.partition_by),
                configuration={
                    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
                    "delta.deletedFileRetentionDuration": f"interval {REMOVALS_KEPT_HOURS} hours",
                },
            )
        except DeltaError:
            made_by_another_run = self._open()
            if made_by_another_run is None:
                raise
            return made_by_another_run


_COMMIT: Final = CommitProperties(max_commit_retries=COMMIT_RETRIES)


def _vacuum(table: DeltaTable, *, is_dry_run: bool = False) -> list[str]:
    # Not enforced: delta-rs would have what checkpoints remember and what readers need be one.
    return table.vacuum(
        MEMORY_HOURS,
        dry_run=is_dry_run,
        enforce_retention_duration=False,
        full=False,
        commit_properties=_COMMIT,
    )


@contextmanager
def _told_plainly(uri: str) -> Iterator[None]:
    try:
        yield
    except TierfoldError:
        raise
    except DeltaProtocolError as error:
        raise BadSettings(
            f"the table needs a newer Delta protocol: {_first_line(str(error))}",
            where=uri,
            remedy="Use the tierfold version that wrote it, or a newer one.",
        ) from error
    except (DeltaError, SchemaMismatchError, OSError, ValueError, pa.ArrowException) as error:
        raise _plain_error(error, uri) from error


def _plain_error(error: Exception, uri: str) -> CorruptLog | UnreadableObject:
    """delta-rs tells trouble with the store from trouble with the data only in words."""
    said = str(error)
    if isinstance(error, OSError | TableNotFoundError) or any(sign in said for sign in _OF_STORE):
        return UnreadableObject(
            f"the table cannot be read or written: {_first_line(said)}",
            where=uri,
            remedy="Check that the folder is there, its permissions, and the free space.",
        )
    return CorruptLog(
        f"the table contradicts itself: {_first_line(said)}", where=uri, remedy=_RESTORE
    )


_OF_STORE: Final = ("Object Store error", "Object at location", "Os {", "os error", "Generic Local")
"""Words by which delta-rs and its object store report that the store refused."""

_COMMIT_SUFFIXES: Final = (".json", ".parquet")

_RESTORE: Final = (
    "Restore the folder from a backup: it alone says which segments were replaced. Where nothing"
    " was compacted yet, move it away."
)


def local_folder(uri: str) -> Path | None:
    """The folder that a URI names on this machine; None for an object store."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(uri) if "://" not in uri else None


def _columns(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def _first_line(said: str) -> str:
    return said.strip().partition("\n")[0].rstrip(".") or "no reason given"
