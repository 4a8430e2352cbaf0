"""Compares keys a second time for `verify`: a Spark window finds the latest record of each key.

The originals and the live segments are DataFrames of `kafka-segments`
(`jobs.sources.segment_source`). They hold key, version, offset and a digest of the value; values
stay in the workers that read them. This check is stricter: the latest record must be the same
record, at the same offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.verification.comparison import SecondOpinion, shown_key
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.engines.task_assignment import buckets_of
from tierfold.jobs.pipeline.discovery import last_stable_in
from tierfold.jobs.sources.latest import Reading, newest, read_by_topic
from tierfold.jobs.sources.segment_options import LIVE, ORIGINAL
from tierfold.jobs.sources.segment_source import register
from tierfold.jobs.spark.failures import SPARK_FAILURES, failure_of
from tierfold.jobs.spark.progress import SparkProgress
from tierfold.jobs.spark.session import SHUFFLE_PARTITIONS, announced_session, spark_answers
from tierfold.jobs.verbs.verify_targets import VerifyTarget

_PARTITION: Final = ["topic", "partition"]
_KEY: Final = [*_PARTITION, "key"]
_COLUMNS: Final = (*_KEY, "offset", "version", "value_digest")

_BOUNDS: Final = "topic string, partition int, end bigint, passes array<bigint>"
"""Per partition: the first offset that is not compared, and where passes ended."""


def opinions_of_spark(
    context: RunContext, targets: Sequence[VerifyTarget]
) -> dict[PartitionKey, SecondOpinion]:
    """As `second_opinions`, in this process's Spark session; raises BadSettings without Java."""
    with spark_answers():
        spark = announced_session(has_secrets=context.may_decrypt)
    return second_opinions(spark, context, targets)


def second_opinions(
    spark: SparkSession, context: RunContext, targets: Sequence[VerifyTarget]
) -> dict[PartitionKey, SecondOpinion]:
    """Compare the latest records of these partitions.

    Their logs have been read and compared once before. A partition that a commit has changed since
    then has no entry. New records and open transactions are not compared. No two targets have the
    same topic and number.

    Raises UnreadableObject if a reader or a worker of Spark fails, Stopped after a signal.
    """
    if not targets:
        return {}
    register(spark)
    buckets = sum(buckets_of(target.read_bytes) for target in targets)
    tasks = max(spark.sparkContext.defaultParallelism, buckets)
    bounds = spark.createDataFrame([_bound(context, target) for target in targets], _BOUNDS)
    compared = _compared(
        _side(spark, context, targets, ORIGINAL), _side(spark, context, targets, LIVE), bounds
    )
    try:
        with _shuffled_into(spark, tasks):
            progress = SparkProgress(spark, context.progress)
            table: pa.Table = progress.watched("second opinion", None, compared.toArrow)
    except SPARK_FAILURES as error:
        failed = failure_of(error, spark)
        raise UnreadableObject(
            f"the search for the latest records failed: {failed.what}",
            where=context.tier_uri,
            remedy=f"{failed.failure.remedy} If it fails again, leave out --second-opinion.",
        ) from error
    found = {(row["topic"], row["partition"]): _opinion(row) for row in table.to_pylist()}
    rows = context.catalog.look([target.key for target in targets]).by_key
    return {
        target.key: found.get((target.key.topic, target.key.partition), SecondOpinion())
        for target in targets
        if target.key in rows and rows[target.key].commit_id == target.commit_id
    }


def _bound(context: RunContext, target: VerifyTarget) -> tuple[str, int, int, list[int]]:
    """A row of `_BOUNDS`: records below the last stable offset no longer change."""
    live = target.now.segments
    last_stable = last_stable_in(context, target.key, live)
    end = live[-1].next_offset if last_stable is None else last_stable.offset
    return target.key.topic, target.key.partition, end, list(target.passes)


def _side(
    spark: SparkSession, context: RunContext, targets: Sequence[VerifyTarget], segments: str
) -> DataFrame:
    """The records of the original or live segments of all targets, read as `verify` does."""
    readings = [
        (
            target.key,
            Reading(versions=target.versions, batch_bytes_max=target.batch_bytes_max),
        )
        for target in targets
    ]
    return read_by_topic(spark, context, readings, _COLUMNS, segments)


def _compared(before: DataFrame, now: DataFrame, bounds: DataFrame) -> DataFrame:
    """Records of both sides → the number of keys and of differing keys per partition."""
    pairs = (
        _latest(before, bounds, "before")
        .join(_latest(now, bounds, "now"), _KEY, "full_outer")
        .join(F.broadcast(bounds), _PARTITION)
    )
    compared = pairs.withColumn("late", _is_late()).withColumn("differs", ~_is_same())
    differs = F.col("differs") & ~F.col("late")
    first = F.coalesce("before.offset", "now.offset").alias("first")
    return compared.groupBy(*_PARTITION).agg(
        F.count("*").alias("keys"),
        F.count_if(differs).alias("differing"),
        F.count_if(F.col("late")).alias("late"),
        # Of a struct the first field decides: the earliest.
        F.min(F.when(differs, F.struct(first, "key", "before", "now"))).alias("example"),
    )


def _latest(records: DataFrame, bounds: DataFrame, name: str) -> DataFrame:
    """The latest record of each key, as a struct of that name."""
    bounded = records.join(F.broadcast(bounds), _PARTITION).where(F.col("offset") < F.col("end"))
    return newest(bounded).select(
        *_KEY, F.struct("offset", F.col("value_digest").alias("digest")).alias(name)
    )


def _is_same() -> Column:
    """The same record, or no value on either side: a deleted key may be missing."""
    no_value = F.col("before.digest").isNull() & F.col("now.digest").isNull()
    is_same_record = F.col("before.offset").eqNullSafe(F.col("now.offset")) & (
        F.col("before.digest").eqNullSafe(F.col("now.digest"))
    )
    return is_same_record | (F.col("before").isNotNull() & no_value)


def _is_late() -> Column:
    """The tombstone was gone when an older record arrived: a pass ended between the two."""
    return (
        F.col("before").isNotNull()
        & F.col("before.digest").isNull()
        & F.col("now.digest").isNotNull()
        & F.exists(
            "passes", lambda end: (end > F.col("before.offset")) & (end <= F.col("now.offset"))
        )
    )


@contextmanager
def _shuffled_into(spark: SparkSession, tasks: int) -> Iterator[None]:
    """Set the number of tasks after each shuffle for one query; Spark's default is 200."""
    before = spark.conf.get(SHUFFLE_PARTITIONS)
    spark.conf.set(SHUFFLE_PARTITIONS, str(tasks))
    try:
        yield
    finally:
        spark.conf.set(SHUFFLE_PARTITIONS, str(before))


def _opinion(row: dict[str, Any]) -> SecondOpinion:
    example = row["example"]
    return SecondOpinion(
        keys=row["keys"],
        differing=row["differing"],
        late=row["late"],
        example=""
        if example is None
        else f"key {shown_key(example['key'])} had {_record(example['before'])}, has"
        f" {_record(example['now'])}",
    )


def _record(segment_set: dict[str, Any] | None) -> str:
    if segment_set is None:
        return "none"
    what = "a tombstone" if segment_set["digest"] is None else "a value"
    return f"{what} (offset {segment_set['offset']})"
