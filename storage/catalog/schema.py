"""The columns of the catalog's Delta tables; they are final, so other tools may rely on them.

    <catalog>/partitions   one row per topic-partition: one atomic state
    <catalog>/runs         one row per run, partition and chunk: what happened, or why nothing did
    <catalog>/discovered   one row per segment that planning has read and no row names; safe to lose

Offsets are Kafka's, times are epoch milliseconds, sizes are bytes. A list is never null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, NamedTuple, get_args, get_type_hints
from zlib import crc32

import pyarrow as pa

FORMAT_VERSION: Final = 5
"""The version of the rows that this code writes; docs/decisions/0004 lists what each one added."""

FORMATS_READ: Final = (3, 4, FORMAT_VERSION)
"""The versions that it reads. A row of an older one lacks columns that may be null; the next commit
of its partition rewrites it as `FORMAT_VERSION`."""

PARTITION_COLUMNS: Final = ("bucket",)
"""Delta partition columns of `partitions`: runs on different buckets never conflict."""

BUCKETS: Final = 16
"""A commit writes one file for each bucket that it touches; see docs/decisions."""


def bucket_of(topic_id: str) -> int:
    """The bucket of all partitions of a topic: a run over one topic writes one file."""
    return crc32(topic_id.encode()) % BUCKETS


class _Column(NamedTuple):
    """A column's type and what it holds."""

    kind: pa.DataType
    comment: str
    nullable: bool = False
    name: str = ""
    """The stored name if it differs from the field's; it stays, so that no table is rewritten."""


_TEXT: Final = partial(_Column, pa.string())
_INT: Final = partial(_Column, pa.int32())
_LONG: Final = partial(_Column, pa.int64())


def _fields(columns: Mapping[str, _Column]) -> list[pa.Field]:
    return [
        pa.field(
            column.name or name,
            column.kind,
            nullable=column.nullable,
            metadata={"comment": column.comment},
        )
        for name, column in columns.items()
    ]


def _struct(**columns: _Column) -> pa.StructType:
    return pa.struct(_fields(columns))


def _list_of(kind: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("element", kind, nullable=False))


_NAMES: Final = partial(_Column, _list_of(pa.string()))

LEADER_EPOCH: Final = _struct(
    epoch=_INT("leader epoch"),
    start_offset=_LONG("first offset written under it"),
)

CLEANER_OFFSET: Final = _struct(
    epoch=_LONG("compaction epoch"),
    offset=_LONG("below it everything was clean under that epoch"),
)

LEADER_CLEANER_OFFSET: Final = _struct(
    epoch=_LONG("leader epoch"),
    offset=_LONG("below it everything was clean while that epoch was the newest"),
)

SEGMENT: Final = _struct(
    segment_id=_TEXT("22 characters of url-safe base64"),
    start_offset=_LONG("first offset that it gives to the log"),
    end_offset=_LONG("last offset of its range, inclusive"),
    size_bytes=_LONG("bytes of the .log from start_offset on"),
    offset_index_bytes=_LONG("bytes of the .index"),
    time_index_bytes=_LONG("bytes of the .timeindex"),
    max_timestamp_ms=_LONG("largest batch max timestamp; -1: none"),
    leader_epochs=_Column(_list_of(LEADER_EPOCH), "per epoch its lowest offset in the range"),
    has_transaction_index=_Column(pa.bool_(), "a .txnindex exists"),
    first_timestamp_ms=_LONG("max timestamp of the first batch"),
    earliest_due_ms=_LONG(
        "earliest delete horizon of a tombstone or marker; null: none, or a broker wrote it",
        nullable=True,
    ),
    cleaner_offsets=_Column(_list_of(CLEANER_OFFSET), "the vector of the commit that added it"),
    leader_cleaner_offsets=_Column(
        _list_of(LEADER_CLEANER_OFFSET), "the same by leader epoch; null: none", nullable=True
    ),
    written_by_run=_TEXT("run that wrote it; empty: a broker"),
    skipped_offsets=_LONG(
        "offsets of its own range below start_offset, which segments before it give", nullable=True
    ),
    skipped_bytes=_LONG("bytes of the .log below start_offset", nullable=True),
    agrees_with=_NAMES(
        "segment ids found to hold the same batches at the offsets they share", nullable=True
    ),
    copy_of=_TEXT("id of the segment whose bytes it has; null or empty: no copy", nullable=True),
    copied_upload=_TEXT(
        "of a copy, the id under which a broker uploaded the bytes; null or empty: a run"
        " compacted them",
        nullable=True,
    ),
    stored_log_bytes=_LONG(
        "bytes of the object with the .log; null: as many as the .log has", nullable=True
    ),
    stored_indexes_bytes=_LONG(
        "bytes of the object with all indexes; null: each index is an object", nullable=True
    ),
    kept_for_producer_ms=_LONG(
        "latest last timestamp of a producer for which an empty batch stays; null: none, or a"
        " broker wrote it",
        nullable=True,
    ),
    records_max_timestamp_ms=_LONG(
        "largest timestamp of the records left; -1: none; null: as max_timestamp_ms", nullable=True
    ),
)

