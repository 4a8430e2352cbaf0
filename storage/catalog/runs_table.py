"""The append-only table `runs`: what each run did to each chunk of each partition.

Reports, metrics and notebooks read it; no decision depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from tierfold.storage.catalog.delta_tables import DeltaFolder, TableLayout
from tierfold.storage.catalog.rows import column_of, promised_column, values_of
from tierfold.storage.catalog.schema import RUNS, RUNS_RENAMED, RunRow
from tierfold.storage.tiers.locations import Location
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions


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
        """Delete log files that only versions of over a month ago need; return how many.

        Rows stay; but each commit, one per run, leaves a small file in the log.
        """
        return self._table.clean_up(is_dry_run=is_dry_run)

    def read(self) -> tuple[RunRow, ...]:
        """All rows, oldest first; none without a table, and reading creates none."""
        rows = self._table.read()
        columns = [values_of(promised_column(rows, field, self._table.uri)) for field in RUNS]
        found = (
            RunRow(**dict(zip(map(_field_of, RUNS.names), row, strict=True)))
            for row in zip(*columns, strict=True)
        )
        return tuple(sorted(found, key=_when))


def _field_of(column: str) -> str:
    return RUNS_RENAMED.get(column, column)


def _when(row: RunRow) -> tuple[int, str, str, int, int]:
    return row.finished_at_ms, row.run, row.topic, row.partition, row.chunk
