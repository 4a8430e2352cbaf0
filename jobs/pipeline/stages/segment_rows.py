"""The rows between the stages: few, and each a packed block rather than a record.

A failure travels as a row too, so that it stops its own partition and no other.
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
    """What the payload of a row is."""

    KEYS = 0
    """A `KeyBlock`."""
    OWN_SUPERSEDED = 1
    """A bitmap, a bit per record of the segment: superseded within the segment."""
    SUPERSEDED = 2
    """uint32 ordinals of records superseded by another segment's."""
    SCANNED = 3
    """A pickled `SegmentScanned`: for the driver."""
    FAILED = 4
    """A pickled sentence: why this partition stops."""
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
    """A bitmap, a bit per record of the segment: superseded another one of the segment."""
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
"""The segments of a run as a DataFrame: what a worker needs to read one of them."""

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
"""`task`: which task of the next stage takes the row."""

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
    """Rows as an Arrow batch of `ROW_SCHEMA`."""
    listed = list(rows)
    columns = [pa.array([getattr(row, name) for row in listed]) for name in ROW_COLUMNS]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, _ARROW, strict=True)],
        schema=_ARROW,
    )


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of Arrow batches of `ROW_SCHEMA`; payloads are copied out."""
    for batch in batches:
        for values in batch.to_pylist():
            yield Row(**{**values, "kind": RowKind(values["kind"])})


def pickled(value: object) -> bytes:
    """A value for the driver or from it.

    Pickle, as Spark itself ships Python values between the two: both ends run the same code, and
    nothing of it is stored.
    """
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def unpickled(payload: bytes) -> Any:  # noqa: ANN401 - the caller knows by the row's kind
    """What `pickled` took."""
    return pickle.loads(payload)  # noqa: S301 - our own workers' bytes, see `pickled`


def failure(error: Exception, where: str) -> bytes:
    """The payload of a FAILED row: one sentence, whatever went wrong."""
    if isinstance(error, TierfoldError):
        return pickled(str(error))
    return pickled(f"{where}: {unexpected(error)}. This is a bug; please report it.")
