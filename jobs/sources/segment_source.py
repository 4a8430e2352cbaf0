"""`spark.read.format("kafka-segments")`: the records of a tier's live segments as a DataFrame.

    from tierfold.jobs.sources.segment_source import register

    register(spark)
    spark.read.format("kafka-segments").option("topics", "orders").load("/tier").show()

Columns and options are in `jobs.sources.segment_options`. The source writes nothing.

Spark sends the source to its workers. So this module imports the planning, and with it the catalog,
only where a read is planned: on the driver.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.sources.segment_options import FORMAT, check_schema, request_of, schema_of
from tierfold.jobs.sources.segment_tasks import in_one_sentence
from tierfold.jobs.spark.disk_encryption import encrypts_disk, unencrypted_disk
from tierfold.jobs.spark.worker_daemon import silent_planning, workers_used_once

# Spark's planning workers load this module before any other of tierfold.
silent_planning()


def register(spark: SparkSession) -> None:
    """Register the format with `spark`."""
    source = SegmentsOnEncryptedDisks if encrypts_disk(spark) else KafkaSegments
    with workers_used_once(spark):  # Spark first searches for data sources by itself.
        spark.dataSource.register(source)


class KafkaSegments(DataSource):
    """The format; Spark creates an instance for each read."""

    may_decrypt = False
    """Whether the session encrypts what it writes to disks; a planning worker cannot find out."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    @in_one_sentence()
    def schema(self) -> StructType:
        """Return the columns from the options; raises BadSettings."""
        return schema_of(request_of(self.options).columns)

    @in_one_sentence()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of `schema`; raises BadSettings."""
        request = request_of(self.options)
        check_schema(schema)
        if "columns" in self.options and list(request.columns) != schema.names:
            raise BadSettings(
                "the schema and the option columns name different columns",
                where=FORMAT,
                remedy="Name them once: in .schema(…), or in the option.",
            )
        from tierfold.jobs.context.run_context import run_context
        from tierfold.jobs.sources.segment_planning import SegmentReader

        context = run_context(
            request.tier_uri, request.catalog_uri, options=request.store, layout=request.layout
        )
        context = replace(
            context,
            holes_are_holes=request.holes_are_holes,
            batch_bytes_max=lambda _: request.batch_bytes_max,
        )
        if context.may_decrypt and not self.may_decrypt:
            raise unencrypted_disk()
        return SegmentReader(context, request, schema)


class SegmentsOnEncryptedDisks(KafkaSegments):
    """The format in a session that encrypts what it writes to disks."""

    may_decrypt = True
