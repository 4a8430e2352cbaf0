"""A tier in Spark: `read`, a DataFrame of records, and `register`, the format and the functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from pyspark.sql import DataFrame, SparkSession

from tierfold.jobs.api.keywords import ReadKeywords, takes
from tierfold.jobs.api.opening import opened
from tierfold.jobs.api.table_functions import register_functions
from tierfold.jobs.sources import segment_source
from tierfold.jobs.sources.latest import latest_records, records
from tierfold.jobs.sources.segment_columns import USUAL_COLUMNS
from tierfold.jobs.spark.session import announced_session, spark_answers


@takes(ReadKeywords)
def read(
    tier: str | Path,
    columns: Sequence[str] = USUAL_COLUMNS,
    *,
    latest: bool = False,
    **given: Unpack[ReadKeywords],
) -> DataFrame:
    """Return the committed records of all live segments as a DataFrame, with these columns.

    With `latest`, only the newest record of each topic, partition and key, by the topic's
    `compaction.strategy`; without the keys whose newest record is a tombstone, and without records
    that have no key: what compaction keeps in the end. docs/dataframe.md describes the columns.

    Raises BadSettings for a wrong setting, column, topic or partition. Corrupt data fails the query
    that reads it.

    >>> tierfold.read("s3://bucket/tier", ["key", "value"], topics=["orders"], latest=True)
    """
    tools = opened(tier, given)
    with spark_answers():
        spark = announced_session(given.get("spark"), has_secrets=tools.context.may_decrypt)
    found = latest_records if latest else records
    return found(spark, tools.context, tools.settings, tools.scope, columns)


def register(spark: SparkSession) -> None:
    """Register `kafka-segments`, and the functions `tierfold_status` and `tierfold_plan` of SQL.

    >>> tierfold.register(spark)
    >>> spark.sql("SELECT * FROM tierfold_status('s3://bucket/tier')")
    """
    segment_source.register(spark)
    register_functions(spark)
