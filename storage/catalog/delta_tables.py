"""Opens, reads, appends to, and compares and swaps Delta tables through delta-rs.

Only delta-rs writes the catalog, by exclusive creates in a folder and conditional puts in a bucket.
Of two commits on the same version one is refused, or moved on to the next version if neither read
what the other wrote. delta-rs does nothing after a commit: `storage.catalog.delta_log` syncs the
commit before it is reported, writes checkpoints and deletes old commits. delta-rs's own engine
reads the rows: its Arrow data set would leave threads behind that abort the process at exit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError

from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.storage.catalog import log_boundary
from tierfold.storage.catalog.delta_commits import DATA_FILE
from tierfold.storage.catalog.delta_errors import is_refused, plain_error, translated_errors
from tierfold.storage.catalog.delta_log import DeltaLog, commit_name
from tierfold.storage.catalog.opened_files import table_files
from tierfold.storage.catalog.table_scans import least_of_last, mergeable, scanned, scanned_range
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

COMMIT_RETRIES: Final = 100
"""How often delta-rs moves a commit without a conflict on to the next version.

Its default, 15, is less than the number of runs that may commit at the same time.
"""

CHECKPOINT_INTERVAL: Final = 10
"""Commits between checkpoints. Every access reads them, in a bucket by two requests each."""

MEMORY_HOURS: Final = 30 * 24
"""How long superseded rows can be read: by default Delta keeps its log for that long."""

READER_VERSION: Final = 1
"""Of Delta's protocol: what all tables of tierfold ask of their readers."""

REMOVALS_KEPT_HOURS: Final = 2 * MEMORY_HOURS
"""How long checkpoints list superseded files. A file that they no longer list is never deleted, so
there is a month to delete it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The schema and partitioning that a new table gets."""

    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    """Delta partition columns; a table with others is refused."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Delta's properties that a new table gets beside those of all tables."""


class DeltaVersion:
    """One version of a table: its rows, and a conditional write on top of it."""

    def __init__(self, table: DeltaTable, log: DeltaLog) -> None:
        self._table = table
        self._log = log
        self._uri = log.files.uri

    def read(self, predicate: str) -> pa.Table:
        """The rows of this version that meet a predicate over partition columns, in no order."""
        with translated_errors(self._uri):
            return scanned(self._table, self._log, predicate)

    def replace(self, predicate: str, rows: pa.Table) -> bool:
        """Replace all rows that meet `predicate` by `rows`, in one durable commit.

        Returns False if a later version has other rows there: then nothing was written, or only a
        commit below the log's boundary, which no reader reads.

        If it raises UnreadableObject or CorruptLog, the commit may have taken place.
        """
        with translated_errors(self._uri):
            self._log.files.ensure_space(rows.nbytes)
            try:
                # Given the table object, delta-rs checks for conflicts with commits after the
                # object's version; given the URI, it would not.
                write_deltalake(
                    self._table,
                    rows,
                    mode="overwrite",
                    predicate=predicate,
                    # Columns that a table of an older version lacks are added, with nulls.
                    schema_mode="merge",
                    commit_properties=_COMMIT,
                    post_commithook_properties=_NO_HOOKS,
                )
            except CommitFailedError:
                return False
            is_written = _completed(self._table, self._log)
            _keep_commits(self._table, self._log)
            return is_written


