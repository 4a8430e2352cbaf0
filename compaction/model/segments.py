"""A partition, its segments, and the catalog's row that lists the live ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain

from tierfold.compaction.model.origins import UPLOADED, Compacted, Copied, Origin, Uploaded
from tierfold.compaction.model.segment_ids import is_uploaded_id
from tierfold.compaction.model.serving import (
    Consent,
    ConsentKind,
    LocalRange,
    Pass,
    ServingCluster,
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionKey:
    """A topic-partition of one topic id; a topic that is created again has another id."""

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
    """Everything below `offset` was clean under epoch `epoch` (KIP-1272).

    Of a row's own vector that is a compaction epoch.
    """

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A remote segment as the catalog describes it: all that planning needs."""

    segment_id: str
    """22 characters of url-safe base64."""
    start_offset: int
    """The effective start: the first offset that it gives to the log."""
    end_offset: int
    """The last offset, inclusive, as in Kafka's `RemoteLogSegmentMetadata`."""
    size_bytes: int
    """Bytes of the `.log` from the effective start on."""
    offset_index_bytes: int
    time_index_bytes: int
    max_timestamp_ms: int
    leader_epochs: tuple[LeaderEpoch, ...]
    """Each epoch with its lowest offset in this segment's range."""
    has_transaction_index: bool
    first_timestamp_ms: int
    """The first batch's max timestamp; KIP-354 treats it as the segment's earliest."""
    earliest_due_ms: int | None = None
    """The earliest delete horizon of a tombstone or marker in it; None: none is set, or a broker
    wrote the segment."""
    cleaner_offsets: tuple[CleanerOffset, ...] = ()
    leader_cleaner_offsets: tuple[CleanerOffset, ...] = ()
    """By leader epoch (`model.cleaner_vectors`)."""
    origin: Origin = UPLOADED
    skipped_offsets: int = 0
    """The number of offsets at its head that earlier segments give to the log: uploads overlap
    after a change of leader."""
    skipped_bytes: int = 0
    """Bytes of the `.log` below the effective start."""
    agrees_with: tuple[str, ...] = ()
    """Ids of segments that share offsets with it and hold the same batches there."""
    stored_log_bytes: int | None = None
    """Bytes of the object with its `.log`, which a layout may store encoded; None: `log_bytes`."""
    stored_indexes_bytes: int | None = None
    """Bytes of the one object with all its indexes; None: each is an object of its own."""
    kept_for_producer_ms: int | None = None
    """The latest last timestamp of a producer for which a batch without records stays in it, until
    that producer expires; None: there is none, or a broker wrote the segment."""
    records_max_timestamp_ms: int | None = None
    """The largest timestamp of its records, control records included, without batches that are
    empty; −1: it has none. None: it is not known, and `max_timestamp_ms` counts."""

    @property
    def next_offset(self) -> int:
        """The first offset after the segment."""
        return self.end_offset + 1

    @property
    def own_start_offset(self) -> int:
        """The first offset of its `.log`, which its objects' names and indexes use."""
        return self.start_offset - self.skipped_offsets

    @property
    def log_bytes(self) -> int:
        """Bytes of the whole `.log` object."""
        return self.size_bytes + self.skipped_bytes

    @property
    def written_by_run(self) -> str:
        """The run that wrote its objects; empty: a broker."""
        return "" if isinstance(self.origin, Uploaded) else self.origin.run

    @property
    def copy_of(self) -> str:
        """The id of the segment whose bytes it has; empty: it is no copy."""
        return self.origin.copy_of if isinstance(self.origin, Copied) else ""

    @property
    def copied_upload(self) -> str:
        """Of a copy, the `upload_id`; else empty, as it follows from the rest."""
        return self.origin.upload if isinstance(self.origin, Copied) else ""

    @property
    def first_id(self) -> str:
        """The id under which its bytes were first written: its own, unless it is a copy."""
        return self.copy_of or self.segment_id

    def copied(self, segment_id: str, run: str) -> Segment:
        """Its copy under that id, which `run` writes."""
        origin = Copied(run=run, copy_of=self.first_id, upload=self.upload_id)
        return replace(self, segment_id=segment_id, origin=origin)

    @property
    def upload_id(self) -> str:
        """The id under which a broker uploaded its bytes; empty: a run compacted them."""
        match self.origin:
            case Uploaded():
                return self.segment_id
            case Compacted():
                return ""
            case Copied(upload=upload):
                return upload

    @property
    def is_upload(self) -> bool:
        """Whether its bytes are as a broker uploaded them: no run has removed a record."""
        return bool(self.upload_id)

    @property
    def is_evidence(self) -> bool:
        """Whether it has every batch of its offsets, so that other uploads must have the same.

        What tierfold wrote has fewer, and what is uploaded of a log directory may: its broker may
        have compacted the log.
        """
        return self.is_upload and not is_uploaded_id(self.segment_id)

    @property
    def is_named_by_brokers(self) -> bool:
        """Whether brokers may have it in their metadata: they name what they uploaded."""
        return isinstance(self.origin, Uploaded)

    def is_due(self, now_ms: int) -> bool:
        """Whether a delete horizon in the segment has passed."""
        return self.earliest_due_ms is not None and self.earliest_due_ms <= now_ms


