"""The append-only table `runs`: what each run did to each chunk of each partition.

Reports, metrics and notebooks read it; no decision depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from tierfold.storage.catalog.delta_tables import DeltaFolder, TableLayout
from tierfold.storage.catalog.rows import column_of, promised_column, values_of
from tierfold.storage.catalog.schema import RUNS, RUNS_RENAMED, RunRow
from tierfold.storage.tiers.locations import Location
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

FILE_BYTES: Final = 16 * 2**20
"""From this size on a data file is not merged again, nor from about this many rows on: rows that
repeat compress well, and `file_bounds` refuses a file with too many values."""

FILE_ROWS: Final = 1 << 16

FILES_MAX: Final = 32
"""How many smaller data files may be there before they are merged: some ten nights."""


class RunsTable:
    """The `runs` table of the catalog at a path or URI, in a folder or an object store.

    Raises, from every method:
        UnreadableObject: the table cannot be read or written.
        CorruptLog: its log or a row contradicts itself.
    """

    def __init__(
        self,
        place: Location | str,
        options: StoreOptions = ENVIRONMENT,
        *,
        open_table: Callable[[str, TableLayout], DeltaFolder] | None = None,
    ) -> None:
        opened = open_table or partial(DeltaFolder, options=options)
        self._table = opened(f"{str(place).rstrip('/')}/runs", TableLayout(schema=RUNS))

    def append(self, rows: Sequence[RunRow]) -> None:
        """Add rows in one commit; creates the table if there is none."""
        if rows:
            columns = [
                column_of([getattr(row, _field_of(field.name)) for row in rows], field.type)
                for field in RUNS
            ]
            self._table.append(pa.table(columns, RUNS))

    def clean_up(self, *, is_dry_run: bool = False) -> int:
        """Delete files that only versions of over a month ago need; return how many.

        Rows stay; but each commit leaves a small file in the log, and a small data file. Once there
        are many, the data files are merged, which a dry run does not do.
        """
        if not is_dry_run:
            self._table.merge_files(
                file_bytes=FILE_BYTES, file_rows=FILE_ROWS, files_max=FILES_MAX
            )
        return self._table.clean_up(is_dry_run=is_dry_run)

    def last(self, count: int, columns: Sequence[str]) -> pa.Table:
        """The rows of the last `count` runs, by when they began, in no order, by stored names.

        A column that an older table lacks is null. Only files with rows of these runs are read.
        """
        return self._promised(self._table.read_last("run", count, columns), columns)

    def of_run(self, name: str) -> pa.Table:
        """The rows of the runs with this name or a prefix of it; all columns, as `last`."""
        return self._promised(self._table.read_range("run", name, f"{name}~"), RUNS.names)

    def read(self) -> tuple[RunRow, ...]:
        """All rows, oldest first; none without a table, and reading creates none."""
        return run_rows(self._promised(self._table.read(), RUNS.names))

    def _promised(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        fields = [RUNS.field(name) for name in columns]
        found = [promised_column(rows, field, self._table.uri) for field in fields]
        return pa.table(found, pa.schema(fields))


def run_rows(rows: pa.Table) -> tuple[RunRow, ...]:
    """The rows of a table with all columns, oldest first."""
    columns = [values_of(rows[name].combine_chunks()) for name in RUNS.names]
    found = (
        RunRow(**dict(zip(map(_field_of, RUNS.names), row, strict=True)))
        for row in zip(*columns, strict=True)
    )
    return tuple(sorted(found, key=_when))


def _field_of(column: str) -> str:
    return RUNS_RENAMED.get(column, column)


def _when(row: RunRow) -> tuple[int, str, str, int, int]:
    return row.finished_at_ms, row.run, row.topic, row.partition, row.chunk