class DeltaFolder:
    """One Delta table at a URI; every call opens it again.

    Every method raises:
        UnreadableObject: the folder or bucket is missing or forbidden, or the disk is full.
        CorruptLog: its transaction log contradicts itself.
        BadSettings: it needs a newer Delta protocol, or has another layout.
    """

    def __init__(
        self, uri: str, layout: TableLayout, options: StoreOptions = ENVIRONMENT
    ) -> None:
        self._uri = uri
        self._layout = layout
        self._files = table_files(uri, options)
        self._log = DeltaLog(self._files)
        self._id = ""

    @property
    def uri(self) -> str:
        """The table's URI."""
        return self._uri

    def read(self, predicate: str | None = None) -> pa.Table:
        """The rows that meet an SQL predicate, in no order; none if there is no table."""
        with translated_errors(self._uri):
            table = self._open()
            if table is None:
                return self._layout.schema.empty_table()
            return scanned(table, self._log, predicate)

    def read_last(self, column: str, count: int, columns: Sequence[str]) -> pa.Table:
        """The rows with the `count` highest values of a text column, in no order.

        It has those of `columns` that the table has. Files that are not needed are not read.
        """
        with translated_errors(self._uri):
            table = self._open()
            if table is None:
                return self._layout.schema.empty_table()
            least = least_of_last(table, self._log, column, count)
            return scanned_range(table, self._log, column, least, columns=columns)

    def read_range(self, column: str, least: str, most: str) -> pa.Table:
        """The rows whose text column lies between two values, both included; as `read_last`."""
        with translated_errors(self._uri):
            table = self._open()
            if table is None:
                return self._layout.schema.empty_table()
            return scanned_range(table, self._log, column, least, most)

    def merge_files(self, *, file_bytes: int, file_rows: int, files_max: int) -> None:
        """Merge small files, in their order, if there are more than `files_max` of them.

        A file is small below `file_bytes` and about `file_rows` rows. It is one durable commit, and
        `clean_up` deletes the merged files later. Of two merges at once, one changes nothing.
        """
        with translated_errors(self._uri):
            table = self._open()
            if table is None:
                return
            count, below_bytes = mergeable(
                table, self._log, file_bytes=file_bytes, file_rows=file_rows
            )
            if count <= files_max:
                return
            self._files.ensure_space(below_bytes)
            with suppress(CommitFailedError):
                table.optimize.compact(
                    target_size=below_bytes,
                    writer_properties=_AS_APPENDED,
                    commit_properties=_COMMIT,
                    post_commithook_properties=_NO_HOOKS,
                )
                _completed(table, self._log)

    def past(self, predicate: str) -> Iterator[pa.Table]:
        """Yield the rows that met a predicate over partition columns, newest version first.

        It skips versions that left them unchanged, and ends at the first version, or where an older
        one is gone or broken: they are kept for `MEMORY_HOURS`.
        """
        with translated_errors(self._uri):
            table = self._open()
            if table is None:
                return
            files = table.file_uris(file_pruning_predicate=predicate)
            rows = scanned(table, self._log, predicate)
        yield rows
        for version in self._log.readable_before(table.version()):
            try:
                table.load_as_version(version)
                found = table.file_uris(file_pruning_predicate=predicate)
                if found == files:
                    continue
                rows = scanned(table, self._log, predicate)
            except (DeltaError, OSError, CorruptLog, pa.ArrowException) as error:
                if is_refused(error):
                    raise plain_error(error, self._uri) from None
                return
            files = found
            yield rows

    def append(self, rows: pa.Table) -> None:
        """Add rows durably; create the table if there is none."""
        with translated_errors(self._uri):
            self._files.ensure_space(rows.nbytes)
            table = self._open() or self._made()
            write_deltalake(
                table,
                rows,
                mode="append",
                # Columns that a table of an older version lacks are added, with nulls.
                schema_mode="merge",
                commit_properties=_COMMIT,
                post_commithook_properties=_NO_HOOKS,
            )
            if not _completed(table, self._log):
                raise UnreadableObject(
                    "the write stalled for so long that its place in the log is gone",
                    where=self._uri,
                    remedy="Run again.",
                )
            _keep_commits(table, self._log)

    def sync(self) -> None:
        """Make durable what `read` returns, also what another run wrote."""
        with translated_errors(self._uri):
            self._files.ensure_plain()
            self._log.sync()

    def clean_up(self, *, is_dry_run: bool = False) -> int:
        """Delete files that were superseded over `MEMORY_HOURS` ago; return how many.

        A dry run only counts them. A data file is deleted only if the log lists it as removed, so
        that no later version names it. A file that the log never named stays: a stalled writer may
        still name it. Log files that only older versions need are deleted, too.
        """
        with translated_errors(self._uri):
            table = self._open()
            if table is None:
                return 0
            due = self._superseded(table)
            if due and not is_dry_run:
                # The entry that these files are removed must survive a power cut.
                self._log.sync()
                for name in due:
                    self._files.delete(name)
            before_ms = now_ms() - MEMORY_HOURS * _HOUR_MS
            return len(due) + self._log.cut(older_than_ms=before_ms, is_dry_run=is_dry_run)

    def _superseded(self, table: DeltaTable) -> list[str]:
        """The data files that the log removed over `MEMORY_HOURS` ago, and that are still there.

        delta-rs finds them and deletes none: it would follow a link. It lists deleted ones, too,
        until the next checkpoint. What is not named as delta-rs names data files stays.
        """
        removed = table.vacuum(
            MEMORY_HOURS, dry_run=True, enforce_retention_duration=False, full=False
        )
        live = {uri.rpartition("/")[2] for uri in table.file_uris()}
        return self._files.existing(
            name
            for name in removed
            if DATA_FILE.fullmatch(name) and name.rpartition("/")[2] not in live
        )

    def exists(self) -> bool:
        """Whether the table exists, readable or not."""
        with translated_errors(self._uri):
            self._files.ensure_plain()
            return self._log.exists()

    def table_id(self) -> str:
        """The UUID that the Delta table has kept since it was made, as text; it must exist."""
        if not self._id:
            with translated_errors(self._uri):
                self._opened()
        return self._id

    def newest(self) -> DeltaVersion:
        """Return the newest version; create the table if there is none."""
        with translated_errors(self._uri):
            return DeltaVersion(self._open() or self._made(), self._log)

    def _open(self) -> DeltaTable | None:
        self._files.ensure_plain()
        # delta-rs would skip an empty commit file as if there had been no commit.
        tail = self._log.read_tail()
        # delta-rs also reports a forbidden table as "not found".
        return self._opened() if tail.newest >= 0 or self._log.exists() else None

    def _opened(self) -> DeltaTable:
        """The newest version of a table that exists; one of another layout is refused."""
        table = DeltaTable(self._files.uri, storage_options=self._files.delta_options())
        _ensure_plain_protocol(table)
        metadata = table.metadata()
        found, expected = tuple(metadata.partition_columns), self._layout.partition_by
        if found != expected:
            raise BadSettings(
                "another version of tierfold made the table: it is partitioned by"
                f" {', '.join(found) or 'nothing'}, here by {', '.join(expected) or 'nothing'}",
                where=self._uri,
                remedy="Use that version. If it has compacted nothing yet, move the catalog"
                " away instead. Nothing was changed.",
            )
        self._id = str(metadata.id)
        return table

    def _made(self) -> DeltaTable:
        self._files.ensure_space(0)
        self._files.make_table()
        try:
            table = DeltaTable.create(
                self._uri,
                schema=self._layout.schema,
                mode="error",
                partition_by=list(self._layout.partition_by),
                configuration={
                    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
                    "delta.deletedFileRetentionDuration": f"interval {REMOVALS_KEPT_HOURS} hours",
                    **_NO_CLEANUP,
                    **self._layout.properties,
                },
                storage_options=self._files.delta_options(),
                post_commithook_properties=_NO_HOOKS,
            )
            if _completed(table, self._log):
                return table
        except DeltaError:
            if not self._log.exists():
                raise
        # Another run made it.
        return self._opened()


