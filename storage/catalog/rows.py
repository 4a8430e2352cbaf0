"""Converts `PartitionState` to the catalog's rows and back: `table_of` and `rows_read`.

Both work column by column: a row may hold a hundred segments, too many for a dictionary each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Final

import pyarrow as pa

from tierfold.compaction.commits.invariants import ROW_INVARIANTS, violations
from tierfold.compaction.model.errors import BadSettings, CorruptLog
from tierfold.compaction.model.kept_sums import KeptSums, clean_bytes
from tierfold.compaction.model.origins import origin_of
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import (
    CleanerOffset,
    Hole,
    LeaderEpoch,
    PartitionKey,
    PartitionState,
    RetiredSegment,
    Segment,
    SparedBytes,
)
from tierfold.compaction.model.serving import (
    Consent,
    LocalRange,
    Pass,
    ServingCluster,
)
from tierfold.storage.catalog.cells import Cells, impossible_cells
from tierfold.storage.catalog.schema import (
    CLEANER_OFFSET,
    CONSENT,
    FORMAT_VERSION,
    FORMATS_READ,
    HOLE,
    LEADER_EPOCH,
    LOCAL_RANGE,
    PARTITIONS,
    PASS,
    PRODUCER,
    RETIRED_SEGMENT,
    SEGMENT,
    SERVING_CLUSTER,
    SPARED,
    bucket_of,
)

Model = (
    LeaderEpoch
    | CleanerOffset
    | Segment
    | RetiredSegment
    | SparedBytes
    | Hole
    | ServingCluster
    | Pass
    | LocalRange
    | Consent
    | ProducerEntry
)

_MODELS: Final[Mapping[tuple[str, ...], type[Model]]] = {
    tuple(field.name for field in kind): model
    for kind, model in (
        (LEADER_EPOCH, LeaderEpoch),
        (CLEANER_OFFSET, CleanerOffset),
        (SEGMENT, Segment),
        (RETIRED_SEGMENT, RetiredSegment),
        (SPARED, SparedBytes),
        (HOLE, Hole),
        (SERVING_CLUSTER, ServingCluster),
        (PASS, Pass),
        (LOCAL_RANGE, LocalRange),
        (CONSENT, Consent),
        (PRODUCER, ProducerEntry),
    )
}
"""By a struct column's field names, which are attributes of its class."""

_OF_THE_ORIGIN: Final = ("written_by_run", "copy_of", "copied_upload")
"""Columns of a segment from which its origin is made."""

_WHERE_NULL: Final[Mapping[str, int | str]] = {
    "skipped_offsets": 0,
    "skipped_bytes": 0,
    "copy_of": "",
    "copied_upload": "",
    "has_dropped": True,
}
"""Fields that rows of older formats lack, and their values there."""

