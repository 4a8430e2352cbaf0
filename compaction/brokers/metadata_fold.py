"""Folds the records of `__remote_log_metadata` to a view of each partition, as brokers do.

    fold = MetadataFold(partition_count=50, wanted=keys)
    fold.ask(key, listed_ids)
    fold.apply(records)           # and again, from `fold.next_offset(metadata_partition)` on
    fold.view(key)

Memory grows with the segments that exist: one whose deletion has finished leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from tierfold.compaction.brokers.broker_view import BrokerView, Naming, ReadOnly, ReadOnlyCause
from tierfold.compaction.brokers.event_bytes import decode
from tierfold.compaction.brokers.events import Effect, Event, NoEvent
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.brokers.partition_fold import PartitionFold, Taken
from tierfold.compaction.model.segments import PartitionKey

_Reasons: TypeAlias = dict[ReadOnlyCause, ReadOnly]


class MetadataRecord(NamedTuple):
    """A record of `__remote_log_metadata`."""

    metadata_partition: int
    offset: int
    timestamp_ms: int
    """The record's own, epoch milliseconds."""
    value: bytes | None
    key: bytes | None


_CAUSES: Final = {
    Effect.STOPS_BROKERS: ReadOnlyCause.STOPS_BROKERS,
    Effect.UNKNOWN: ReadOnlyCause.UNKNOWN_RECORD,
}
"""Why a record that is no event makes partitions read-only; one that brokers skip does not."""


class MetadataFold:
    """The views of partitions, as far as the metadata topic was read."""

    def __init__(
        self, partition_count: int, wanted: Iterable[PartitionKey] | None = None
    ) -> None:
        """`partition_count`: of the metadata topic. `wanted`: None: every partition it names."""
        self._partition_count = partition_count
        self._folds_all = wanted is None
        self._named = {key: self._named_partition(key) for key in wanted or ()}
        self._next_offsets: dict[int, int] = {}
        self._read_only: dict[int, _Reasons] = {}
        """Of all user partitions of a metadata partition."""

    def ask(self, key: PartitionKey, segment_ids: Iterable[str]) -> None:
        """Ask if the topic ever names these segments, such as all of a complete listing.

        To be called before `apply`, if the answer is to hold for the whole topic. Raises KeyError
        if the partition was not wanted.
        """
        named = self._named[key] = self._of(key)
        for segment_id in segment_ids:
            named.asked.setdefault(segment_id, named.naming_of(segment_id))

    def ask_new(self, key: PartitionKey, segment_ids: Iterable[str]) -> None:
        """Ask the same of segments that were made since the first record was folded.

        No record can have named one before its id was drawn, so none that is forgotten has. Raises
        as `ask`.
        """
        named = self._named[key] = self._of(key)
        for segment_id in segment_ids:
            is_named = segment_id in named.fold.segments
            naming = Naming.NAMED if is_named else Naming.NEVER_NAMED
            named.asked.setdefault(segment_id, naming)

    def apply(self, records: Iterable[MetadataRecord]) -> None:
        """Fold records; those of one metadata partition in offset order.

        Raises ValueError if one does not lie beyond the last one of its metadata partition.
        """
        next_offsets = self._next_offsets
        for record in records:
            number, offset, _, value, key = record
            if offset < next_offsets.get(number, 0):
                raise ValueError(
                    f"offset {offset} of metadata partition {number} comes after"
                    f" offset {next_offsets[number] - 1}"
                )
            next_offsets[number] = offset + 1
            if key is not None:
                self._note(record, ReadOnlyCause.KEYED, "has a key")
            event = decode(value)
            if isinstance(event, NoEvent):
                if event.effect in _CAUSES:
                    self._note(record, _CAUSES[event.effect], event.why)
            else:
                self._apply_event(record, event)

    def next_offset(self, metadata_partition: int) -> int:
        """The offset from which on the next reading of a metadata partition goes on."""
        return self._next_offsets.get(metadata_partition, 0)

    def partitions(self) -> tuple[PartitionKey, ...]:
        """The partitions that were wanted, or else named or asked about, in order."""
        return tuple(sorted(self._named))

    def has_any(self, key: PartitionKey) -> bool:
        """Whether brokers have a segment of a partition, in any state; raises as `view`."""
        return bool(self._of(key).fold.segments)

    def view(self, key: PartitionKey) -> BrokerView:
        """What brokers have of a partition; raises KeyError if it was not wanted."""
        named = self._of(key)
        shared = self._read_only.get(named.metadata_partition, {})
        return BrokerView(
            key=key,
            segments=dict(named.fold.segments),
            references=named.fold.references(),
            unreferenced=named.fold.unreferenced(),
            highest_offsets=named.fold.highest_offsets(),
            last_offset=named.last_offset,
            last_timestamp_ms=named.last_timestamp_ms,
            read_only=(*shared.values(), *named.read_only.values()),
        )

    def naming(self, key: PartitionKey) -> Mapping[str, Naming]:
        """What is known now of each segment that was asked about, by id."""
        return dict(self._of(key).asked)

    def _of(self, key: PartitionKey) -> _NamedPartition:
        """What is known of a partition; of a new one, nothing yet."""
        if key not in self._named and self._folds_all:
            return self._named_partition(key)
        return self._named[key]

    def _named_partition(self, key: PartitionKey) -> _NamedPartition:
        return _NamedPartition(metadata_partition(key, self._partition_count))

    def _apply_event(self, record: MetadataRecord, event: Event) -> None:
        named = self._named.get(event.key)
        if named is None:
            if not self._folds_all:
                return
            named = self._named[event.key] = self._named_partition(event.key)
        if record.metadata_partition != named.metadata_partition:
            why = f"belongs to metadata partition {named.metadata_partition}"
            _note_in(named.read_only, record, ReadOnlyCause.MISPLACED, why)
        if event.has_unknown_fields:
            why = f"has fields of segment {event.segment_id} that are not known here"
            _note_in(named.read_only, record, ReadOnlyCause.UNKNOWN_FIELDS, why)
        if named.apply(record, event) == Taken.STOPS_BROKERS:
            why = f"starts segment {event.segment_id} once more by an update"
            self._note(record, ReadOnlyCause.STOPS_BROKERS, why)

    def _note(self, record: MetadataRecord, cause: ReadOnlyCause, why: str) -> None:
        reasons = self._read_only.setdefault(record.metadata_partition, {})
        _note_in(reasons, record, cause, why)