_COMMIT: Final = CommitProperties(max_commit_retries=COMMIT_RETRIES)

_NO_HOOKS: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

_AS_APPENDED: Final = WriterProperties(compression="SNAPPY")
"""How delta-rs compresses what is appended; a merge would use another codec."""

_NO_CLEANUP: Final = {"delta.enableExpiredLogCleanup": "false"}

_HOUR_MS: Final = 3_600_000


def _ensure_plain_protocol(table: DeltaTable) -> None:
    """Raise DeltaProtocolError if its readers open more than the data files of the log.

    delta-rs knows later versions; in them, a log names files anywhere, as deletion vectors do.
    """
    protocol = table.protocol()
    if protocol.min_reader_version > READER_VERSION or protocol.reader_features:
        features = ", ".join(sorted(protocol.reader_features or ()))
        raise DeltaProtocolError(
            f"readers must know version {protocol.min_reader_version}"
            f"{features and f' ({features})'}, and this tierfold reads {READER_VERSION}"
        )


def _keep_commits(table: DeltaTable, log: DeltaLog) -> None:
    """Forbid every Delta writer to delete old commits, in a table that an older tierfold made.

    It follows a write, so a refused table stays unchanged. If it fails, the next write tries again.
    """
    if _NO_CLEANUP.items() <= table.metadata().configuration.items():
        return
    with suppress(CommitFailedError):
        table.alter.set_table_properties(
            _NO_CLEANUP, commit_properties=_COMMIT, post_commithook_properties=_NO_HOOKS
        )
        _completed(table, log)


def _completed(table: DeltaTable, log: DeltaLog) -> bool:
    """Make the commit that `table` has just written durable; False if it does not count.

    Raises OSError or CorruptLog if it cannot be made durable.
    """
    version = table.version()
    if not log_boundary.is_kept(version, log.boundary.read()):
        log.files.delete(commit_name(version))
        return False
    tail = log.sync()
    if len(tail.commits) >= CHECKPOINT_INTERVAL:
        log.checkpoint(tail)
    return True
