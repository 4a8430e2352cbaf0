"""The columns of the catalog's Delta tables; they are final, so other tools may rely on them.

    <catalog>/partitions   one row per topic-partition: one atomic state
    <catalog>/runs         one row per run, partition and chunk: what happened, or why nothing did

Offsets are Kafka's, times are epoch milliseconds, sizes are bytes. A list is never
null.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import pyarrow as pa

FORMAT_VERSION: Final = 4
"""The version that this code writes."""

FORMATS_READ: Final = (3, FORMAT_VERSION)
"""The versions it reads. Rows of version 3 lack the columns that may be null; the next commit of
their partition rewrites them as version 4."""

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

RUNS_RENAMED: Final = {"end_offset": "next_offset", "tally": "counts"}
"""Columns of `runs` by their stored names, and their names everywhere else. The stored names are
from the first version and stay, so that no table has to be rewritten."""

RUNS: Final = pa.schema(
    [
        _column("run", pa.string(), "id of the run"),
        _column("topic", pa.string(), "topic name"),
        _column("partition", pa.int32(), "partition number"),
        _column("topic_id", pa.string(), "id of this incarnation of the topic"),
        _column("chunk", pa.int32(), "chunk of the partition within the run, from 0"),
        _column("command", pa.string(), "verb that ran"),
        _column("outcome", pa.string(), "how the chunk ended"),
        _column("reason", pa.string(), "one sentence; empty where the outcome says it all"),
        _column("epoch", pa.int64(), "compaction epoch that the run held, or found"),
        _column("first_dirty", pa.int64(), "first offset of the dirty region"),
        _column("end_offset", pa.int64(), "first offset beyond the chunk (exclusive)"),
        _column("started_at_ms", pa.int64(), "when work on the chunk began"),
        _column("finished_at_ms", pa.int64(), "when its outcome was known"),
        _column("bytes_in", pa.int64(), "bytes of the source .logs"),
        _column("bytes_out", pa.int64(), "bytes of the .logs written"),
        _column("segments_in", pa.int64(), "source segments"),
        _column("segments_out", pa.int64(), "segments written"),
        _column(
            "tally",
            pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
            "records and bytes by what became of them",
        ),
        _column("now_ms", pa.int64(), "the time that the run's decisions took as now"),
        _column("tierfold_version", pa.string(), "version of the software"),
    ]
)
