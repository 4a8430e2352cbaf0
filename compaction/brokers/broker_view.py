"""What brokers have of one partition: its segments, and which of them a look-up finds.

Rule: Kafka `RemoteLogMetadataCache` and `RemoteLogLeaderEpochState`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from tierfold.compaction.brokers.events import METADATA_TOPIC, SegmentAdded, SegmentState
from tierfold.compaction.model.segments import PartitionKey


class BrokerSegment(NamedTuple):
    """A segment that brokers have, in whichever state."""

    added: SegmentAdded
    """The event that added it: its offsets, leader epochs and size."""
    state: SegmentState
    custom_metadata: bytes | None
    """What the last event noted."""
    since_ms: int
    """The timestamp of the last record that gave it this state, or repeated it."""


class Reference(NamedTuple):
    """A segment that look-ups find in a leader epoch, from an offset on."""

    start_offset: int
    segment_id: str


class ReadOnlyCause(StrEnum):
    """Why nothing may be published for a partition."""

    STOPS_BROKERS = "stops brokers"
    UNKNOWN_RECORD = "unknown record"
    UNKNOWN_FIELDS = "unknown fields"
    MISPLACED = "misplaced"
    KEYED = "keyed"


_MEANINGS: Final = {
    ReadOnlyCause.STOPS_BROKERS: "Brokers stop reading metadata there: they upload nothing more, "
    "and after a restart they know nothing of what follows. So tierfold publishes nothing for this "
    "partition. Do not restart a broker. Find out what wrote the record, and stop it. Deleting "
    "records there is no way out: it loses what came before, too.",
    ReadOnlyCause.UNKNOWN_RECORD: "This tierfold does not know what it means, so it publishes "
    "nothing for this partition. Update tierfold.",
    ReadOnlyCause.UNKNOWN_FIELDS: "A newer broker wrote them, and what tierfold publishes would "
    "lose them, so it publishes nothing for this partition. Update tierfold.",
    ReadOnlyCause.MISPLACED: "Some brokers may not read it, so nothing is published for this "
    "partition. Find out what wrote it, or if the metadata topic was given more partitions.",
    ReadOnlyCause.KEYED: "Once the metadata topic is compacted, records of one key replace each "
    "other, so nothing is published for this partition. Update tierfold.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnly:
    """Why nothing may be published for a partition: a record of the metadata topic."""

    cause: ReadOnlyCause
    metadata_partition: int
    offset: int
    """Of the first record with this cause."""
    why: str
    """What is wrong with it: a phrase that begins with a verb ("has a key")."""

    @property
    def finding(self) -> str:
        """What is wrong, and where: a sentence without its full stop."""
        place = f"{METADATA_TOPIC}-{self.metadata_partition}"
        return f"The record at offset {self.offset} of {place} {self.why}"

    @property
    def meaning(self) -> str:
        """What follows, and what to do."""
        return _MEANINGS[self.cause]

    def __str__(self) -> str:
        return f"{self.finding}. {self.meaning}"


class Naming(StrEnum):
    """Whether the metadata topic has named a segment: an update without its start does not."""

    NAMED = "named"
    NEVER_NAMED = "never named"
    ASKED_LATE = "asked late"
    """Not since it was asked about, and events before that are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """What brokers have of one partition after the records that were read."""

    key: PartitionKey
    segments: Mapping[str, BrokerSegment]
    """By id; those in `DELETE_FINISHED` are gone from it."""
    references: Mapping[int, tuple[Reference, ...]]
    """By leader epoch: what look-ups find, ascending by start offset."""
    unreferenced: Mapping[int, frozenset[str]]
    """By leader epoch: ids of segments that no look-up finds there, and that brokers list."""
    highest_offsets: Mapping[int, int]
    """By leader epoch: the highest offset of all segments that were ever finished in it. A segment
    that reaches it takes the place of all behind its start."""
    last_offset: int | None
    """The offset of its last record in the metadata topic; None: it has none."""
    last_timestamp_ms: int | None
    """The timestamp of that record."""
    read_only: tuple[ReadOnly, ...]
    """Why nothing may be published for the partition; empty: nothing is in the way."""

    @property
    def referenced_ids(self) -> frozenset[str]:
        """The ids of all segments that some look-up finds."""
        return frozenset(
            reference.segment_id
            for references in self.references.values()
            for reference in references
        )

    def in_state(self, state: SegmentState) -> tuple[BrokerSegment, ...]:
        """The segments in a state, by start offset; of the same start in the order of their ids."""
        found = (segment for segment in self.segments.values() if segment.state == state)
        return tuple(
            sorted(found, key=lambda found: (found.added.start_offset, found.added.segment_id))
        )

    def find(self, leader_epoch: int, offset: int) -> BrokerSegment | None:
        """The segment from which a broker reads an offset of a leader epoch; None: out of range."""
        references = self.references.get(leader_epoch, ())
        place = bisect_right(references, offset, key=lambda reference: reference.start_offset)
        if not place:
            return None
        segment = self.segments[references[place - 1].segment_id]
        ends = {entry.epoch: end_offset for entry, end_offset in segment.added.ranges()}
        return segment if offset <= ends[leader_epoch] else None
