"""What a broker's log directory has of a partition.

Rule: Kafka `UnifiedLog`, `LogManager` (the checkpoints), `ProducerStateManager` (the last stable
offset).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSegment:
    """A rolled segment of a log directory."""

    start_offset: int
    end_offset: int
    """The last offset before the next segment; Kafka's cleaner may have removed its record."""
    size_bytes: int
    """Bytes of the `.log`."""
    max_timestamp_ms: int
    """As its time index has it, or else its file's time, in epoch milliseconds."""
    stray_snapshots: frozenset[int] | None = frozenset()
    """Offsets within it at which its broker left a snapshot, and no segment begins; None: any may
    be, because its bytes are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLog:
    """A partition of a log directory, as it was when its folder was listed."""

    key: PartitionKey
    rolled: tuple[LocalSegment, ...]
    """All segments but the active one, in offset order."""
    active_start_offset: int
    active_bytes: int
    lineage: tuple[LeaderEpoch, ...]
    """The leader epoch checkpoint."""
    recovery_point: int
    """What lies below is flushed; 0: no checkpoint says it."""
    high_watermark: int
    """What lies below is on all replicas in sync; 0: no checkpoint says it."""
    last_stable_offset: int
    """No transaction that was open when the active segment began has a record below it."""
    log_start_offset: int | None = None
    """Where consumers begin, as a checkpoint says it; None: at the first segment."""

    cleaner_offset: int = 0
    """What lies below its broker's cleaner has cleaned; 0: nothing."""

    @property
    def start_offset(self) -> int:
        """The first offset of the first segment."""
        return self.rolled[0].start_offset if self.rolled else self.active_start_offset

    def with_bytes_behind(self) -> Iterator[tuple[LocalSegment, int]]:
        """Each rolled segment, with the bytes of log behind it, those of the active one included.

        Retention and the copy lag by size compare these (`UnifiedLog`, `RemoteLogManager`).
        """
        behind_bytes = sum(one.size_bytes for one in self.rolled) + self.active_bytes
        for segment in self.rolled:
            behind_bytes -= segment.size_bytes
            yield segment, behind_bytes

    @property
    def is_tiered(self) -> bool:
        """Whether brokers tier the topic themselves.

        Of other topics, a broker notes a log start only if it lies above the first segment's
        (`LogManager.checkpointLogStartOffsetsInDir`).
        """
        noted = self.log_start_offset
        return noted is not None and noted <= self.start_offset


def bytes_from(sizes: Mapping[int, int], offset: int) -> int:
    """Bytes of the segments that may have offsets from `offset` on, the active one included.

    `sizes`: bytes of each `.log`, by its first offset. A segment that begins below counts whole, as
    it is uploaded whole.
    """
    starts = sorted(sizes)
    older = {start for start, following in pairwise(starts) if following <= offset}
    return sum(size_bytes for start, size_bytes in sizes.items() if start not in older)