class _NamedPartition:
    """One partition, and what is noted of its records."""

    def __init__(self, metadata_partition: int) -> None:
        self.metadata_partition = metadata_partition
        self.fold = PartitionFold()
        self.asked: dict[str, Naming] = {}
        self.read_only: _Reasons = {}
        self.last_offset: int | None = None
        self.last_timestamp_ms: int | None = None
        self._has_forgotten = False
        """Whether a segment was named that is gone, and that was not asked about."""

    def naming_of(self, segment_id: str) -> Naming:
        """What is known of a segment that was not asked about."""
        if segment_id in self.fold.segments:
            return Naming.NAMED
        return Naming.ASKED_LATE if self._has_forgotten else Naming.NEVER_NAMED

    def apply(self, record: MetadataRecord, event: Event) -> Taken:
        """Fold an event."""
        self.last_offset, self.last_timestamp_ms = record.offset, record.timestamp_ms
        taken = self.fold.apply(event, record.timestamp_ms)
        segment_id = event.segment_id
        if taken is Taken.DROPPED and segment_id not in self.fold.segments:
            return taken  # Its start is lost, so brokers do not have it; or it is gone, as noted.
        if segment_id in self.asked:
            self.asked[segment_id] = Naming.NAMED
        elif segment_id not in self.fold.segments:
            self._has_forgotten = True
        return taken


def _note_in(
    reasons: _Reasons, record: MetadataRecord, cause: ReadOnlyCause, why: str
) -> None:
    """Note why a partition is read-only; only the first record of each cause."""
    if cause not in reasons:
        reasons[cause] = ReadOnly(
            cause=cause,
            metadata_partition=record.metadata_partition,
            offset=record.offset,
            why=why,
        )
