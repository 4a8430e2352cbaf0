"""The catalog as DataFrames, for notebooks and reports; Spark reads it and never writes it.

    catalog = "s3://bucket/tier/_tierfold"
    spark = tierfold_session(with_delta(SparkSession.builder, catalog))
    segments(spark, catalog).groupBy("topic").sum("size_bytes")

Spark reads a folder itself, and S3 through S3A, with the jars of delta-spark (the extra `delta`).
The driver reads a catalog on another store through delta-rs, without that package.
`storage.catalog.schema` documents the columns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.storage.catalog.delta_tables import DeltaFolder, TableLayout
from tierfold.storage.catalog.opened_files import table_files
from tierfold.storage.catalog.rows import promised_column
from tierfold.storage.catalog.schema import (
    PARTITION_COLUMNS,
    PARTITIONS,
    RUNS,
    RUNS_RENAMED,
    SEGMENT,
)
from tierfold.storage.private_folders import made_private, private_folder
from tierfold.storage.tiers.locations import Location, location_of, s3a_options
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

_log: Final = logging.getLogger(__name__)

_OF_THE_PARTITION: Final = ("topic", "partition", "topic_id")

_DELTA: Final[dict[str, bool | float | int | str | None]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta would replay a table's log in 50 tasks; the catalog's log is small.
    "spark.databricks.delta.snapshotPartitions": 2,
}


IVY: Final = "spark.jars.ivy"

HADOOP_AND_SDK: Final = {
    "4.0": ("3.4.1", "2.24.8"),  # Built with 2.24.6, of which Maven lacks s3-transfer-manager.
    "4.1": ("3.4.2", "2.29.52"),
    "4.2": ("3.5.0", "2.35.4"),
}
"""The versions of Spark for which Delta has jars. Each with the version of its own Hadoop jars,
which S3A must have, too, and that of the AWS SDK with which this S3A was built."""

_WITH_DELTA: Final = (
    "Run `pip install 'tierfold[delta]'`, which brings Spark 4.2.0 if yours is newer. Without it,"
    " `tierfold status`, `tierfold history` and the SQL function tierfold_status read the catalog."
)


def s3a_packages(spark: str) -> list[str]:
    """Return S3A and the parts of the AWS SDK that it uses, 26 MB, for a version such as "4.2"."""
    hadoop, sdk = HADOOP_AND_SDK[spark]
    names = ("s3", "s3-transfer-manager", "apache-client", "netty-nio-client", "sts")
    of_sdk = (f"software.amazon.awssdk:{name}:{sdk}" for name in names)
    return [f"org.apache.hadoop:hadoop-aws:{hadoop}", *of_sdk]


_S3A: Final[dict[str, bool | float | int | str | None]] = {
    "spark.jars.excludes": ",".join(
        (
            # The whole AWS SDK, hundreds of MB.
            "software.amazon.awssdk:bundle",
            # Spark has them.
            "org.apache.hadoop:hadoop-client-api",
            "org.apache.hadoop:hadoop-client-runtime",
        )
    )
}

_LAYOUTS: Final = {
    "partitions": TableLayout(schema=PARTITIONS, partition_by=PARTITION_COLUMNS),
    "runs": TableLayout(schema=RUNS),
}


def with_delta(
    builder: SparkSession.Builder, catalog: Location | str | None = None
) -> SparkSession.Builder:
    """Return `builder` with Delta's jars, from Maven, and Delta's settings.

    For a catalog on S3, S3A's jars are added. Raises BadSettings if `catalog` is no valid place, or
    if there are no jars: delta-spark is missing, or has none for this version of Spark.
    """
    packages: Sequence[str] = ()
    with_jars, spark = _delta_pip(), _minor(pyspark.__version__)
    if catalog is not None and location_of(str(catalog), of="catalog").scheme == "s3":
        builder, packages = builder.config(map=_S3A), s3a_packages(spark)
    builder = builder.config(IVY, _private_jars(builder))
    return with_jars(builder.config(map=_DELTA), [*packages])


def _delta_pip() -> Callable[[SparkSession.Builder, list[str]], SparkSession.Builder]:
    """Delta's function that adds its jars; raises BadSettings if there are none."""
    where = f"Spark {pyspark.__version__}"
    try:
        from delta import configure_spark_with_delta_pip
    except ModuleNotFoundError as error:
        raise BadSettings(
            "the package delta-spark is missing, with which Spark reads the catalog's tables",
            where=where,
            remedy=_WITH_DELTA,
        ) from error
    if _minor(pyspark.__version__) not in HADOOP_AND_SDK:
        raise BadSettings(
            f"delta-spark {version('delta-spark')} has no jars for this version of Spark",
            where=where,
            remedy=_WITH_DELTA,
        )
    found: Callable[[SparkSession.Builder, list[str]], SparkSession.Builder]
    found = configure_spark_with_delta_pip
    return found


