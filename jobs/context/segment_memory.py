"""What earlier runs read of segments that no row names, and this run's part of it.

A run that finds nothing to do adopts no segment, so the next one would read the same segments
again. What is remembered only shows that there is nothing to do: before anything is done about a
partition, or found wrong with it, `jobs.pipeline.survey` forgets it and reads the segments.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from threading import Lock
from typing import Final

from tierfold.compaction.discovery.candidates import Candidate, EndFrom
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.ownership import OF_PARTITION, UNSAID
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segment_ids import maker_of
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.catalog.discovered_table import DiscoveredSegment, DiscoveredTable

ENTRIES_MAX: Final = 1000
"""Leader epochs of a checkpoint, and producers of a snapshot, that are kept of one segment; of
another one they are read again. The table is held in memory."""

_OWNERS: Final = {owner.whose.value: owner for owner in (OF_PARTITION, UNSAID)}
"""What is not in doubt."""

_Name = tuple[PartitionKey, str]


class SegmentMemory:
    """The memory of one run; threads may share it. The table is read once, when first asked."""

    def __init__(self, table: DiscoveredTable, now_ms: int) -> None:
        self._table = table
        self._now_ms = now_ms
        self._lock = Lock()
        self._kept: dict[tuple[str, int, str], DiscoveredSegment] | None = None
        self._found: dict[_Name, DiscoveredSegment] = {}
        self._forgotten: set[PartitionKey] = set()
        self._recalled: set[PartitionKey] = set()

    def candidate(
        self, key: PartitionKey, listed: ListedSegment, fingerprint: int | None, *, is_named: bool
    ) -> Candidate | None:
        """What was read of an unknown segment with exactly these objects; None: read it.

        Arguments as of `segment_inspection.inspected`.
        """
        row = self._recall(key, listed)
        if row is None or not row.end_from or row.is_named != is_named:
            return None
        owner = _OWNERS.get(row.whose)
        if owner is None or row.end_from not in {*EndFrom}:
            return None
        self._recalled.add(key)
        self._use(key, row)
        return Candidate(
            listed=listed,
            ownership=owner,
            segment=row.segment,
            end_offset=row.segment.end_offset,
            end_from=EndFrom(row.end_from),
            checkpoint=row.checkpoint,
            maker=maker_of(listed.segment_id, fingerprint),
            index_corruptions=row.index_corruptions,
        )

    def producers(
        self, key: PartitionKey, listed: ListedSegment
    ) -> tuple[ProducerEntry, ...] | None:
        """The snapshot of a segment with exactly these objects; None: read it."""
        row = self._recall(key, listed)
        if row is None or not row.has_producers:
            return None
        self._recalled.add(key)
        noted = self._found.get((key, listed.segment_id), row)
        self._use(key, replace(noted, has_producers=True, producers=row.producers))
        return row.producers

    def note(self, key: PartitionKey, found: Candidate, *, is_named: bool) -> None:
        """Keep what was read of an unknown segment if all of it can be used."""
        is_owned = _OWNERS.get(found.ownership.whose.value) == found.ownership
        if found.segment is None or found.corruption or not is_owned:
            return
        if not 0 < len(found.checkpoint) <= ENTRIES_MAX:
            return
        row = replace(
            self._row(key, found.listed, found.segment),
            is_named=is_named,
            whose=found.ownership.whose.value,
            end_from=found.end_from.value,
            checkpoint=found.checkpoint,
            index_corruptions=found.index_corruptions,
        )
        self._use(key, row)

    def note_producers(
        self,
        key: PartitionKey,
        listed: ListedSegment,
        segment: Segment,
        producers: Sequence[ProducerEntry],
    ) -> None:
        """Keep the snapshot of a segment."""
        if len(producers) > ENTRIES_MAX:
            return
        row = self._found.get((key, segment.segment_id)) or self._row(key, listed, segment)
        self._use(key, replace(row, has_producers=True, producers=tuple(producers)))

    def has_recalled(self, key: PartitionKey) -> bool:
        """Whether anything of the partition was taken from what earlier runs read."""
        return key in self._recalled

    def forget(self, key: PartitionKey) -> None:
        """Take nothing more of the partition from earlier runs, and keep nothing of it."""
        with self._lock:
            self._forgotten.add(key)
            self._recalled.discard(key)
            self._found = {name: row for name, row in self._found.items() if name[0] != key}

    def save(self, keys: Collection[PartitionKey], resting: Collection[PartitionKey]) -> None:
        """Keep what is known of the partitions that rest, of all `keys`; one commit at most."""
        rests = frozenset(resting)
        by_id = {(key.topic_id, key.partition): key for key in keys}
        before = self._rows_of(by_id.keys())
        after = [row for (key, _), row in self._found.items() if key in rests]
        changed = {row.row_id for row in {*before}.symmetric_difference(after)}
        if changed:
            rows = [row for row in after if row.row_id in changed]
            self._table.replace(changed, rows, self._now_ms)

    def _rows_of(self, ids: Collection[tuple[str, int]]) -> list[DiscoveredSegment]:
        return [row for row in (self._kept or {}).values() if row.row_id in ids]

    def _recall(self, key: PartitionKey, listed: ListedSegment) -> DiscoveredSegment | None:
        with self._lock:
            if self._kept is None:
                rows = self._table.read(self._now_ms)
                self._kept = {(*row.row_id, row.segment_id): row for row in rows}
        row = self._kept.get((key.topic_id, key.partition, listed.segment_id))
        if row is None or key in self._forgotten or not _is_of(row, listed):
            return None
        return row

    def _use(self, key: PartitionKey, row: DiscoveredSegment) -> None:
        with self._lock:
            self._found[key, row.segment_id] = row

    def _row(
        self, key: PartitionKey, listed: ListedSegment, segment: Segment
    ) -> DiscoveredSegment:
        """A row that says nothing yet but which objects it is about."""
        return DiscoveredSegment(
            topic_id=key.topic_id,
            partition=key.partition,
            segment_id=listed.segment_id,
            start_offset=listed.start_offset,
            object_suffixes=tuple(suffix for suffix, _ in listed.parts),
            object_bytes=tuple(size_bytes for _, size_bytes in listed.parts),
            modified_ms=listed.modified_ms,
            is_named=False,
            whose="",
            segment=segment,
            end_from="",
            checkpoint=(),
            index_corruptions=(),
            has_producers=False,
            producers=(),
            read_at_ms=self._now_ms,
        )


def _is_of(row: DiscoveredSegment, listed: ListedSegment) -> bool:
    """Whether a row describes exactly these objects, and a segment that they can be."""
    objects = tuple(zip(row.object_suffixes, row.object_bytes, strict=False))
    return (
        listed.is_complete
        and (row.start_offset, objects, row.modified_ms)
        == (listed.start_offset, listed.parts, listed.modified_ms)
        and row.segment.segment_id == listed.segment_id
    )
