"""The parsers of the catalog's rows: Arrow tables whose columns, values and types are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa

from tests.compaction.builders import a_chain, a_state, cleaned_to, retired
from tests.faults.malformed.malformed_outcome import Outcome, Parser, compared
from tests.storage.catalog_contract import A_RUN
from tests.storage.stored_values import of_state
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.catalog.rows import column_of, rows_read, table_of
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import PARTITIONS, RUNS, RUNS_RENAMED

_INTEGERS: Final = (0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63), 99)
_TEXTS: Final = ("", "compact", "\x00", "ü" * 300, "T" * 22, "EnvZlVwBRBCOjS6Uhrdc6w")
_TYPES: Final = (pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.string())
_RUN: Final = replace(
    A_RUN,
    run="r",
    partition=0,
    epoch=1,
    first_dirty=0,
    next_offset=9,
    bytes_in=10,
    bytes_out=5,
    segments_in=2,
    now_ms=3,
    counts={"kept": 5, "superseded": 4},
)


def _partitions() -> pa.Table:
    old, *live = a_chain(10, 10, 10, leader_epochs=(LeaderEpoch(epoch=0, start_offset=0),))
    first = a_state(
        live,
        epoch=2,
        commit_id="c0",
        retired=(retired(old),),
        cleaner_offsets=cleaned_to(20),
        strategies=("offset",),
    )
    key = replace(first.key, topic="other", partition=1, topic_id="U" * 22)
    return table_of([first, replace(first, key=key, commit_id="c1", retired=())])


def _runs() -> pa.Table:
    columns = [
        column_of([getattr(_RUN, _field_of(field.name))] * 2, field.type) for field in RUNS
    ]
    return pa.table(columns, RUNS)


def _malformed(table: pa.Table, rng: Random) -> pa.Table:
    for _ in range(rng.choice((1, 1, 2, 3))):
        table = rng.choice(_CHANGES)(table, rng)
    return table


def _value_changed(table: pa.Table, rng: Random) -> pa.Table:
    """Change one value of one row, at any depth."""
    i = rng.randrange(table.num_columns)
    field, values = table.schema.field(i), table.column(i).to_pylist()
    if not values:
        return table
    row = rng.randrange(len(values))
    changed = _changed(values[row], rng)
    try:
        column = pa.array([*values[:row], changed, *values[row + 1 :]], field.type)
    except (pa.ArrowException, OverflowError):  # Too large for the column: change its type.
        return _column_retyped(table, rng)
    return table.set_column(i, pa.field(field.name, field.type), column)


def _changed(value: Any, rng: Random) -> Any:
    match value:
        case (str() as name, count):  # An entry of a map; Arrow aborts if it is null.
            return (name, rng.choice((*_INTEGERS, count)))
        case _ if rng.random() < 0.15:
            return None
        case bool():
            return not value
        case int():
            return rng.choice((*_INTEGERS, value + 1, value - 1))
        case str():
            return rng.choice((*_TEXTS, value + "x", value[:-1]))
        case dict():
            name = rng.choice(sorted(value))
            return {**value, name: _changed(value[name], rng)}
        case [*inner] if inner:
            i = rng.randrange(len(inner))
            other = rng.choice(([inner[i], inner[i]], [], [_changed(inner[i], rng)]))
            return [*inner[:i], *other, *inner[i + 1 :]]
        case _:
            return value


def _column_retyped(table: pa.Table, rng: Random) -> pa.Table:
    i = rng.randrange(table.num_columns)
    field, kind = table.schema.field(i), rng.choice(_TYPES)
    values = [rng.choice((*_INTEGERS[:3], None)) for _ in range(table.num_rows)]
    if pa.types.is_string(kind):
        values = [None if value is None else str(value) for value in values]
    else:
        kind = kind if min((value or 0 for value in values), default=0) >= 0 else pa.int64()
    return table.set_column(i, pa.field(field.name, kind), pa.array(values, kind))


def _column_dropped(table: pa.Table, rng: Random) -> pa.Table:
    return table.remove_column(rng.randrange(table.num_columns)) if table.num_columns else table


def _column_renamed(table: pa.Table, rng: Random) -> pa.Table:
    names = list(table.column_names)
    names[rng.randrange(len(names))] = "newer"
    return table.rename_columns(names)


def _rows_taken(table: pa.Table, rng: Random) -> pa.Table:
    rows = [rng.randrange(table.num_rows) for _ in range(rng.randrange(4) * bool(table.num_rows))]
    return table.take(pa.array(rows, pa.int64()))


def _columns_shuffled(table: pa.Table, rng: Random) -> pa.Table:
    order = list(range(table.num_columns))
    rng.shuffle(order)
    return table.select(order)


_CHANGES: Final[tuple[Callable[[pa.Table, Random], pa.Table], ...]] = (
    *[_value_changed] * 6,
    _column_retyped,
    _column_dropped,
    _column_renamed,
    _rows_taken,
    _columns_shuffled,
)


def _checked_partitions(rows: pa.Table) -> Outcome:
    def read() -> list[dict[str, Any]]:
        found = [of_state(state) for state in rows_read(rows, where="a table").trusted().states]
        return [_listed({**row.pop("key"), **row}) for row in found]

    return compared(read, lambda: [_row_of(row) for row in rows.to_pylist()])


def _row_of(row: Mapping[str, Any]) -> dict[str, Any]:
    derived = {"live_bytes", "clean_bytes", "dirty_bytes", "format_version", "bucket"}
    return _listed(
        {
            column.name: _as(
                row.get(column.name) if column.nullable else row[column.name], column
            )
            for column in PARTITIONS
            if column.name not in derived
        }
    )


def _as(value: Any, field: pa.Field) -> Any:
    """Convert a value to the type of its column, as a parser may do."""
    if pa.types.is_string(field.type):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if pa.types.is_integer(field.type):
        return None if value is None and field.nullable else int(value)
    if pa.types.is_boolean(field.type):
        return True if value is None else bool(value)  # An older tierfold did not note it.
    if pa.types.is_list(field.type):
        return value or []
    if pa.types.is_floating(field.type):
        return None if value is None else float(value)
    return dict(value or ()) if pa.types.is_map(field.type) else value


def _listed(value: Any) -> Any:
    """Convert tuples to lists, at any depth."""
    match value:
        case dict():
            return {name: _listed(inner) for name, inner in value.items()}
        case tuple() | list():
            return [_listed(inner) for inner in value]
        case _:
            return value


def _checked_runs(rows: pa.Table) -> Outcome:
    table: Any = SimpleNamespace(read=lambda: rows, uri="a table")

    def plain() -> list[dict[str, Any]]:
        found = (
            {
                _field_of(column.name): _as(
                    row.get(column.name) if column.nullable else row[column.name], column
                )
                for column in RUNS
            }
            for row in rows.to_pylist()
        )
        names = ("finished_at_ms", "run", "topic", "partition", "chunk")
        return sorted(found, key=lambda row: [row[name] for name in names])

    runs = RunsTable("a table", open_table=lambda *_: table)
    return compared(lambda: [asdict(run) for run in runs.read()], plain)


def _field_of(column: str) -> str:
    return RUNS_RENAMED.get(column, column)


CATALOG_PARSERS: Final = (
    Parser(
        name="catalog rows",
        made=lambda rng: _malformed(_partitions(), rng),
        checked=_checked_partitions,
    ),
    Parser(name="runs rows", made=lambda rng: _malformed(_runs(), rng), checked=_checked_runs),
)
