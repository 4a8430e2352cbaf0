"""Plans a read of `kafka-segments` on the driver: which bytes of which segments each task reads.

Spark's workers do not import this module: the catalog's packages are on the driver only.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import OffsetSpan
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.discovery import aborted_in, last_stable_in, viewed
from tierfold.jobs.pipeline.known_partition import KnownPartition
from tierfold.jobs.pipeline.originals import originals_of
from tierfold.jobs.pipeline.survey import READERS, known_partitions
from tierfold.jobs.sources.segment_columns import arrow_schema
from tierfold.jobs.sources.segment_options import FORMAT, Request
from tierfold.jobs.sources.segment_tasks import TaskReader, in_one_sentence
from tierfold.storage.segments.log_pieces import LogPiece, pieces_of
from tierfold.storage.tiers.remote_tier import Listing

_TASK_BYTES: Final = 64 * 2**20  # Log bytes per task; decoded they are a few times that.
_OPEN_BYTES: Final = 4 * 2**20  # The cost of opening a log in bytes, as in Spark's file sources.


class SegmentReader(DataSourceReader):
    """Plans the read; the workers receive only its `TaskReader`.

    It has no `pushFilters`: Spark 4.2 keeps the plan of a DataFrame's first query, so later queries
    would get only the records that pass the first one's filters.
    """

    def __init__(self, context: RunContext, request: Request, schema: StructType) -> None:
        self._context = context
        self._request = request
        self._tasks = TaskReader(
            open_tier=context.tier_opener(),
            schema=arrow_schema(schema),
            versions=request.versions,
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Leave the catalog, and this module, on the driver."""
        return TaskReader, (self._tasks.open_tier, self._tasks.schema, self._tasks.versions)

    @in_one_sentence()
    def partitions(self) -> list[InputPartition]:
        """Return the pieces of the live segments, assigned to tasks in offset order.

        Raises CorruptLog if a partition in scope is corrupt, UnreadableObject if it cannot be read.
        """
        with ThreadPoolExecutor(READERS) as pool:
            found = pool.map(self._pieces, self._in_scope())
            pieces = [piece for of_partition in found for piece in of_partition]
        return [InputPartition(task) for task in _tasks(pieces)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """See `TaskReader.read`."""
        return self._tasks.read(partition)

    def _in_scope(self) -> list[KnownPartition]:
        """The partitions to read; raises BadSettings if an assigned one does not exist."""
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
        wanted, segments = self._request.offsets, self._segments(view, known.listed)
        end = wanted.end
        aborted: tuple[AbortedTransaction, ...] = ()
        if self._request.is_committed:
            last_stable = last_stable_in(self._context, view.key, view.segments)
            end = wanted.end if last_stable is None else min(wanted.end, last_stable.offset)
            # From all segments: a marker may be in a later segment than its data.
            aborted = aborted_in(self._context, view.key, segments)
        return [
            replace(piece, batch_bytes_max=self._request.batch_bytes_max)
            for segment in segments
            for piece in pieces_of(
                self._context.tier,
                view.key,
                segment,
                OffsetSpan(start=wanted.start, end=end),
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
