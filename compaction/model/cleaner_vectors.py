"""The cleaner offset by leader epoch, as brokers are to find it (KIP-1272).

    leader_cleaner_offsets    the entries that a commit of a row writes
    with_vectors              where they go, the only such place
    resolved_cleaner_offset   what a leader with its own log takes over

In the KIP, brokers clean. Beside its leader epochs, `RemoteLogSegmentMetadata` gets a map from
leader epoch to cleaner offset, and a new leader looks up the epoch before its own
(`RemoteLogMetadataManager.cleanerOffsetCheckpointForEpoch`). No Kafka has that map yet, so it is in
the catalog's entry of a segment. Here runs clean: an entry says how far the log was clean while
that leader epoch was the newest in the tier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from tierfold.compaction.model.segments import (
    CleanerOffset,
    PartitionState,
    Segment,
)

CLEANER_OFFSETS_KEPT: Final = 64
"""The number of newest entries that a row or segment keeps of a cleaner offset vector.

Every run that commits adds one, and every new segment stores the whole vector, so it must not grow
without limit. Only the newest entry says what is clean, and a fence compares only the epoch.
"""


def leader_cleaner_offsets(row: PartitionState) -> tuple[CleanerOffset, ...]:
    """The row's cleaner offset by leader epoch, ascending; empty: nothing is clean.

    The newest leader epoch has the present one. Earlier entries are those of the segment that was
    added last. They stay, unless a restore has gone back below them, or the log lost the epoch.
    """
    offset = row.cleaner_offset
    if offset is None or not row.lineage:
        return ()
    present = CleanerOffset(epoch=row.lineage[-1].epoch, offset=offset)
    vectors = (segment.leader_cleaner_offsets for segment in row.named_segments)
    last = max(vectors, key=lambda vector: vector[-1:], default=())
    known = {entry.epoch for entry in row.lineage[:-1]}
    earlier = (
        replace(entry, offset=min(entry.offset, offset)) for entry in last if entry.epoch in known
    )
    return (*earlier, present)[-CLEANER_OFFSETS_KEPT:]


def with_vectors(segments: Iterable[Segment], row: PartitionState) -> list[Segment]:
    """The segments with both vectors of the row that adds them.

    Once brokers read one, it goes from here into what is published of the segments, too.
    """
    own, by_leader = row.cleaner_offsets, leader_cleaner_offsets(row)
    return [
        replace(segment, cleaner_offsets=own, leader_cleaner_offsets=by_leader)
        for segment in segments
    ]


def resolved_cleaner_offset(
    row: PartitionState, epoch_ends: Mapping[int, int]
) -> CleanerOffset | None:
    """How far a log with these leader epochs is clean in the tier; None: nothing that it has.

    `epoch_ends`: by leader epoch of the log, where the next one begins. The newest entry counts
    whose epoch the log has, but only as far as that epoch reaches in it: to there both are one log,
    and what follows may be another's (`LeaderEpochFileCache.endOffsetFor`, as for a truncation).
    """
    return next(
        (
            replace(entry, offset=min(entry.offset, epoch_ends[entry.epoch]))
            for entry in reversed(leader_cleaner_offsets(row))
            if entry.epoch in epoch_ends
        ),
        None,
    )