RETIRED_SEGMENT: Final = _struct(
    segment=_Column(SEGMENT, "the segment as it was when live"),
    retired_at_ms=_LONG("when it was replaced"),
    retired_by_epoch=_LONG("compaction epoch that replaced it"),
    retired_by_run=_TEXT("run that replaced it"),
    deletion_started_at_ms=_LONG("from then on its objects go; null: it is whole", nullable=True),
)

SPARED: Final = _struct(
    segment_id=_TEXT("the live segment"),
    superseded_bytes=_LONG("upper bound of the bytes of superseded records left in it"),
    since_offset=_LONG("records from here on superseded them"),
)

HOLE: Final = _struct(
    start_offset=_LONG("first offset without a batch"),
    end_offset=_LONG("last offset without a batch, inclusive"),
)

SERVING_CLUSTER: Final = _struct(
    cluster_id=_TEXT("the cluster's id"),
    metadata_topic_id=_TEXT("id of its __remote_log_metadata topic, as Kafka prints it"),
    metadata_partitions=_INT("how many partitions that topic has"),
    place=_TEXT("where the tier was then: a folder, or the URI of a prefix"),
    metadata_start=_LONG("first offset of its metadata partition; above 0: earlier ones were lost"),
)

PASS: Final = _struct(
    epoch=_LONG("compaction epoch of its rounds"),
    horizon_ms=_LONG("latest delete horizon that counts from it; null: the newest", nullable=True),
    published_at_ms=_LONG("when its publication was read back; null: not yet", nullable=True),
    has_spared=_Column(pa.bool_(), "it left a record that a tombstone or marker hides"),
)

LOCAL_RANGE: Final = _struct(
    end_offset=_LONG("last offset of the range, which begins after the one before"),
    until_ms=_LONG("until when a broker can have had local copies of it"),
)

CONSENT: Final = _struct(
    kind=_TEXT("what a person agreed to"),
    given_at_ms=_LONG("when"),
    run=_TEXT("the run that took it"),
    segment_ids=_NAMES("ids of the segments that it is about; null or empty: none", nullable=True),
)

