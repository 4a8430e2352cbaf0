"""`spark.read.format("kafka-segments")`: the records of a tier's live segments, as a DataFrame.

    from tierfold.jobs.sources.segment_source import register

    register(spark)
    spark.read.format("kafka-segments").option("topics", "orders").load("/tier").show()

Columns and options are in `jobs.sources.segment_options`. Nothing is ever changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.planning.regions import last_stable_of
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.pipeline.discovery import viewed
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
from tierfold.jobs.spark.worker_daemon import silent_planning, workers_used_once
from tierfold.storage.segments.arrow_records import record_batches
from tierfold.storage.segments.log_pieces import LogPiece, pieces_of, read_piece
from tierfold.storage.segments.segment_metadata import read_aborted, read_snapshot
from tierfold.storage.tiers.local_tiered_storage import Part

# Spark's workers that plan a read load this module, and nothing of ours before it.
silent_planning()

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_TASK_BYTES: Final = 64 * 2**20  # A task reads so much; what is decoded is a few times that.
_OPEN_BYTES: Final = 4 * 2**20  # What opening a log is worth, as in Spark's own file sources.


@contextmanager
def _one_sentence() -> Iterator[None]:
    """For what runs in a worker of Spark's: an error that a person must act on comes without trace.

    PySpark's own setting for that would hide the traces of a user's functions as well. The worker
    ends with its first error, so that nothing else of it is hidden.
    """
    try:
        yield
    except TierfoldError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def register(spark: SparkSession) -> None:
    """Makes the format known to `spark`, and lets Python data sources see filters there.

    Spark hands filters to no Python data source unless told so. Where somebody turns that off
    again, the same records come out, and more bytes are read.
    """
    with workers_used_once(spark):  # Spark first looks for data sources of its own accord.
        spark.dataSource.register(KafkaSegments)
    spark.conf.set(_PUSHDOWN, "true")


class KafkaSegments(DataSource):
    """The format; Spark makes one for each read."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    @_one_sentence()
    def schema(self) -> StructType:
        """The columns that the options ask for; raises BadSettings."""
        return schema_of(request_of(self.options).columns)

    @_one_sentence()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads `schema`'s columns; raises BadSettings."""
        request = request_of(self.options)
        check_schema(schema)
        if "columns" in self.options and list(request.columns) != schema.names:
            raise BadSettings(
                "the schema and the option columns name different columns",
                where=FORMAT,
                remedy="Name them once: in .schema(…), or in the option.",
            )
        context = run_context(request.tier_uri, request.catalog_uri, None)
        return SegmentReader(context, request, schema)


@dataclass(frozen=True, slots=True)
class _WhereAllowed:
    """`pushFilters`, for Spark to call where it may.

    Spark refuses a reader that overrides it while the setting is off, lest filters be ignored in
    silence. Here none is: what is not pushed is applied by Spark, as by a reader without override.
    """

    take: Callable[[list[Filter]], Iterable[Filter]]
    __func__: Any = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self.take(filters)


class SegmentReader(DataSourceReader):
    """Plans what is to be read, then travels to the workers and reads it."""

    def __init__(self, context: RunContext, request: Request, schema: StructType) -> None:
        self._live = context
        self._request = request
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._wanted = Wanted()

    @property
    def pushFilters(self) -> _WhereAllowed:  # noqa: N802
        """Takes what can be decided by topic, partition and offset, and gives the rest back."""
        return _WhereAllowed(self._push)

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        self._wanted, left = pushed(filters)
        return left

    @_one_sentence()
    def partitions(self) -> list[InputPartition]:
        """The pieces of the live segments, dealt to tasks in the order of their offsets.

        Raises CorruptLog where a partition in scope cannot be understood, UnreadableObject where
        it cannot be read; what a filter excludes is not looked at.
        """
        known = [each for each in self._in_scope() if self._wanted.holds(each.key)]
        with ThreadPoolExecutor(READERS) as pool:
            pieces = [piece for found in pool.map(self._pieces, known) for piece in found]
        return [InputPartition(task) for task in _tasks(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task's pieces; raises CorruptLog, UnreadableObject."""
        with _one_sentence():
            yield from self._batches(partition)

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        tier = self._live.tier
        # Spark makes up a task without a value where there is none.
        for piece in partition.value or ():
            segment = piece.segment
            where = tier.uri(piece.key, segment.segment_id, segment.own_start_offset, Part.LOG)
            for chosen in read_piece(tier, piece):
                yield from record_batches(
                    piece.key, chosen, self._schema, where=where, versions=self._request.versions
                )

    def _in_scope(self) -> list[KnownPartition]:
        """Raises BadSettings where a partition that was assigned is not there."""
        known = known_partitions(self._live, self._request.scope)
        assigned = self._request.assigned
        if assigned is None:
            return known
        missing = assigned - {(each.key.topic, each.key.partition) for each in known}
        if missing:
            topic, partition = min(missing)
            raise BadSettings(
                f"there is no partition {topic}-{partition}",
                where=FORMAT,
                remedy="`tierfold status TIER` names all that there is.",
            )
        return [each for each in known if (each.key.topic, each.key.partition) in assigned]

    def _pieces(self, known: KnownPartition) -> list[LogPiece]:
        view = known.refusal or viewed(self._live, known.key, known.state)
        if isinstance(view, Refusal):
            raise CorruptLog(view.detail, where=str(known.key), remedy=view.remedy)
        end = self._last_stable_offset(view) if self._request.is_committed else view.next_offset
        segments = self._segments(view)
        aborted = self._aborted(view.key, segments) if self._request.is_committed else ()
        return [
            piece
            for segment in segments
            for piece in pieces_of(
                self._live.tier,
                view.key,
                segment,
                self._wanted.within(segment.start_offset, min(segment.next_offset, end)),
                aborted,
                _TASK_BYTES,
            )
        ]

    def _segments(self, view: PartitionView) -> tuple[Segment, ...]:
        """What is read of the partition; raises UnreadableObject where originals are gone."""
        if not self._request.is_original or not view.segments:
            return view.segments
        found = originals_of(self._live, view)
        if isinstance(found, str):
            raise UnreadableObject(
                found, where=str(view.key), remedy="Read the live segments: leave the option out."
            )
        return found

    def _last_stable_offset(self, view: PartitionView) -> int:
        """What a consumer of committed data may see ends here."""
        if not view.segments:
            return view.next_offset
        newest = read_snapshot(self._live.tier, view.key, view.segments[-1])
        last_stable = last_stable_of(newest)
        return view.next_offset if last_stable is None else last_stable.offset

    def _aborted(
        self, key: PartitionKey, segments: Sequence[Segment]
    ) -> tuple[AbortedTransaction, ...]:
        """Of all segments: a marker may lie in a later one than the data it aborts."""
        return tuple(
            each for segment in segments for each in read_aborted(self._live.tier, key, segment)
        )


def _tasks(pieces: list[LogPiece]) -> Iterator[tuple[LogPiece, ...]]:
    """Neighbouring pieces together while they are small: a task costs more than a small file."""
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