def uploads_of(known: Iterable[Segment]) -> list[Segment]:
    """The segments with bytes that brokers uploaded, in offset order.

    Of several copies of one upload only the last in `known`.
    """
    last = {segment.upload_id: segment for segment in known if segment.is_upload}
    return sorted(last.values(), key=lambda segment: segment.start_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredSegment:
    """A segment that left the log; its objects stay until `vacuum` deletes them."""

    segment: Segment
    retired_at_ms: int
    retired_by_epoch: int
    retired_by_run: str
    deletion_started_at_ms: int | None = None
    """When the deletion of its objects started, after which it is never live again (Kafka
    `DELETE_SEGMENT_STARTED`); None: it is whole and may be restored."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Hole:
    """Offsets at a segment's end that have no batch; both ends inclusive.

    Kafka's cleaner leaves such holes. The segment's range covers them.
    """

    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        if self.start_offset == self.end_offset:
            return f"offset {self.start_offset}"
        return f"offsets {self.start_offset} to {self.end_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparedBytes:
    """What rounds left in one live segment; see `model.spared_bytes`."""

    segment_id: str
    superseded_bytes: int
    """An upper bound of the stored bytes of superseded records since it was written; above 0."""
    since_offset: int
    """Records from here on superseded them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A row of the catalog's `partitions` table: the state of one partition."""

    key: PartitionKey
    epoch: int
    """The compaction epoch; 0: never claimed."""
    owner_run: str
    """The run that claimed the partition; empty: the claim is released."""
    cleaner_offsets: tuple[CleanerOffset, ...]
    log_start_offset: int
    segments: tuple[Segment, ...]
    """The live segments in offset order, contiguous."""
    lineage: tuple[LeaderEpoch, ...]
    """The partition's leader epochs, from the newest segment's checkpoint."""
    retired: tuple[RetiredSegment, ...] = field(default=())
    commit_id: str = ""
    """Changes with every commit; a conditional update names the id that it read."""
    committed_at_ms: int = 0
    strategies: tuple[str, ...] = ()
    """The strategies of its rounds, each once, the latest last; empty: `offset`, or no round."""
    spared: tuple[SparedBytes, ...] = ()
    """The live segments in which rounds left superseded records, in offset order."""
    forgotten: tuple[str, ...] = ()
    """In a forgotten row, ids of segments whose loss a person accepted."""
    holes: tuple[Hole, ...] = ()
    """Offsets between two segments that were taken for holes: a person said that no segment is
    missing there, or a manifest did. In offset order."""
    served_by: tuple[ServingCluster, ...] = ()
    """The cluster whose brokers serve the partition; empty: none that the catalog knows of."""
    passes: tuple[Pass, ...] = ()
    """The passes from which delete horizons count, by epoch (`model.passes`)."""
    local_ranges: tuple[LocalRange, ...] = ()
    """Until when brokers can have had local copies, in offset order from the log start on."""
    local_retention_ms: int | None = None
    """The topic's `local.retention.ms` when last seen; None: never seen."""
    consents: tuple[Consent, ...] = ()
    """In the order in which they were given."""
    has_dropped: bool = False
    """Whether a round removed a tombstone or marker. True of every row that an older tierfold
    wrote, because it did not note it."""

    @property
    def cluster(self) -> ServingCluster | None:
        """The cluster whose brokers serve the partition; None: none that the catalog knows of."""
        return self.served_by[0] if self.served_by else None

    @property
    def is_served(self) -> bool:
        """Whether brokers serve it, as far as the row knows, and no person has said otherwise."""
        is_abandoned = any(consent.kind == ConsentKind.DETACHED for consent in self.consents)
        return bool(self.served_by) and not is_abandoned

    @property
    def rebuilt_at_ms(self) -> int:
        """When its lost metadata were last named again, epoch milliseconds; -1: never.

        What the topic named before that is no longer known.
        """
        given = (one.given_at_ms for one in self.consents if one.kind == ConsentKind.REBUILT)
        return max(given, default=-1)

    def knows_names_of(self, entry: RetiredSegment, log_start: int) -> bool:
        """Whether the metadata topic says all of a retired segment that brokers may still read.

        What was retired before a rebuild, a lost topic may have named. Below the brokers' log start
        nothing is read.
        """
        is_below = entry.segment.end_offset < log_start
        return is_below or entry.retired_at_ms > self.rebuilt_at_ms

    @property
    def left_alone_ids(self) -> frozenset[str]:
        """Ids of segments that a person says to leave alone: never read, never deleted.

        Not of those that it names all the same, because a later `forget` took them over.
        """
        given = (one.segment_ids for one in self.consents if one.kind == ConsentKind.LEFT_ALONE)
        return frozenset(chain.from_iterable(given)) - self.named_ids

    @property
    def is_forgotten(self) -> bool:
        """Whether `tierfold forget` emptied the row; its epoch still fences older runs.

        A row whose segments have all expired still has a log start offset.
        """
        return not (self.segments or self.lineage or self.retired or self.log_start_offset)

    def emptied(self, consent: Iterable[str]) -> PartitionState:
        """The row without its log; `consent`: ids of segments whose loss a person accepted.

        What it says of its cluster stays: brokers serve the partition as before.
        """
        return replace(
            self,
            segments=(),
            lineage=(),
            retired=(),
            cleaner_offsets=(),
            strategies=(),
            spared=(),
            log_start_offset=0,
            holes=(),
            passes=(),
            local_ranges=(),
            forgotten=tuple(sorted(consent)),
        )

    def with_live_notes(self) -> PartitionState:
        """The row without what it notes of segments and offsets that are no longer live."""
        live = {segment.segment_id: place for place, segment in enumerate(self.segments)}
        of_live = (note for note in self.spared if note.segment_id in live)
        # Offsets beyond the end were truncated: what comes there now, brokers got later.
        within = (note for note in self.local_ranges if note.end_offset < self.next_offset)
        return replace(
            self,
            spared=tuple(sorted(of_live, key=lambda note: live[note.segment_id])),
            local_ranges=tuple(within),
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
    def named_segments(self) -> tuple[Segment, ...]:
        """All segments that the row names, live and retired."""
        return (*self.segments, *(entry.segment for entry in self.retired))

    @property
    def live_ids(self) -> frozenset[str]:
        """The ids of the live segments."""
        return frozenset(segment.segment_id for segment in self.segments)

    @property
    def retired_ids(self) -> frozenset[str]:
        """The ids of the retired segments."""
        return frozenset(entry.segment.segment_id for entry in self.retired)

    @property
    def named_ids(self) -> frozenset[str]:
        """The ids of all segments that the row names."""
        return self.live_ids | self.retired_ids

    @property
    def whole_retired_ids(self) -> frozenset[str]:
        """The ids of the retired segments whose deletion has not started."""
        return frozenset(entry.segment.segment_id for entry in self.whole_retired)

    @property
    def marked_ids(self) -> frozenset[str]:
        """The ids of the retired segments whose deletion has started."""
        return self.retired_ids - self.whole_retired_ids

    @property
    def next_offset(self) -> int:
        """The first offset after the live range; the log start if no segment is live."""
        return self.segments[-1].next_offset if self.segments else self.log_start_offset

    @property
    def cleaner_offset(self) -> int | None:
        """The newest epoch's cleaner offset; None: no round was committed."""
        return max(self.cleaner_offsets).offset if self.cleaner_offsets else None