PARTITIONS: Final = pa.schema(
    _struct(
        topic_id=_TEXT("id of this incarnation of the topic, as Kafka prints it"),
        topic=_TEXT("topic name"),
        partition=_INT("partition number"),
        epoch=_LONG("compaction epoch: who may write"),
        owner_run=_TEXT("run that holds the epoch; empty once it is done"),
        cleaner_offsets=_Column(_list_of(CLEANER_OFFSET), "per compaction epoch, ascending"),
        log_start_offset=_LONG("first offset that consumers may read"),
        segments=_Column(_list_of(SEGMENT), "live segments in offset order, contiguous"),
        retired=_Column(_list_of(RETIRED_SEGMENT), "replaced; objects go after a grace period"),
        lineage=_Column(_list_of(LEADER_EPOCH), "leader epochs of the partition, ascending"),
        live_bytes=_LONG("bytes of all live .logs"),
        clean_bytes=_LONG("of these, of segments that start below the cleaner offset"),
        dirty_bytes=_LONG("of these, of segments that start at or above it"),
        strategies=_NAMES(
            "compaction strategies it was compacted under, the latest last; none: offset"
        ),
        commit_id=_TEXT("changes with every commit; conditional updates name it"),
        committed_at_ms=_LONG("when the commit was proposed"),
        format_version=_INT("version of this row's layout"),
        bucket=_INT("crc32 of topic_id, modulo 16: which file holds the row"),
        forgotten=_NAMES(
            "segment ids whose loss a person accepted; only in a row that was forgotten",
            nullable=True,
        ),
        spared=_Column(
            _list_of(SPARED),
            "live segments in which min.rewrite.gain left superseded records",
            nullable=True,
        ),
        holes=_Column(
            _list_of(HOLE),
            "offsets between segments at which none is missing, as a person or a manifest says",
            nullable=True,
        ),
        served_by=_Column(
            _list_of(SERVING_CLUSTER),
            "the cluster whose brokers serve the partition; none: none is known",
            nullable=True,
        ),
        passes=_Column(
            _list_of(PASS), "passes from which delete horizons count, by epoch", nullable=True
        ),
        local_ranges=_Column(
            _list_of(LOCAL_RANGE),
            "until when brokers can have had local copies, in offset order",
            nullable=True,
        ),
        local_retention_ms=_LONG(
            "the topic's local.retention.ms when last seen; null: never seen", nullable=True
        ),
        consents=_Column(
            _list_of(CONSENT), "what a person agreed to, in order of time", nullable=True
        ),
        has_dropped=_Column(
            pa.bool_(),
            "a round removed a tombstone or marker; null: an older tierfold did not note it",
            nullable=True,
        ),
    )
)

DISCOVERED_VERSION: Final = 1
"""The version of the rows of `discovered`; those of another are ignored."""

PRODUCER: Final = _struct(
    producer_id=_LONG("producer id"),
    epoch=_INT("producer epoch"),
    last_sequence=_INT("sequence number of its last record"),
    last_data_offset=_LONG("last offset of its newest data batch; -1: none"),
    last_offset_delta=_INT("that batch's last offset minus its base offset"),
    last_timestamp_ms=_LONG("timestamp of its newest batch or marker"),
    coordinator_epoch=_INT("epoch of the coordinator that wrote its last marker"),
    current_txn_first_offset=_LONG(
        "first offset of its open transaction; null: none", nullable=True
    ),
)

DISCOVERED: Final = pa.schema(
    _struct(
        topic_id=_TEXT("id of this incarnation of the topic, as Kafka prints it"),
        partition=_INT("partition number"),
        segment_id=_TEXT("22 characters of url-safe base64"),
        start_offset=_LONG("first offset of the .log"),
        object_suffixes=_NAMES("the suffix of each object that was listed, sorted"),
        object_bytes=_Column(_list_of(pa.int64()), "the stored bytes of each object"),
        modified_ms=_LONG("when the newest of the objects was written"),
        is_named=_Column(pa.bool_(), "brokers named the segment as this partition's"),
        whose=_TEXT("whose its objects say that they are"),
        segment=_Column(SEGMENT, "as a claim would write it"),
        end_from=_TEXT("what said where it ends; empty: only its snapshot was read"),
        checkpoint=_Column(_list_of(LEADER_EPOCH), "all leader epochs of its checkpoint"),
        index_corruptions=_NAMES("what is wrong with its offset and its time index"),
        has_producers=_Column(pa.bool_(), "whether its snapshot was read"),
        producers=_Column(_list_of(PRODUCER), "the entries of its snapshot"),
        read_at_ms=_LONG("when its objects were read"),
        format_version=_INT("version of this row's layout"),
        bucket=_INT("crc32 of topic_id, modulo 16: which file holds the row"),
    )
)

