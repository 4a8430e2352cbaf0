"""Scans the rows of one version of a Delta table, without files that have none of them.

Delta notes for each file the least and the highest value of a column. So a scan for the newest runs
reads only the files that end with them, however many years the table has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.storage.catalog.delta_commits import REPAIR, name_violation
from tierfold.storage.catalog.delta_log import DeltaLog


@dataclass(frozen=True, slots=True)
class _File:
    """A data file, and the values of one text column in it."""

    name: str
    size_bytes: int
    rows: int
    least: str | None
    most: str | None
    """None, like `least`: the log does not say."""

    def may_have(self, least: str, most: str | None) -> bool:
        """Whether a value may lie in this range, both ends included; None: it has no end."""
        if self.least is None or self.most is None:
            return True
        return least <= self.most and (most is None or self.least <= most)


def scanned(table: DeltaTable, log: DeltaLog, predicate: str | None) -> pa.Table:
    """The rows that meet a predicate; its data files lie below it, and unpack to no huge size."""
    _ensure_bounded(log, _files(table))
    return pa.table(table.scan(predicate=predicate))


def scanned_range(
    table: DeltaTable,
    log: DeltaLog,
    column: str,
    least: str,
    most: str | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The rows whose text column lies in a range, both ends included, in no order.

    `most`: None: it has no end. `columns`: those of them that the table has; None: all. Files
    without such a row are not read.
    """
    _ensure_bounded(log, [one for one in _files(table, column) if one.may_have(least, most)])
    has = {field.name for field in table.schema().fields}
    wanted = None if columns is None else [name for name in columns if name in has]
    end = "" if most is None else f" AND {column} <= {_quoted(most)}"
    predicate = f"{column} >= {_quoted(least)}{end}"
    return pa.table(table.scan(columns=wanted, predicate=predicate))


def least_of_last(table: DeltaTable, log: DeltaLog, column: str, count: int) -> str:
    """The least of the `count` highest values of a text column; empty: it has fewer.

    A file that holds one value is not read; of the others, only the column.
    """
    last: list[str] = []
    files = sorted(_files(table, column), key=lambda one: one.most or _HIGHEST, reverse=True)
    for one in files:
        if len(last) == count and not one.may_have(last[-1], None):
            break
        if one.least is not None and one.least == one.most:
            values = [one.least]
        else:
            rows = scanned_range(table, log, column, one.least or "", one.most, [column])
            values = pc.unique(rows[column]).to_pylist()
        last = sorted({*last, *values}, reverse=True)[:count]
    return last[-1] if len(last) == count else ""


def mergeable(
    table: DeltaTable, log: DeltaLog, *, file_bytes: int, file_rows: int
) -> tuple[int, int]:
    """How many data files are small, and below how many bytes they are.

    At that size, or at `file_bytes`, they would have about `file_rows` rows. Each small file is
    checked, as `scanned` does.
    """
    files = _files(table)
    rows, size_bytes = (sum(getattr(one, of) for one in files) for of in ("rows", "size_bytes"))
    below_bytes = min(file_bytes, file_rows * size_bytes // max(rows, 1))
    small = [one for one in files if one.size_bytes < below_bytes]
    _ensure_bounded(log, small)
    return len(small), below_bytes


_HIGHEST: Final = "\U0010ffff"
"""Above every value: a file of which nothing is known comes first."""


def _files(table: DeltaTable, column: str = "") -> list[_File]:
    actions = pa.table(table.get_add_actions(flatten=True))
    nothing = [None] * len(actions)
    columns = (
        actions[of].to_pylist() if of in actions.column_names else nothing
        for of in ("path", "size_bytes", "num_records", f"min.{column}", f"max.{column}")
    )
    return [
        _File(name, size_bytes, rows or 0, *ends)
        for name, size_bytes, rows, *ends in zip(*columns, strict=True)
    ]


def _ensure_bounded(log: DeltaLog, files: Sequence[_File]) -> None:
    """Refuse a file elsewhere, or one that would unpack to a huge size; raises CorruptLog."""
    for one in files:
        # A checkpoint may name it, which is not read commit by commit.
        if violation := name_violation(one.name):
            raise CorruptLog(violation, where=log.files.uri, remedy=REPAIR)
        try:
            log.ensure_bounded(one.name, one.size_bytes)
        except FileNotFoundError:
            pass  # delta-rs says whether it needs the file.
        except UnreadableObject:
            if not log.files.is_atomic:
                raise


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
