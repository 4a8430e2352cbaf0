"""The records of a tier as a DataFrame, for `tierfold.read`: all of them, or the newest per key.

Each topic is read by its own `compaction.strategy` and `decompressed.batch.max.bytes`. Spark's
window ranks the records of a key as the cleaner does (`compaction.cleaning`, KIP-280): by version,
a record without one last, then by offset. A filter on the rank lets Spark drop a task's older
records before the shuffle (`InferWindowGroupLimit`), so only the newest of each key and task cross
it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.strategies import named_strategy, strategy_name
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.sources.segment_columns import USUAL_COLUMNS
from tierfold.jobs.sources.segment_options import (
    BATCH_BYTES_MAX,
    FORMAT,
    LIVE,
    holes_as_options,
    layout_as_options,
    schema_of,
    store_as_options,
)
from tierfold.jobs.sources.segment_source import register
from tierfold.storage.kafka.record_versions import VersionSource

_KEY: Final = ("topic", "partition", "key")
_RANK: Final = "rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the records of a topic are read."""

    versions: VersionSource
    """The source of the column `version`."""
    batch_bytes_max: int
    """The rules' `decompressed_batch_max_bytes`; 0: not set."""

    @classmethod
    def by(cls, rules: Rules) -> Reading:
        """The reading of a topic; only the strategy `header` uses a header."""
        strategy, header = named_strategy(strategy_name(rules))
        return cls(
            versions=VersionSource(strategy=strategy, header=header),
            batch_bytes_max=rules.decompressed_batch_max_bytes or 0,
        )

    def as_options(self) -> dict[str, str]:
        """The options of the format that say so."""
        options = {
            "compaction.strategy": self.versions.strategy.value,
            "compaction.strategy.header": self.versions.header,
            BATCH_BYTES_MAX: str(self.batch_bytes_max or ""),
        }
        return {name: text for name, text in options.items() if text}


def records(
    spark: SparkSession,
    context: RunContext,
    settings: Settings,
    scope: Scope,
    columns: Sequence[str] = USUAL_COLUMNS,
) -> DataFrame:
    """Return the committed records of the partitions in scope, with these columns.

    The partitions are chosen now, their segments when the DataFrame is first used.
    Raises BadSettings for an unknown column, topic or partition.
    """
    keys = scope.chosen(context.tier.partitions())
    return _read(spark, context, settings, keys, columns)


def latest_records(
    spark: SparkSession,
    context: RunContext,
    settings: Settings,
    scope: Scope,
    columns: Sequence[str] = USUAL_COLUMNS,
) -> DataFrame:
    """Return the newest record of each topic, partition and key, unless it is a tombstone.

    The topic's `compaction.strategy` decides; records without a key are left out, as compaction
    drops them. Raises as `records`, also if two topics in scope had the same name.
    """
    keys = scope.chosen(context.tier.partitions())
    _refuse_namesakes(keys)
    wanted = schema_of(tuple(columns)).names
    # Values that are not asked for stay in the workers; a null digest shows a tombstone, too.
    content = "value" if "value" in wanted else "value_digest"
    needed = tuple(dict.fromkeys((*wanted, *_KEY, "offset", "version", content)))
    found = _read(spark, context, settings, keys, needed)
    return newest(found).where(F.col(content).isNotNull()).select(*wanted)


def newest(found: DataFrame) -> DataFrame:
    """Return the newest record of each topic, partition and key, tombstones included.

    `found` has these columns, `offset` and `version`; records without a key are left out.
    """
    by_key = Window.partitionBy(*_KEY).orderBy(
        F.col("version").desc_nulls_last(), F.col("offset").desc()
    )
    return (
        found.where(F.col("key").isNotNull())
        .withColumn(_RANK, F.row_number().over(by_key))
        .where(F.col(_RANK) == 1)
        .drop(_RANK)
    )


def _read(
    spark: SparkSession,
    context: RunContext,
    settings: Settings,
    keys: Sequence[PartitionKey],
    columns: Sequence[str],
) -> DataFrame:
    """The records of these partitions, read by their topics' rules."""
    register(spark)
    readings = [(key, Reading.by(settings.rules_for(key.topic))) for key in keys]
    return read_by_topic(spark, context, readings, columns)


def read_by_topic(
    spark: SparkSession,
    context: RunContext,
    readings: Iterable[tuple[PartitionKey, Reading]],
    columns: Sequence[str],
    segments: str = LIVE,
) -> DataFrame:
    """Return the records of these partitions; one reader for all topics that are read alike.

    `segments`: `LIVE` or `ORIGINAL`. The format must be registered.
    """
    schema = schema_of(tuple(columns))
    assigned: dict[Reading, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for key, reading in readings:
        assigned[reading][key.topic].append(key.partition)
    frames = [
        spark.read.format(FORMAT)
        .options(**reading.as_options(), **layout_as_options(context.layout_options))
        .options(**holes_as_options(context.holes_are_holes))
        .options(**store_as_options(context.catalog_options))
        .option("catalog", context.catalog_uri)
        .option("assign", json.dumps(numbers))
        .option("segments", segments)
        .option("columns", ",".join(schema.names))
        .load(str(context.location))
        for reading, numbers in assigned.items()
    ]
    return reduce(DataFrame.unionAll, frames) if frames else spark.createDataFrame([], schema)


def _refuse_namesakes(keys: Sequence[PartitionKey]) -> None:
    """Raise BadSettings if a deleted topic and its successor would compete for the same keys."""
    for (topic, number), count in Counter((key.topic, key.partition) for key in keys).items():
        if count > 1:
            raise BadSettings(
                f"{topic}-{number} is a partition of {count} topics that had this name, and their"
                " records of a key would compete",
                where="latest",
                remedy="Move the folder of the deleted topic out of the tier, or leave the topic"
                " out.",
            )
