"""Plans a read of `kafka-segments` on the driver: which bytes of which segments each task reads.

Spark's workers do not import this module: the catalog's packages are on the driver only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.compaction.model.segments import Segment
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.discovery import aborted_in, last_stable_in, viewed
from tierfold.jobs.pipeline.originals import originals_of
from tierfold.jobs.pipeline.survey import READERS, KnownPartition, known_partitions
from tierfold.jobs.sources.segment_filters import Wanted, pushed
from tierfold.jobs.sources.segment_options import FORMAT, Request
from tierfold.jobs.sources.segment_tasks import TaskReader, in_one_sentence
from tierfold.storage.segments.log_pieces import LogPiece, pieces_of
from tierfold.storage.tiers.remote_tier import Listing

_TASK_BYTES: Final = 64 * 2**20  # Log bytes per task; decoded they are a few times that.
_OPEN_BYTES: Final = 4 * 2**20  # The cost of opening a log in bytes, as in Spark's file sources.


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
    """Plans the read; the workers receive only its `TaskReader`."""

    def __init__(self, context: RunContext, request: Request, schema: StructType) -> None:
        self._context = context
        self._request = request
        self._wanted = Wanted()
        self._tasks = TaskReader(
            open_tier=context.tier_opener(),
            schema=to_arrow_schema(schema, timezone="UTC"),
            versions=request.versions,
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Leave the catalog, and this module, on the driver."""
        return TaskReader, (self._tasks.open_tier, self._tasks.schema, self._tasks.versions)

    @property
    def pushFilters(self) -> _WhereAllowed:  # noqa: N802
        """Take the filters on topic, partition and offset; return the rest."""
        return _WhereAllowed(self._push)

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        self._wanted, left = pushed(filters)
        return left

    @in_one_sentence()
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
        """See `TaskReader.read`."""
        return self._tasks.read(partition)

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
