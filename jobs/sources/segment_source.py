"""`spark.read.format("kafka-segments")`: the records of a tier's live segments as a DataFrame.

    from tierfold.jobs.sources.segment_source import register

    register(spark)
    spark.read.format("kafka-segments").option("topics", "orders").load("/tier").show()

Columns and options are in `jobs.sources.segment_options`. The source writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
)
from tierfold.compaction.model.segments import Segment
from tierfold.jobs.context.key_files import with_key_files_here
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.pipeline.discovery import aborted_in, last_stable_in, viewed
from tierfold.jobs.pipeline.originals import originals_of
from tierfold.jobs.pipeline.survey import READERS, KnownPartition, known_partitions
from tierfold.jobs.sources.segment_filters import Wanted, pushed
from tierfold.jobs.sources.segment_options import (
    FORMAT,
    Request,
    check_schema,
    request_of,
    schema_of,
)
from tierfold.jobs.spark.disk_encryption import encrypts_disk, unencrypted_disk
from tierfold.jobs.spark.worker_daemon import silent_planning, workers_used_once
from tierfold.storage.segments.arrow_records import record_batches
from tierfold.storage.segments.log_pieces import LogPiece, pieces_of, read_piece
from tierfold.storage.tiers.remote_tier import Listing, Part, address_of

# Spark's planning workers load this module before any other of tierfold.
silent_planning()

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_TASK_BYTES: Final = 64 * 2**20  # Log bytes per task; decoded they are a few times that.
_OPEN_BYTES: Final = 4 * 2**20  # The cost of opening a log in bytes, as in Spark's file sources.


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Raise expected errors in a Spark worker without a traceback.

    PySpark's own setting would also hide the tracebacks of a user's functions. A worker ends with
    its first error, so nothing else is hidden here.
    """
    try:
        yield
    except TierfoldError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def register(spark: SparkSession) -> None:
    """Register the format with `spark`, and enable filters for its Python data sources.

    Without filters a query returns the same records but reads more bytes.
    """
    source = SegmentsOnEncryptedDisks if encrypts_disk(spark) else KafkaSegments
    with workers_used_once(spark):  # Spark first searches for data sources by itself.
        spark.dataSource.register(source)
    spark.conf.set(_PUSHDOWN, "true")


class KafkaSegments(DataSource):
    """The format; Spark creates an instance for each read."""

    may_decrypt = False
    """Whether the session encrypts what it writes to disks; a planning worker cannot see that."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    @_one_sentence()
    def schema(self) -> StructType:
        """Return the columns from the options; raises BadSettings."""
        return schema_of(request_of(self.options).columns)

    @_one_sentence()
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
        context = run_context(request.tier_uri, request.catalog_uri, layout=request.layout)
        if context.may_decrypt and not self.may_decrypt:
            raise unencrypted_disk()
        return SegmentReader(context, request, schema)


class SegmentsOnEncryptedDisks(KafkaSegments):
    """The format in a session that encrypts what it writes to disks."""

    may_decrypt = True


@dataclass(frozen=True, slots=True)
class _WhereAllowed:
    """`pushFilters`, which Spark calls only if its setting allows filters.

    While the setting is off, Spark refuses a reader that overrides the method, because filters
    could be lost. None is lost here: without a call, Spark applies them all.
    """

    take: Callable[[list[Filter]], Iterable[Filter]]
    __func__: Any = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self.take(filters)


class SegmentReader(DataSourceReader):
    """Plans the read on the driver and reads on the workers."""

    def __init__(self, context: RunContext, request: Request, schema: StructType) -> None:
        self._context = context
        self._request = request
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._wanted = Wanted()

    @property
    def pushFilters(self) -> _WhereAllowed:  # noqa: N802
        """Take the filters on topic, partition and offset; return the rest."""
        return _WhereAllowed(self._push)

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        self._wanted, left = pushed(filters)
        return left

    @_one_sentence()
    def partitions(self) -> list[InputPartition]:
        """Return the pieces of the live segments, assigned to tasks in offset order.

        Raises CorruptLog if a partition in scope is corrupt, UnreadableObject if it cannot be read.
        Partitions that a filter excludes are not inspected.
        """
        known = [partition for partition in self._in_scope() if self._wanted.holds(partition.key)]
        with ThreadPoolExecutor(READERS) as pool:
            pieces = [piece for found in pool.map(self._pieces, known) for piece in found]
        return [InputPartition(task) for task in _tasks(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's pieces; raises CorruptLog, UnreadableObject."""
        with _one_sentence():
            yield from self._batches(partition)

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        tier = with_key_files_here(self._context.tier)
        # If there are no tasks, Spark invents one without a value.
        for piece in partition.value or ():
            where = tier.uri(address_of(piece.key, piece.segment), Part.LOG)
            for chosen in read_piece(tier, piece):
                yield from record_batches(
                    piece.key, chosen, self._schema, where=where, versions=self._request.versions
                )

    def _in_scope(self) -> list[KnownPartition]:
        """Raises BadSettings if an assigned partition does not exist."""
        known = known_partitions(self._context, self._request.scope)
        assigned = self._request.assigned
        if assigned is None:
            return known
        missing = assigned - {(partition.key.topic, partition.key.partition) for partition in known}
        if missing:
            topic, partition = min(missing)
            raise BadSettings(
                f"there is no partition {topic}-{partition}",
                where=FORMAT,
                remedy="`tierfold status TIER` lists all partitions.",
            )
        return [
            partition
            for partition in known
            if (partition.key.topic, partition.key.partition) in assigned
        ]

    def _pieces(self, known: KnownPartition) -> list[LogPiece]:
        view = known.refusal or viewed(self._context, known.key, known.state, known.listed)
        if isinstance(view, Refusal):
            raise CorruptLog(view.detail, where=str(known.key), remedy=view.remedy)
        end, segments = view.next_offset, self._segments(view, known.listed)
        aborted: tuple[AbortedTransaction, ...] = ()
        if self._request.is_committed:
            last_stable = last_stable_in(self._context, view.key, view.segments)
            end = view.next_offset if last_stable is None else last_stable.offset
            # Those of all segments: a marker may be in a later segment than its data.
            aborted = aborted_in(self._context, view.key, segments)
        return [
            piece
            for segment in segments
            for piece in pieces_of(
                self._context.tier,
                view.key,
                segment,
                self._wanted.within(segment.start_offset, min(segment.next_offset, end)),
                aborted,
                _TASK_BYTES,
            )
        ]

    def _segments(self, view: PartitionView, listed: Listing) -> tuple[Segment, ...]:
        """The segments to read; raises UnreadableObject if originals are gone."""
        if not self._request.is_original or not view.segments:
            return view.segments
        found = originals_of(view, listed)
        if isinstance(found, str):
            raise UnreadableObject(
                found, where=str(view.key), remedy="Omit the option, to read the live segments."
            )
        return found


def _tasks(pieces: list[LogPiece]) -> Iterator[tuple[LogPiece, ...]]:
    """Group small neighbouring pieces: a task costs more than a small file."""
    task: list[LogPiece] = []
    task_bytes = 0
    for piece in pieces:
        cost = piece.size_bytes + _OPEN_BYTES
        if task and task_bytes + cost > _TASK_BYTES + _OPEN_BYTES:
            yield tuple(task)
            task, task_bytes = [], 0
        task.append(piece)
        task_bytes += cost
    if task:
        yield tuple(task)
