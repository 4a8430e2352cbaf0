"""What publishing would do with the rows that real verbs made, on the model of brokers.

The brokers have read what the model's leaders uploaded, in the order in which they began: finished
where the tier has all objects, else only started; what the tier no longer has is gone. Then the
product's `next_step` decides, the brokers take its events one by one, and none may lose an offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.faults.broker_model.metadata_cache import FINISHED, GONE, LISTED, MetadataCache
from tests.faults.random_verbs.verbs_checks import Violation
from tests.faults.random_verbs.verbs_model import Held, Partition, Upload
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event, SegmentAdded, SegmentUpdated
from tierfold.compaction.brokers.metadata_fold import MetadataFold, MetadataRecord
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState
from tierfold.compaction.publishing.look import Look, PublishingLimits
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Done, Refused, Send

HOUR_MS: Final = 3_600_000
LIMITS: Final = PublishingLimits(grace_ms=HOUR_MS, upload_wait_ms=HOUR_MS)
LOOKS_MAX: Final = 100


def published(
    partition: Partition, row: PartitionState, held: Mapping[str, Held], fingerprint: int
) -> str:
    """Publish a row to brokers that have these uploads; returns how it ended, as a word.

    A row of another history than the present log's has no brokers. Raises Violation if brokers
    would lose an offset, or do not have what the row says at the end.
    """
    lineage = [(entry.epoch, entry.start_offset) for entry in row.lineage]
    if lineage != [entry for entry in partition.log.lineage if entry[1] < row.next_offset]:
        return "another history"
    brokers = _Brokers(partition, row, held)
    for _ in range(LOOKS_MAX):
        step = next_step(brokers.look(fingerprint))
        if isinstance(step, Send):
            for event in step.events:
                brokers.take(event)
            continue
        if isinstance(step, Done):
            brokers.ensure_published()
        return step.code if isinstance(step, Refused) else type(step).__name__.lower()
    raise Violation(f"{partition}: publishing never ends: {step}")


class _Brokers:
    """What brokers have of a partition, as the model folds its events, and as the product does."""

    def __init__(
        self, partition: Partition, row: PartitionState, held: Mapping[str, Held]
    ) -> None:
        self._partition, self._row = partition, row
        self._lineage = list(partition.log.lineage)
        self._events: list[Event] = []
        self._cache = MetadataCache()
        for upload in partition.uploads.values():
            for event in _events_of(row, upload, held.get(upload.segment_id)):
                self._events.append(event)
                self._cache.apply(event)

    @property
    def _offsets(self) -> range:
        return range(self._row.log_start_offset, self._partition.log.next_offset)

    def look(self, fingerprint: int) -> Look:
        """What a run sees, long after all of it was sent."""
        fold, row, end = MetadataFold(1), self._row, self._partition.log.next_offset
        fold.ask(row.key, row.named_ids)
        fold.apply(
            MetadataRecord(0, offset, 0, encode(event), None)
            for offset, event in enumerate(self._events)
        )
        return Look(
            row=row,
            view=fold.view(row.key),
            naming=fold.naming(row.key),
            offsets=PartitionOffsets(
                log_start=row.log_start_offset, high_watermark=end, last_stable=end
            ),
            lineage=tuple(
                LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in self._lineage
            ),
            limits=LIMITS,
            fingerprint=fingerprint,
            now_ms=100 * HOUR_MS,
            whole=row.named_ids,
            present=row.named_ids,
        )

    def take(self, event: Event) -> None:
        """Let brokers read an event; raises Violation if they lose an offset by it."""
        before = self._cache.all_found(self._lineage, self._offsets)
        self._events.append(event)
        self._cache.apply(event)
        after = self._cache.all_found(self._lineage, self._offsets)
        if lost := sorted(before.keys() - after.keys()):
            raise Violation(f"{self._partition}: {event} would lose offsets {lost}")

    def ensure_published(self) -> None:
        """Raise Violation unless look-ups find live segments alone, over all their offsets."""
        found = self._cache.all_found(self._lineage, self._offsets)
        for segment in self._row.segments:
            for offset in range(segment.start_offset, segment.end_offset + 1):
                serving = found.get(offset)
                if serving is None or serving.segment_id not in self._row.live_ids:
                    raise Violation(
                        f"{self._partition}: offset {offset} is served by {serving}, and"
                        f" {segment.segment_id} is live"
                    )


def _events_of(row: PartitionState, upload: Upload, held: Held | None) -> Iterator[Event]:
    """What its broker said of an upload."""
    start, end = upload.start_offset, upload.end_offset
    lineage = tuple(
        LeaderEpoch(epoch=epoch, start_offset=first)
        for epoch, first in upload.log.lineage_to(end)
    )
    yield SegmentAdded(
        key=row.key,
        segment_id=upload.segment_id,
        start_offset=start,
        end_offset=end,
        broker_id=1,
        max_timestamp_ms=max(batch.at_ms for batch in upload.batches),
        event_timestamp_ms=0,
        leader_epochs=epochs_in(lineage, start, end),
        size_bytes=len(upload.parts["log"]),
        custom_metadata=None,
        is_transaction_index_empty=True,
    )
    states = (LISTED, GONE) if held is None else (FINISHED,) if held.is_complete else ()
    for state in states:
        yield SegmentUpdated(row.key, upload.segment_id, 1, 0, None, state)