_COUNTS: Final = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run, partition and chunk: a row of `runs`."""

    run: Annotated[str, _TEXT("id of the run")]
    topic: Annotated[str, _TEXT("topic name")]
    partition: Annotated[int, _INT("partition number")]
    topic_id: Annotated[str, _TEXT("id of this incarnation of the topic")]
    chunk: Annotated[int, _INT("chunk of the partition within the run, from 0")]
    command: Annotated[str, _TEXT("verb that ran")]
    outcome: Annotated[str, _TEXT("how the chunk ended")]
    reason: Annotated[str, _TEXT("one sentence; empty where the outcome says it all")]
    epoch: Annotated[int, _LONG("compaction epoch that the run held, or found")]
    first_dirty: Annotated[int, _LONG("first offset of the dirty region")]
    next_offset: Annotated[
        int, _LONG("first offset beyond the chunk (exclusive)", name="end_offset")
    ]
    started_at_ms: Annotated[int, _LONG("when work on the chunk began")]
    finished_at_ms: Annotated[int, _LONG("when its outcome was known")]
    bytes_in: Annotated[int, _LONG("bytes of the .logs that were replaced or deleted")]
    bytes_out: Annotated[int, _LONG("bytes of the .logs that are live in their place")]
    segments_in: Annotated[int, _LONG("segments that were replaced or deleted")]
    segments_out: Annotated[int, _LONG("segments that are live in their place")]
    counts: Annotated[
        Mapping[str, int],
        _Column(_COUNTS, "records and bytes by what became of them", name="tally"),
    ]
    now_ms: Annotated[int, _LONG("the time that the run's decisions took as now")]
    tierfold_version: Annotated[str, _TEXT("version of the software")]
    verified: Annotated[
        Mapping[str, int],
        _Column(_COUNTS, "objects written, by how they were verified", nullable=True),
    ]
    requests: Annotated[
        Mapping[str, int],
        _Column(
            _COUNTS, "requests and bytes of the whole run until then; none: a folder", nullable=True
        ),
    ]
    cost_usd: Annotated[
        float | None,
        _Column(pa.float64(), "what they cost at list prices; null: a folder", nullable=True),
    ]
    bytes_read: Annotated[
        int | None,
        _LONG("bytes of batches that finished tasks decoded, each time they did", nullable=True),
    ]
    bytes_written: Annotated[
        int | None,
        _LONG("bytes of all objects that they wrote, committed or not", nullable=True),
    ]
    dirty_ratio: Annotated[
        float | None,
        _Column(
            pa.float64(),
            "cleanable bytes divided by clean and cleanable ones, from 0 to 1; null: not inspected",
            nullable=True,
        ),
    ]
    delay_ms: Annotated[
        int | None,
        _LONG(
            "how far the oldest uncompacted segment was past max.compaction.lag.ms; null: not"
            " inspected",
            nullable=True,
        ),
    ]
    stage_seconds: Annotated[
        Mapping[str, float],
        _Column(
            pa.map_(pa.string(), pa.field("value", pa.float64(), nullable=False)),
            "seconds by stage, of the whole run until then: partitions share jobs",
            nullable=True,
        ),
    ]
    task_ms: Annotated[
        int | None,
        _LONG("milliseconds that its finished tasks took in all; null: none ran", nullable=True),
    ]


_STORED: Final[Mapping[str, _Column]] = {
    name: get_args(hint)[1] for name, hint in get_type_hints(RunRow, include_extras=True).items()
}

RUNS_RENAMED: Final = {column.name: name for name, column in _STORED.items() if column.name}
"""Columns of `runs` by their stored names, and their names everywhere else."""

RUNS: Final = pa.schema(_fields(_STORED))
