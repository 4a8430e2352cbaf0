"""The catalog as DataFrames, for notebooks and reports; Spark reads it and never writes it.

    spark = tierfold_session(with_delta(SparkSession.builder))
    segments(spark, "/tier/_tierfold").groupBy("topic").sum("size_bytes")

`storage.catalog.schema` documents the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from delta import configure_spark_with_delta_pip
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.catalog.schema import PARTITIONS, RUNS, RUNS_RENAMED, SEGMENT
from tierfold.storage.tiers.local_paths import local_path

_OF_THE_PARTITION: Final = ("topic", "partition", "topic_id")

_DELTA: Final[dict[str, bool | float | int | str | None]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta would replay a table's log in 50 tasks; the catalog's log is small.
    "spark.databricks.delta.snapshotPartitions": 2,
}


def with_delta(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Return `builder` with Delta's jars, from Maven, and Delta's settings."""
    delta: SparkSession.Builder = configure_spark_with_delta_pip(builder.config(map=_DELTA))
    return delta


def partitions(spark: SparkSession, catalog_uri: str) -> DataFrame:
    """Return one row per partition that was ever claimed, with the columns of `PARTITIONS`.

    Raises UnreadableObject if there is no catalog or the session has no Delta, and BadSettings if
    `catalog_uri` is neither a path nor a `file:` URI of this machine.
    """
    return _table(spark, catalog_uri, "partitions", PARTITIONS.names)


def segments(spark: SparkSession, catalog_uri: str) -> DataFrame:
    """Return one row per live segment: its partition, its place in offset order, then `SEGMENT`.

    `position` counts from 0. Raises as `partitions` does.
    """
    live = partitions(spark, catalog_uri).select(
        *_OF_THE_PARTITION, F.posexplode("segments").alias("position", "segment")
    )
    return live.select(
        *_OF_THE_PARTITION, "position", *(F.col(f"segment.{field.name}") for field in SEGMENT)
    )


def runs(spark: SparkSession, catalog_uri: str) -> DataFrame:
    """Return one row per run, partition and chunk: the columns of `RUNS`, by `RUNS_RENAMED`.

    Raises as `partitions` does.
    """
    found = _table(spark, catalog_uri, "runs", RUNS.names)
    return found.withColumnsRenamed(RUNS_RENAMED)


def _table(spark: SparkSession, catalog_uri: str, name: str, columns: Sequence[str]) -> DataFrame:
    # Spark resolves a bare path on its default file system, HDFS on many clusters.
    uri = f"file://{local_path(catalog_uri, of='catalog')}/{name}"
    try:
        return spark.read.format("delta").load(uri).select(*columns)
    except (PySparkException, Py4JJavaError) as error:
        raise UnreadableObject(
            f"Spark cannot read the table: {_reason(error)}",
            where=uri,
            remedy="The first run of `tierfold compact` creates it, and a session needs"
            " `with_delta`. If a column is missing, another version of tierfold wrote the table.",
        ) from error


def _reason(error: PySparkException | Py4JJavaError) -> str:
    """The first line of the JVM's error, without the stack trace."""
    text = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    return str(text).partition("\n")[0].rstrip(".")