def _minor(spark: str) -> str:
    return ".".join(spark.split(".")[:2])


def _private_jars(builder: SparkSession.Builder) -> str:
    """The folder for the jars that Spark fetches and runs: Spark's own if it is private."""
    given = builder._options.get(IVY)  # noqa: SLF001 - no other way
    usual = Path(given or "~/.ivy2.5.2").expanduser()
    if not (reason := made_private(usual)):
        return str(usual)
    _log.warning("Jars are fetched again, into a temporary folder: %s", reason)
    return private_folder("tierfold-jars-")


def partitions(
    spark: SparkSession, catalog: Location | str, options: StoreOptions = ENVIRONMENT
) -> DataFrame:
    """Return one row per partition that was ever claimed, with the columns of `PARTITIONS`.

    Raises UnreadableObject if there is no catalog or the session has no Delta, and BadSettings if
    `catalog` is no valid place.
    """
    return _table(spark, location_of(str(catalog), of="catalog").child("partitions"), options)


def segments(
    spark: SparkSession, catalog: Location | str, options: StoreOptions = ENVIRONMENT
) -> DataFrame:
    """Return one row per live segment: its partition, its place in offset order, then `SEGMENT`.

    `position` counts from 0. Raises as `partitions` does.
    """
    live = partitions(spark, catalog, options).select(
        *_OF_THE_PARTITION, F.posexplode("segments").alias("position", "segment")
    )
    return live.select(
        *_OF_THE_PARTITION, "position", *(F.col(f"segment.{field.name}") for field in SEGMENT)
    )


def runs(
    spark: SparkSession, catalog: Location | str, options: StoreOptions = ENVIRONMENT
) -> DataFrame:
    """Return one row per run, partition and chunk: the columns of `RUNS`, by `RUNS_RENAMED`.

    Raises as `partitions` does.
    """
    place = location_of(str(catalog), of="catalog").child("runs")
    return _table(spark, place, options).withColumnsRenamed(RUNS_RENAMED)


def _table(spark: SparkSession, place: Location, options: StoreOptions) -> DataFrame:
    layout = _LAYOUTS[place.path.rpartition("/")[2]]
    if not place.is_folder and place.scheme != "s3":
        return spark.createDataFrame(_rows(place, layout, options))
    table_files(str(place), options).ensure_plain()
    # Spark resolves a bare path on its default file system, HDFS on many clusters.
    uri = f"file://{place.path}" if place.is_folder else f"s3a://{place.bucket}/{place.path}"
    given = {
        name.removeprefix("spark.hadoop."): value
        for name, value in s3a_options(place, options).items()
    }
    try:
        table = spark.read.format("delta").options(**given).load(uri)
        return table.select(*layout.schema.names)
    except (PySparkException, Py4JJavaError) as error:
        raise UnreadableObject(
            f"Spark cannot read the table: {_reason(error)}",
            where=str(place),
            remedy="The first run of `tierfold compact` creates it, and a session needs"
            " `with_delta`, on S3 with the catalog as its argument. If a column is missing, another"
            " version of tierfold wrote the table.",
        ) from error


def _rows(place: Location, layout: TableLayout, options: StoreOptions) -> pa.Table:
    table = DeltaFolder(str(place), layout, options)
    if not table.exists():
        raise UnreadableObject(
            "there is no such table",
            where=str(place),
            remedy="The first run of `tierfold compact` creates it.",
        )
    rows = table.read()
    columns = [promised_column(rows, field, str(place)) for field in layout.schema]
    return pa.table(columns, layout.schema)


def _reason(error: PySparkException | Py4JJavaError) -> str:
    """The first line of the JVM's error, without the stack trace."""
    text = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    return str(text).partition("\n")[0].rstrip(".")
