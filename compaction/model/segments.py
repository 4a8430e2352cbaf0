"""A partition, its segments, and the catalog's row that lists the live ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionKey:
    """A topic-partition of one incarnation of a topic (a recreated topic has another id)."""

    topic: str
    partition: int
    topic_id: str
    """22 characters of url-safe base64, as Kafka prints a `Uuid`."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LeaderEpoch:
    """A leader epoch and the first offset written under it (Kafka `EpochEntry`)."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CleanerOffset:
    """Under compaction epoch `epoch`, everything below `offset` was clean (KIP-1272)."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A remote segment as the catalog names it; everything planning needs without opening it."""

    segment_id: str
    """22 characters of url-safe base64."""
    start_offset: int
    """The effective start: the first offset that it gives to the log."""
    end_offset: int
    """The last offset, inclusive, as Kafka's `RemoteLogSegmentMetadata` has it."""
    size_bytes: int
    """Bytes of the `.log` from the effective start on."""
    offset_index_bytes: int
    time_index_bytes: int
    max_timestamp_ms: int
    leader_epochs: tuple[LeaderEpoch, ...]
    """Per epoch its lowest offset in this segment's range."""
    has_transaction_index: bool
    first_timestamp_ms: int
    """The first batch's max timestamp, which KIP-354 takes as a segment's earliest."""
    earliest_due_ms: int | None = None
    """The earliest delete horizon of a tombstone or marker in it; None: none is set, or a broker
    wrote it."""
    cleaner_offsets: tuple[CleanerOffset, ...] = ()
    written_by_run: str = ""
    """The run that wrote it; empty: a broker."""
    skipped_offsets: int = 0
    """How many offsets at its head the log takes from the segments before it. After a change of
    leader, uploads overlap."""
    skipped_bytes: int = 0
    """Bytes of the `.log` below the effective start."""
    agrees_with: tuple[str, ...] = ()
    """Ids of the segments that were found to hold the same batches where they share offsets."""

    @property
    def next_offset(self) -> int:
        """The first offset beyond the segment."""
        return self.end_offset + 1

    @property
    def own_start_offset(self) -> int:
        """The first offset of its own range, which its objects' names and indexes carry."""
        return self.start_offset - self.skipped_offsets

    @property
    def log_bytes(self) -> int:
        """Bytes of the whole `.log` object."""
        return self.size_bytes + self.skipped_bytes

    def is_due(self, now_ms: int) -> bool:
        """Whether a delete horizon in it has passed."""
        return self.earliest_due_ms is not None and self.earliest_due_ms <= now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredSegment:
    """A segment that left the log; its objects stay until `vacuum` deletes them."""

    segment: Segment
    retired_at_ms: int
    retired_by_epoch: int
    retired_by_run: str
    deletion_started_at_ms: int | None = None
    """From then on its objects are deleted and it is never live again (Kafka
    `DELETE_SEGMENT_STARTED`); None: it is whole, and may be restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One row of the catalog's `partitions` table: one atomic state of one partition."""

    key: PartitionKey
    epoch: int
    """The compaction epoch: who may write. 0: never claimed."""
    owner_run: str
    """The run that holds the epoch; empty once that run is done."""
    cleaner_offsets: tuple[CleanerOffset, ...]
    log_start_offset: int
    segments: tuple[Segment, ...]
    """The live segments in offset order, contiguous."""
    lineage: tuple[LeaderEpoch, ...]
    """The partition's leader epochs, from the newest segment's checkpoint."""
    retired: tuple[RetiredSegment, ...] = field(default=())
    commit_id: str = ""
    """Changes with every commit; a conditional update names the one it read."""
    committed_at_ms: int = 0
    strategies: tuple[str, ...] = ()
    """The strategies it was compacted under, each once, the latest one last; empty: `offset` alone,
    if any."""
    forgotten: tuple[str, ...] = ()
    """Ids of segments whose loss a person accepted with `tierfold forget`; only in a forgotten
    row."""

    @property
    def is_forgotten(self) -> bool:
        """`tierfold forget` emptied the row; its epoch stays, as a fence.

        A row whose segments have all expired still has a log start offset.
        """
        return not (self.segments or self.lineage or self.retired or self.log_start_offset)

    def emptied(self, consent: Iterable[str]) -> PartitionState:
        """The row without anything about the log.

        Args:
            consent: ids of the segments whose loss a person accepted.
        """
        return replace(
            self,
            segments=(),
            lineage=(),
            retired=(),
            cleaner_offsets=(),
            strategies=(),
            log_start_offset=0,
            forgotten=tuple(sorted(consent)),
        )

    @property
    def live_bytes(self) -> int:
        """Bytes of all live `.log`s."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def whole_retired(self) -> tuple[RetiredSegment, ...]:
        """The retired segments whose deletion has not started."""
        return tuple(entry for entry in self.retired if entry.deletion_started_at_ms is None)

    @property
    def next_offset(self) -> int:
        """The first offset beyond the live range; the log start where no segment is live."""
        return self.segments[-1].next_offset if self.segments else self.log_start_offset

    @property
    def cleaner_offset(self) -> int | None:
        """The newest epoch's cleaner offset, None before the first commit."""
        return max(self.cleaner_offsets).offset if self.cleaner_offsets else None
