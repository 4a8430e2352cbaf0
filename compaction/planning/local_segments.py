"""What a new leader finds cleaned in the tier, and which of the brokers' local segments lie below.

As KIP-1272 describes it, the new leader takes the cleaner offset over from the leader epoch before
its own. It has the brokers' log. So where they answered, it counts where an epoch ends there, and
not in the tier: in a partition that is not refused both agree. Brokers are asked for the newest
epochs only, and answer without their starts; for the others the tier's lineage counts.

Brokers do not say where their local segments begin. But they upload whole ones, so each upload has
the borders of one, on the broker that uploaded it. Their metadata and the row name these, those
that a run replaced too, until `vacuum` deletes them. What is not uploaded yet does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.lineage import epoch_ends_of_brokers
from tierfold.compaction.model.cleaner_vectors import resolved_cleaner_offset
from tierfold.compaction.model.leader_epochs import are_within_lineage
from tierfold.compaction.model.segment_ids import is_own_id, is_uploaded_id
from tierfold.compaction.model.segments import (
    CleanerOffset,
    LeaderEpoch,
    PartitionState,
    uploads_of,
)
from tierfold.compaction.planning.local_copies import gone_before, local_ranges


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LocalCopy:
    """A local segment of a broker, as it was uploaded; whole, wherever the log begins."""

    start_offset: int
    end_offset: int
    """The last offset, inclusive."""
    size_bytes: int
    """Bytes of its `.log`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSegments:
    """What brokers can have locally of a log, beside what a new leader finds cleaned."""

    cleaner_offset: CleanerOffset | None
    """What the new leader takes over, and from which leader epoch; None: nothing that it has."""
    copies: tuple[LocalCopy, ...]
    """The segments that some broker can still have, by start offset; those of two leaders may
    overlap."""
    others_below: int | None
    """Below this offset they can have others, of which no upload is named any longer; None: none
    that are known of."""
    is_time_limited: bool
    """Whether brokers keep local copies for a time that is known. If not, all copies count."""

    @property
    def cleaned(self) -> tuple[LocalCopy, ...]:
        """Those that lie below the cleaner offset."""
        offset = 0 if self.cleaner_offset is None else self.cleaner_offset.offset
        return tuple(one for one in self.copies if one.end_offset < offset)


def local_segments(
    row: PartitionState, lineage: Sequence[LeaderEpoch], brokers: BrokerPartition, now_ms: int
) -> LocalSegments | None:
    """What brokers can have locally at `now_ms` (epoch milliseconds).

    None: they do not serve the row, or do not say its offsets. `lineage`: the view's, or the row's
    where there is no view.
    """
    if not row.is_served or brokers.known_offsets is None:
        return None
    ends = epoch_ends_of_brokers(lineage, brokers.epoch_answers)
    begin = max(gone_before(row, local_ranges(row, brokers, now_ms), now_ms), brokers.log_start)
    newest = lineage[-1].epoch if lineage else -1

    def is_of_log(copy: LocalCopy, epochs: Sequence[LeaderEpoch]) -> bool:
        last = epochs[-1].epoch
        is_within = are_within_lineage(epochs, copy.end_offset, lineage)
        # What a newer leader uploads is not in the lineage yet.
        return last > newest or (is_within and copy.end_offset < ends.get(last, 0))

    uploads = (one for one in _uploads(row, brokers) if one[0].end_offset >= begin)
    copies = tuple(sorted({copy for copy, epochs in uploads if is_of_log(copy, epochs)}))
    known_from = copies[0].start_offset if copies else row.next_offset
    return LocalSegments(
        cleaner_offset=resolved_cleaner_offset(row, ends),
        copies=copies,
        others_below=known_from if begin < known_from else None,
        is_time_limited=brokers.local_retention_ms is not None,
    )


def _uploads(
    row: PartitionState, brokers: BrokerPartition
) -> Iterator[tuple[LocalCopy, Sequence[LeaderEpoch]]]:
    """What brokers uploaded, as their metadata or the row name it, with its leader epochs."""
    named = {}
    for one in uploads_of(row.named_segments):
        copy = LocalCopy(
            start_offset=one.own_start_offset, end_offset=one.end_offset, size_bytes=one.log_bytes
        )
        named[one.upload_id] = copy, one.leader_epochs
    for added, *_ in brokers.view.segments.values():
        copy = LocalCopy(
            start_offset=added.start_offset,
            end_offset=added.end_offset,
            size_bytes=added.size_bytes,
        )
        named[added.segment_id] = copy, added.leader_epochs
    for segment_id, found in named.items():
        if not is_own_id(segment_id) and not is_uploaded_id(segment_id):
            yield found
