"""The columns of `kafka-segments`.

Columns of Spark's Kafka source have the same names and types here, so that a query works with both.
The name of `leader_epoch`, which Spark's source lacks, is the catalog's.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _column(name: str, kind: DataType, doc: str, *, is_nullable: bool = True) -> StructField:
    return StructField(name, kind, is_nullable, {"comment": doc})


_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

COLUMNS: Final = StructType(
    [
        _column("topic", StringType(), "The topic.", is_nullable=False),
        _column("partition", IntegerType(), "Its number.", is_nullable=False),
        _column(
            "offset",
            LongType(),
            "The record's offset; compaction leaves gaps.",
            is_nullable=False,
        ),
        _column(
            "timestamp",
            TimestampType(),
            "The producer's time or, under LogAppendTime, the broker's, in milliseconds. Null: the"
            " record has none, or one outside the years 1 to 9999, which Spark cannot hold; see"
            " `timestamp_ms`.",
        ),
        _column("key", BinaryType(), "The key, as its producer serialized it."),
        _column("value", BinaryType(), "The value; null: a tombstone."),
        _column(
            "headers",
            ArrayType(_HEADER),
            "In their order; a name can occur twice. Null: there are none.",
        ),
        _column(
            "leader_epoch",
            IntegerType(),
            "The leader epoch of the record's batch. Null in legacy batches, converted or not.",
        ),
        _column(
            "timestamp_ms",
            LongType(),
            "The same time as the log has it, in milliseconds since 1970, whatever it is. Null: the"
            " record has none. Read only if named.",
        ),
        _column(
            "value_digest",
            BinaryType(),
            "16 bytes that identify the value, computed where it is read. Null: a tombstone. Read"
            " only if named. Another version of tierfold may compute other digests.",
        ),
        _column(
            "version",
            LongType(),
            "The value that `compaction.strategy` compares: the offset, the timestamp in ms, or"
            " the header's version. Null: the header has none. Read only if named.",
        ),
    ]
)
"""All columns, in their default order."""

USUAL_COLUMNS: Final = tuple(COLUMNS.names[:-3])
"""The columns that are read by default: all but `timestamp_ms`, `value_digest` and `version`."""

_ARROW: Final = {
    StringType(): pa.string(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    BinaryType(): pa.binary(),
    TimestampType(): pa.timestamp("us", tz="UTC"),
    ArrayType(_HEADER): pa.list_(
        pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
    ),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return columns of `COLUMNS` as Arrow has them; PySpark's own function has no stable form."""
    return pa.schema(
        [
            pa.field(field.name, _ARROW[COLUMNS[field.name].dataType], field.nullable)
            for field in schema
        ]
    )
