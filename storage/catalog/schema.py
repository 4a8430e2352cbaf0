"""The columns of the catalog's Delta tables; they are final, so other tools may rely on them.

    <catalog>/partitions   one row per topic-partition: one atomic state
    <catalog>/runs         one row per run, partition and chunk: what happened, or why nothing did

Offsets are Kafka's, times are epoch milliseconds, sizes are bytes. A list is never null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, get_args, get_type_hints
from zlib import crc32

import pyarrow as pa

FORMAT_VERSION: Final = 4
"""The version of the rows that this code writes."""

FORMATS_READ: Final = (3, FORMAT_VERSION)
"""The versions that it reads. A row of version 3 lacks the columns that may be null; the next
commit of its partition rewrites it as version 4."""

PARTITION_COLUMNS: Final = ("bucket",)
"""Delta partition columns of `partitions`: runs on different buckets never conflict."""

BUCKETS: Final = 16
"""A commit writes one file for each bucket that it touches; see docs/decisions."""


def bucket_of(topic_id: str) -> int:
    """The bucket of all partitions of a topic: a run over one topic writes one file."""
    return crc32(topic_id.encode()) % BUCKETS


def _column(name: str, kind: pa.DataType, comment: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"comment": comment})


def _list_of(struct: pa.StructType) -> pa.ListType:
    return pa.list_(pa.field("element", struct, nullable=False))


_NAMES: Final = pa.list_(pa.field("element", pa.string(), nullable=False))

LEADER_EPOCH: Final = pa.struct(
    [
        _column("epoch", pa.int32(), "leader epoch"),
        _column("start_offset", pa.int64(), "first offset written under it"),
    ]
)

CLEANER_OFFSET: Final = pa.struct(
    [
        _column("epoch", pa.int64(), "compaction epoch"),
        _column("offset", pa.int64(), "below it everything was clean under that epoch"),
    ]
)

SEGMENT: Final = pa.struct(
    [
        _column("segment_id", pa.string(), "22 characters of url-safe base64"),
        _column("start_offset", pa.int64(), "first offset that it gives to the log"),
        _column("end_offset", pa.int64(), "last offset of its range, inclusive"),
        _column("size_bytes", pa.int64(), "bytes of the .log from start_offset on"),
        _column("offset_index_bytes", pa.int64(), "bytes of the .index"),
        _column("time_index_bytes", pa.int64(), "bytes of the .timeindex"),
        _column("max_timestamp_ms", pa.int64(), "largest batch max timestamp; -1: none"),
        _column(
            "leader_epochs", _list_of(LEADER_EPOCH), "per epoch its lowest offset in the range"
        ),
        _column("has_transaction_index", pa.bool_(), "a .txnindex exists"),
        _column("first_timestamp_ms", pa.int64(), "max timestamp of the first batch"),
        _column(
            "earliest_due_ms",
            pa.int64(),
            "earliest delete horizon of a tombstone or marker; null: none, or a broker wrote it",
            nullable=True,
        ),
        _column(
            "cleaner_offsets", _list_of(CLEANER_OFFSET), "the vector of the commit that added it"
        ),
        _column("written_by_run", pa.string(), "run that wrote it; empty: a broker"),
        _column(
            "skipped_offsets",
            pa.int64(),
            "offsets of its own range below start_offset, which segments before it give",
            nullable=True,
        ),
        _column("skipped_bytes", pa.int64(), "bytes of the .log below start_offset", nullable=True),
        _column(
            "agrees_with",
            _NAMES,
            "segment ids found to hold the same batches at the offsets they share",
            nullable=True,
        ),
    ]
)

RETIRED_SEGMENT: Final = pa.struct(
    [
        _column("segment", SEGMENT, "the segment as it was when live"),
        _column("retired_at_ms", pa.int64(), "when it was replaced"),
        _column("retired_by_epoch", pa.int64(), "compaction epoch that replaced it"),
        _column("retired_by_run", pa.string(), "run that replaced it"),
        _column(
            "deletion_started_at_ms",
            pa.int64(),
            "from then on its objects go; null: it is whole",
            nullable=True,
        ),
    ]
)

PARTITIONS: Final = pa.schema(
    [
        _column("topic_id", pa.string(), "id of this incarnation of the topic, as Kafka prints it"),
        _column("topic", pa.string(), "topic name"),
        _column("partition", pa.int32(), "partition number"),
        _column("epoch", pa.int64(), "compaction epoch: who may write"),
        _column("owner_run", pa.string(), "run that holds the epoch; empty once it is done"),
        _column("cleaner_offsets", _list_of(CLEANER_OFFSET), "per compaction epoch, ascending"),
        _column("log_start_offset", pa.int64(), "first offset that consumers may read"),
        _column("segments", _list_of(SEGMENT), "live segments in offset order, contiguous"),
        _column("retired", _list_of(RETIRED_SEGMENT), "replaced; objects go after a grace period"),
        _column("lineage", _list_of(LEADER_EPOCH), "leader epochs of the partition, ascending"),
        _column("live_bytes", pa.int64(), "bytes of all live .logs"),
        _column(
            "clean_bytes", pa.int64(), "of these, of segments that start below the cleaner offset"
        ),
        _column("dirty_bytes", pa.int64(), "of these, of segments that start at or above it"),
        _column(
            "strategies",
            _NAMES,
            "compaction strategies it was compacted under, the latest last; none: offset",
        ),
        _column("commit_id", pa.string(), "changes with every commit; conditional updates name it"),
        _column("committed_at_ms", pa.int64(), "when the commit was proposed"),
        _column("format_version", pa.int32(), "version of this row's layout"),
        _column("bucket", pa.int32(), "crc32 of topic_id, modulo 16: which file holds the row"),
        _column(
            "forgotten",
            _NAMES,
            "segment ids whose loss a person accepted; only in a row that was forgotten",
            nullable=True,
        ),
    ]
)

class _Stored(NamedTuple):
    """How a field of `RunRow` is stored."""

    comment: str
    kind: pa.DataType = pa.string()
    name: str = ""
    """The column's name, from the first version; empty: the field's own."""


_INT64: Final = pa.int64()
_COUNTS: Final = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run, partition and chunk: a row of `runs`."""

    run: Annotated[str, _Stored("id of the run")]
    topic: Annotated[str, _Stored("topic name")]
    partition: Annotated[int, _Stored("partition number", pa.int32())]
    topic_id: Annotated[str, _Stored("id of this incarnation of the topic")]
    chunk: Annotated[int, _Stored("chunk of the partition within the run, from 0", pa.int32())]
    command: Annotated[str, _Stored("verb that ran")]
    outcome: Annotated[str, _Stored("how the chunk ended")]
    reason: Annotated[str, _Stored("one sentence; empty where the outcome says it all")]
    epoch: Annotated[int, _Stored("compaction epoch that the run held, or found", _INT64)]
    first_dirty: Annotated[int, _Stored("first offset of the dirty region", _INT64)]
    next_offset: Annotated[
        int, _Stored("first offset beyond the chunk (exclusive)", _INT64, "end_offset")
    ]
    started_at_ms: Annotated[int, _Stored("when work on the chunk began", _INT64)]
    finished_at_ms: Annotated[int, _Stored("when its outcome was known", _INT64)]
    bytes_in: Annotated[int, _Stored("bytes of the source .logs", _INT64)]
    bytes_out: Annotated[int, _Stored("bytes of the .logs written", _INT64)]
    segments_in: Annotated[int, _Stored("source segments", _INT64)]
    segments_out: Annotated[int, _Stored("segments written", _INT64)]
    counts: Annotated[
        Mapping[str, int], _Stored("records and bytes by what became of them", _COUNTS, "tally")
    ]
    now_ms: Annotated[int, _Stored("the time that the run's decisions took as now", _INT64)]
    tierfold_version: Annotated[str, _Stored("version of the software")]


_STORED: Final[Mapping[str, _Stored]] = {
    name: get_args(hint)[1] for name, hint in get_type_hints(RunRow, include_extras=True).items()
}

RUNS_RENAMED: Final = {stored.name: name for name, stored in _STORED.items() if stored.name}
"""Columns of `runs` by their stored names, and their names everywhere else. The stored names stay,
so that no table has to be rewritten."""

RUNS: Final = pa.schema(
    [_column(stored.name or name, stored.kind, stored.comment) for name, stored in _STORED.items()]
)
