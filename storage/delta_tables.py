"""Delta tables through delta-rs: opened, read, appended to, conditionally updated.

delta-rs alone writes the catalog, by conditional puts (S3, GCS, Azure) or exclusive creates (local
folders): of two commits on the same version one is refused. Rows are read with its own engine:
the Arrow data set it also offers leaves threads behind that abort the process at exit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """When a row of an update's source may be written, in SQL over `target` and `source`."""

    same_row: str
    """Which row of the target it is about."""
    only_in: str
    """The same in literals over partition columns: what the conflict check goes by."""
    may_replace: str
    """Further condition on a row that exists."""
    may_insert: str
    """Condition on a row that does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """What a table is made of when it is first needed."""

    schema: pa.Schema
    partition_by: tuple[str, ...] = ()


class DeltaFolder:
    """One Delta table at a URI; every call opens it afresh.

    Raises, from every method:
        UnreadableObject: the folder is forbidden or the disk is full.
        CorruptLog: its transaction log contradicts itself.
        BadSettings: it needs a newer version of the Delta protocol.
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
        with self._told_plainly():
            table = self._open()
            if table is None:
                return self._layout.schema.empty_table()
            return pa.table(table.scan(predicate=predicate))

    def append(self, rows: pa.Table) -> None:
        """Add rows; the table is made where there is none."""
        with self._told_plainly():
            write_deltalake(
                self._opened_or_made(),
                rows,
                mode="append",
                commit_properties=CommitProperties(max_commit_retries=COMMIT_RETRIES),
            )

    def swap(self, rows: pa.Table, condition: Condition) -> int | None:
        """Replace or insert rows under a condition, all in one commit.

        Args:
            rows: the layout's columns, and those that only the condition names.
            condition: what must hold, row by row.

        Returns:
            How many rows were written, which the caller must look at: a row whose condition fails
            is left out without an error. None: another commit conflicted, nothing was written.
        """
        with self._told_plainly():
            names = self._layout.schema.names
            values = {name: f"source.{name}" for name in names}
            merge = (
                self._opened_or_made()
                .merge(
                    rows,
                    f"{condition.same_row} AND ({condition.only_in})",
                    source_alias="source",
                    target_alias="target",
                    commit_properties=CommitProperties(max_commit_retries=COMMIT_RETRIES),
                )
                .when_matched_update(values, predicate=condition.may_replace)
                .when_not_matched_insert(values, predicate=condition.may_insert)
            )
            try:
                counts: Mapping[str, int] = merge.execute()
            except CommitFailedError:
                return None
            return counts["num_target_rows_updated"] + counts["num_target_rows_inserted"]

    def _open(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._uri)
        except TableNotFoundError:
            if not self._has_commits():
                return None
        # Either another run has just made the table, or its log cannot be read.
        return DeltaTable(self._uri)

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
            return self._with_all_columns(table)
        try:
            return DeltaTable.create(
                self._uri,
                schema=self._layout.schema,
                mode="error",
                partition_by=list(self._layout.partition_by),
                configuration={"delta.checkpointInterval": str(CHECKPOINT_INTERVAL)},
            )
        except DeltaError:
            made_by_another_run = self._open()
            if made_by_another_run is None:
                raise
            return made_by_another_run

    def _with_all_columns(self, table: DeltaTable) -> DeltaTable:
        """The table with the nullable columns that came after the version that made it."""
        known = {each.name for each in table.schema().fields}
        new = [each for each in self._layout.schema if each.nullable and each.name not in known]
        if not new:
            return table
        try:
            table.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)
        except DeltaError:
            # Another run adds them at the same moment: then they are there.
            if any(each.name not in self._names() for each in new):
                raise
        return DeltaTable(self._uri)

    def _names(self) -> set[str]:
        return {each.name for each in DeltaTable(self._uri).schema().fields}

    @contextmanager
    def _told_plainly(self) -> Iterator[None]:
        try:
            yield
        except TierfoldError:
            raise
        except DeltaProtocolError as error:
            raise BadSettings(
                f"the table needs a newer Delta protocol: {_first_line(str(error))}",
                where=self._uri,
                remedy="Use the tierfold version that wrote it, or a newer one.",
            ) from error
        except (DeltaError, SchemaMismatchError, OSError, ValueError, pa.ArrowException) as error:
            raise _plain_error(error, self._uri) from error


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
        return Path(parts.path)
    return Path(uri) if "://" not in uri else None


def sql_text(value: str) -> str:
    """A string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def any_of(predicates: Sequence[str]) -> str:
    """One predicate that holds where any of them does."""
    return " OR ".join(f"({each})" for each in predicates)


def _first_line(said: str) -> str:
    return said.strip().partition("\n")[0].rstrip(".") or "no reason given"
