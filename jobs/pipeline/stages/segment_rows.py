"""The rows between the stages; each holds a packed block, not a record.

A failure is a row too, so that it stops only its own partition.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tierfold.compaction.model.errors import TierfoldError, unexpected


class RowKind(IntEnum):
    """The kind of a row's payload."""

    KEYS = 0
    """A `KeyBlock`."""
    OWN_SUPERSEDED = 1
    """A bitmap, a bit per record of the segment: superseded within the segment."""
    SUPERSEDED = 2
    """uint32 ordinals of records superseded by another segment's."""
    SCANNED = 3
    """A pickled `SegmentScanned`: for the driver."""
    FAILED = 4
    """A pickled sentence: the reason why this partition stops."""
    RECEIPT = 5
    """A pickled `GroupReceipt`: for the driver."""
    CHECKED = 6
    """A pickled `CheckedSegment`: for the driver (`verify`)."""
    LATEST_NOW = 7
    """Packed `LatestValues` of a live segment (`verify`)."""
    LATEST_BEFORE = 8
    """Packed `LatestValues` of a segment that a broker wrote (`verify`)."""
    COMPARED = 9
    """A pickled `KeysCompared`: for the driver (`verify`)."""
    OWN_SUPERSEDING = 10
    """A bitmap, a bit per record of the segment: superseded another record of the segment."""
    SUPERSEDING = 11
    """uint32 ordinals of records that superseded another segment's."""


REFERENCE_SCHEMA: Final = StructType(
    [
        StructField("task", IntegerType(), nullable=False),
        StructField("partition_index", IntegerType(), nullable=False),
        StructField("segment_index", IntegerType(), nullable=False),
        StructField("topic", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("topic_id", StringType(), nullable=False),
        StructField("segment_id", StringType(), nullable=False),
        StructField("own_start_offset", LongType(), nullable=False),
        StructField("skipped_bytes", LongType(), nullable=False),
        StructField("size_bytes", LongType(), nullable=False),
        StructField("first_dirty", LongType(), nullable=False),
        StructField("transactions_only", BooleanType(), nullable=False),
        StructField("buckets", IntegerType(), nullable=False),
        StructField("first_bucket_task", IntegerType(), nullable=False),
        StructField("threads", IntegerType(), nullable=False),
        StructField("strategy", StringType(), nullable=False),
        StructField("strategy_header", StringType(), nullable=False),
        StructField("aborted", BinaryType(), nullable=False),
    ]
)
"""The segments of a run as a DataFrame, with all that a worker needs to read one."""

ROW_SCHEMA: Final = StructType(
    [
        StructField("task", IntegerType(), nullable=False),
        StructField("partition_index", IntegerType(), nullable=False),
        StructField("segment_index", IntegerType(), nullable=False),
        StructField("bucket", IntegerType(), nullable=False),
        StructField("kind", IntegerType(), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
    ]
)
"""`task`: the task of the next stage that takes the row."""

ROW_COLUMNS: Final = [field.name for field in ROW_SCHEMA.fields]

_ARROW: Final = pa.schema(
    [pa.field(name, pa.int32(), nullable=False) for name in ROW_COLUMNS[:-1]]
    + [pa.field("payload", pa.binary(), nullable=False)]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of `ROW_SCHEMA`."""

    task: int
    partition_index: int
    segment_index: int
    kind: RowKind
    payload: bytes
    bucket: int = 0


def as_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """Return the rows as an Arrow batch of `ROW_SCHEMA`."""
    listed = list(rows)
    columns = [pa.array([getattr(row, name) for row in listed]) for name in ROW_COLUMNS]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, _ARROW, strict=True)],
        schema=_ARROW,
    )


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of Arrow batches of `ROW_SCHEMA`; payloads are copied."""
    for batch in batches:
        for values in batch.to_pylist():
            yield Row(**{**values, "kind": RowKind(values["kind"])})


def pickled(value: object) -> bytes:
    """Serialize a value for the way between driver and workers.

    Pickle, as Spark itself uses: both ends run the same code, and nothing is stored.
    """
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def unpickled(payload: bytes) -> Any:  # noqa: ANN401 - the caller knows by the row's kind
    """Return the value that `pickled` serialized."""
    return pickle.loads(payload)  # noqa: S301 - our own workers' bytes, see `pickled`


def failure(error: Exception, where: str) -> bytes:
    """Return the payload of a FAILED row: one sentence."""
    if isinstance(error, TierfoldError):
        return pickled(str(error))
    return pickled(f"{where}: {unexpected(error)}. This is a bug; please report it.")