_OF_THE_KEY: Final = ("topic_id", "topic", "partition")
_CHECKED: Final = ("live_bytes", "clean_bytes", "dirty_bytes", "bucket")
_DERIVED: Final = (*_CHECKED, "format_version")
_OF_THE_STATE: Final = tuple(
    name for name in PARTITIONS.names if name not in (*_OF_THE_KEY, *_DERIVED)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRead:
    """The states of rows of `partitions`; an impossible row blocks only its partition."""

    states: tuple[PartitionState, ...]
    """Of all other rows, in their order."""
    refused: Mapping[tuple[str, int], CorruptLog]
    """By topic id and partition, which identify a row."""
    sums: Mapping[PartitionKey, KeptSums] = field(default_factory=dict)
    """What each of these rows says of its segments."""

    @property
    def by_key(self) -> dict[PartitionKey, PartitionState]:
        """The states by their partition."""
        return {state.key: state for state in self.states}

    def trusted(self) -> RowsRead:
        """Return itself if no row is refused; else raise the first CorruptLog."""
        for refusal in self.refused.values():
            raise refusal
        return self


NO_ROWS: Final = RowsRead(states=(), refused={})


def table_of(states: Sequence[PartitionState]) -> pa.Table:
    """One row of `partitions` per state, in the order given."""
    live = [state.live_bytes for state in states]
    clean = [clean_bytes(state) for state in states]
    columns: dict[str, Sequence[Any]] = {
        name: [getattr(state.key, name) for state in states] for name in _OF_THE_KEY
    }
    columns |= {name: [getattr(state, name) for state in states] for name in _OF_THE_STATE}
    columns |= {
        "live_bytes": live,
        "clean_bytes": clean,
        "dirty_bytes": [whole - part for whole, part in zip(live, clean, strict=True)],
        "format_version": [FORMAT_VERSION] * len(states),
        "bucket": [bucket_of(state.key.topic_id) for state in states],
    }
    return pa.table(
        [column_of(columns[field.name], field.type) for field in PARTITIONS], PARTITIONS
    )


def rows_read(rows: pa.Table, *, where: str) -> RowsRead:
    """The states of rows of `partitions`, each row checked by itself; more columns may follow.

    Raises BadSettings if a newer tierfold wrote a row, CorruptLog if a column is missing or of
    another type, or a value is null.
    """
    _refuse_other_layout(rows, where)
    return rows_judged(_promised(rows, where), where=where)


def rows_judged(rows: pa.Table, *, where: str) -> RowsRead:
    """The states of rows that `rows_as_promised` returned, or of some of them.

    A row is refused if it was never claimed, if a value is impossible (`cells`), if its sums are
    wrong, or if its partition has two rows.
    """
    columns, cells = _read(rows)
    impossible = impossible_cells(cells)
    keys = [
        PartitionKey(topic_id=topic_id, topic=topic, partition=partition)
        for topic_id, topic, partition in zip(*(columns[name] for name in _OF_THE_KEY), strict=True)
    ]
    fields = zip(*(columns[name] for name in _OF_THE_STATE), strict=True)
    states = tuple(
        PartitionState(key=key, **dict(zip(_OF_THE_STATE, row, strict=True)))
        for key, row in zip(keys, fields, strict=True)
    )
    ids = [(key.topic_id, key.partition) for key in keys]
    several = {row_id for row_id, count in Counter(ids).items() if count > 1}
    refused: dict[tuple[str, int], CorruptLog] = {}
    stored = zip(*(columns[name] for name in _CHECKED), strict=True)
    for i, (state, of_row) in enumerate(zip(states, stored, strict=True)):
        found = "several rows for one partition" if ids[i] in several else impossible.get(i)
        found = found or _violation(state, *of_row)
        if found:
            row = f"{where}, row {state.key} ({state.key.topic_id})"
            refused.setdefault(ids[i], _malformed(found, row))
    sums = {
        state.key: KeptSums(
            segments=state.segments, cleaner_offset=state.cleaner_offset, clean_bytes=clean
        )
        for state, row_id, clean in zip(states, ids, columns["clean_bytes"], strict=True)
        if row_id not in refused
    }
    sound = tuple(state for state in states if state.key in sums)
    return RowsRead(states=sound, refused=refused, sums=sums)


def impossible_rows(rows: pa.Table) -> dict[int, str]:
    """The rows that hold an impossible value, each with a sentence about the first one."""
    return impossible_cells(_read(rows)[1])


def _read(rows: pa.Table) -> tuple[dict[str, list[Any]], list[Cells]]:
    """The values of each column, and all cells to check."""
    cells: list[Cells] = []
    columns = {
        name: _values(_in_one_piece(rows[name]), name, _same, cells) for name in PARTITIONS.names
    }
    return columns, cells


def rows_as_promised(rows: pa.Table, *, where: str) -> pa.Table:
    """Rows that may be written back: exactly the columns of `PARTITIONS`.

    Raises as `rows_read` does, and BadSettings if there are columns that would be lost.
    """
    _refuse_other_layout(rows, where)
    unknown = sorted(set(rows.column_names) - set(PARTITIONS.names))
    if unknown:
        raise _made_by_newer(f"columns {', '.join(unknown)}", where)
    return _promised(rows, where)


def _promised(rows: pa.Table, where: str) -> pa.Table:
    return pa.table([promised_column(rows, field, where) for field in PARTITIONS], PARTITIONS)


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow column; structs take their fields from attributes, maps from mappings."""
    if not values:
        return pa.array([], kind)
    if pa.types.is_map(kind):
        return pa.array([list(value.items()) for value in values], kind)
    if pa.types.is_list(kind):
        ends = pa.array(accumulate(map(len, values), initial=0), pa.int32())
        flat = [value for group in values for value in group]
        return pa.ListArray.from_arrays(ends, column_of(flat, kind.value_type), type=kind)
    if pa.types.is_struct(kind):
        children = [column_of([getattr(v, f.name) for v in values], f.type) for f in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind))
    return pa.array(values, kind)


def values_of(column: pa.Array) -> list[Any]:
    """The column's values: model objects for structs, tuples for lists, dictionaries for maps."""
    return _values(column, "", _same, [])


def _values(
    column: pa.Array, name: str, row_of: Callable[[int], int], cells: list[Cells]
) -> list[Any]:
    """The column's values; adds them to `cells`, after those of the columns nested in it."""
    if not len(column):
        return []
    kind = column.type
    values: list[Any]
    if pa.types.is_list(kind):
        items, ends = _items_of(column)
        flat = _values(items, name, lambda place: row_of(bisect_right(ends, place) - 1), cells)
        return [tuple(flat[start:end]) for start, end in pairwise(ends)]
    if pa.types.is_map(kind):
        values = [dict(pairs or ()) for pairs in column.to_pylist()]
    elif pa.types.is_struct(kind):
        names = tuple(kind.names)
        model = _MODELS[names]
        children = [
            _values(child, f"{name}.{field}", row_of, cells)
            for field, child in zip(names, column.flatten(), strict=True)
        ]
        fields = [dict(zip(names, row, strict=True)) for row in zip(*children, strict=True)]
        if model is Segment:
            fields = [_with_origin(of_segment) for of_segment in fields]
        values = [model(**of_one) for of_one in fields]
    else:
        values = column.to_pylist()
        if column.null_count and (field := name.rpartition(".")[2]) in _WHERE_NULL:
            values = [_WHERE_NULL[field] if value is None else value for value in values]
    cells.append(Cells(name=name, values=values, row_of=row_of))
    return values


def _with_origin(fields: dict[str, Any]) -> dict[str, Any]:
    """A segment's fields, with its origin in place of the columns that it is made from."""
    fields["origin"] = origin_of(*(fields.pop(name) for name in _OF_THE_ORIGIN))
    return fields


def _same(place: int) -> int:
    return place


def _items_of(lists: pa.ListArray) -> tuple[pa.Array, list[int]]:
    """The items of all lists, and the places where each list begins and the last one ends."""
    ends: list[int] = lists.offsets.to_pylist()
    if not lists.null_count:
        # A tenth of the time of `flatten`.
        first = ends[0]
        return lists.values.slice(first, ends[-1] - first), [end - first for end in ends]
    lengths = (length or 0 for length in lists.value_lengths().to_pylist())
    return lists.flatten(), list(accumulate(lengths, initial=0))


def promised_column(rows: pa.Table, field: pa.Field, where: str) -> pa.Array:
    """One column in one piece, cast to the type in the schema.

    Raises CorruptLog if it is missing, of another type, or null where it must not be.
    """
    # Not `column_names`, which would list all names for each column.
    if not rows.schema.get_all_field_indices(field.name):
        if field.nullable:
            return pa.nulls(len(rows), field.type)
        raise _malformed(f"column {field.name} is missing", where)
    found = rows.column(field.name)
    try:
        column = _in_one_piece(found)
        column = column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowException, ValueError) as error:
        raise _malformed(f"column {field.name}: {error}", where) from error
    if _has_nulls(column, nullable=field.nullable):
        raise _malformed(f"column {field.name} holds nulls", where)
    return column


