"""What the records of `__remote_log_metadata` say: events of segments.

Rule: Kafka `RemoteLogSegmentMetadata`, `RemoteLogSegmentMetadataUpdate`, `RemoteLogSegmentState`.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, TypeAlias

from tierfold.compaction.model.leader_epochs import epoch_ranges
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey

METADATA_TOPIC: Final = "__remote_log_metadata"


class SegmentState(IntEnum):
    """A segment's state in brokers' metadata (Kafka `RemoteLogSegmentState`)."""

    COPY_STARTED = 0
    """Its upload began."""
    COPY_FINISHED = 1
    """It is whole: brokers read it."""
    DELETE_STARTED = 2
    """Brokers no longer read it; its objects may be deleted."""
    DELETE_FINISHED = 3
    """Its objects are deleted, and brokers forget it."""


class SegmentAdded(NamedTuple):
    """A segment enters the metadata, always in `COPY_STARTED` (api 0).

    A named tuple, as millions are made: a frozen dataclass takes four times as long.
    """

    key: PartitionKey
    segment_id: str
    start_offset: int
    end_offset: int
    """The last offset, inclusive."""
    broker_id: int
    max_timestamp_ms: int
    """The largest timestamp of its records; −1: it has none."""
    event_timestamp_ms: int
    leader_epochs: tuple[LeaderEpoch, ...]
    """Each epoch once, ascending, with its first offset in the segment; never empty."""
    size_bytes: int
    """Bytes of its `.log`."""
    custom_metadata: bytes | None
    """What the remote storage plugin noted of it; None: nothing."""
    is_transaction_index_empty: bool
    has_unknown_fields: bool = False
    """Whether the message has tagged fields that are not known here."""

    def ranges(self) -> list[tuple[LeaderEpoch, int]]:
        """Its leader epochs, each with its last offset in the segment, inclusive."""
        return epoch_ranges(self.leader_epochs, self.end_offset)


class SegmentUpdated(NamedTuple):
    """A segment changes its state (api 1)."""

    key: PartitionKey
    segment_id: str
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None
    """Replaces what was noted before, also if it is None."""
    state: SegmentState
    has_unknown_fields: bool = False


class Effect(StrEnum):
    """What a value that is no event does to the brokers that read it."""

    STOPS_BROKERS = "stops brokers"
    """Their metadata consumer ends with an error."""
    IGNORED = "ignored"
    """They skip it: it names a partition that cannot exist."""
    UNKNOWN = "unknown"
    """It is of a version or a kind that is not known here."""


class NoEvent(NamedTuple):
    """A value that cannot be read as an event."""

    effect: Effect
    why: str
    """What is wrong with the record: a phrase that begins with a verb ("has frame version 2")."""


Event: TypeAlias = SegmentAdded | SegmentUpdated