def _in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; Arrow's `combine_chunks` copies even a single piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _has_nulls(column: pa.Array, *, nullable: bool) -> bool:
    if not len(column):
        return False
    if column.null_count and not nullable:
        return True
    if pa.types.is_list(column.type):
        return _has_nulls(_items_of(column)[0], nullable=column.type.value_field.nullable)
    if pa.types.is_struct(column.type):
        return any(
            _has_nulls(child, nullable=field.nullable)
            for child, field in zip(column.flatten(), column.type, strict=True)
        )
    return False


def _refuse_other_layout(rows: pa.Table, where: str) -> None:
    """Refuse other format versions before anything else is read: columns may be missing."""
    field = PARTITIONS.field("format_version")
    versions = set(promised_column(rows, field, where).to_pylist()) - {*FORMATS_READ}
    if not versions:
        return
    if max(versions) > FORMAT_VERSION:
        found = f"format version {max(versions)}, known up to {FORMAT_VERSION}"
        raise _made_by_newer(found, where)
    raise BadSettings(
        f"a tierfold from before its first release wrote it: format version {min(versions)}",
        where=where,
        remedy="Use that version. If it has compacted nothing yet, move the catalog away"
        " instead. Nothing was changed.",
    )


def _made_by_newer(found: str, where: str) -> BadSettings:
    return BadSettings(
        f"a newer tierfold wrote it: {found}",
        where=where,
        remedy="Install the newer version; nothing was changed.",
    )


def _violation(state: PartitionState, live: int, clean: int, dirty: int, bucket: int) -> str:
    """Why a row with possible cells is impossible as a whole; empty if it is not."""
    if state.epoch < 1 or not state.commit_id:
        return f"epoch {state.epoch} and commit id {state.commit_id!r}: it was never claimed"
    live_bytes, below = state.live_bytes, clean_bytes(state)
    for name, found, expected in (
        ("live_bytes", live, live_bytes),
        ("clean_bytes", clean, below),
        ("dirty_bytes", dirty, live_bytes - below),
    ):
        if found != expected:
            return f"{name} is {found}, its segments hold {expected}"
    if bucket != bucket_of(state.key.topic_id):
        # The row would not be found, and a second one would be written.
        return f"bucket is {bucket}, its topic id's is {bucket_of(state.key.topic_id)}"
    broken = violations(state, state, ROW_INVARIANTS)
    return "; ".join(f"{invariant}: {found}" for invariant, found in broken.items())


def _malformed(found: str, where: str) -> CorruptLog:
    return CorruptLog(
        found,
        where=where,
        remedy="Another program than tierfold wrote the table: restore its last good version.",
    )
