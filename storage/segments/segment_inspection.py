"""Reads the end offset and the leader epochs of an unknown segment.

Of a complete segment `segment_metadata` reads them. If a part is missing (an upload or a copy was
cut short), the whole `.log` is read and its checksums are compared: it may hold offsets that no
other segment has. Where a layout cannot read it without the missing part, its end stays unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tierfold.compaction.discovery.candidates import Candidate, EndFrom, EpochStretch
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.ownership import OF_PARTITION, Ownership, doubtful
from tierfold.compaction.model.errors import CorruptLog, TierfoldError
from tierfold.compaction.model.segment_ids import is_uploaded_id, maker_of
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey
from tierfold.storage.segments.segment_metadata import (
    last_offset_seen,
    listed_checkpoint,
    read_segment_metadata,
)
from tierfold.storage.tiers.remote_tier import RemoteTier, address_of

if TYPE_CHECKING:
    from tierfold.storage.kafka.batch_headers import BatchHeads


def inspected(
    tier: RemoteTier,
    key: PartitionKey,
    listed: ListedSegment,
    batch_bytes_max: int = 0,
    *,
    is_named: bool = False,
    fingerprint: int | None = None,
) -> Candidate:
    """The candidate with its end offset and leader epochs, if they can be read.

    Whose it is comes first: of what may be another cluster's nothing else is read. An error is its
    `corruption`. The checkpoint is read next: it shows another history even if the log is corrupt.
    `batch_bytes_max`: what a wrapper may take, see `compression.plain_bytes_max`. `is_named`:
    brokers name it as this partition's, which counts if its objects do not say it. `fingerprint`:
    the catalog's; None: there is none yet.
    """
    owner = ownership_of(tier, key, listed)
    found = Candidate(
        listed=listed,
        ownership=OF_PARTITION if is_named and owner.is_silent else owner,
        maker=maker_of(listed.segment_id, fingerprint),
    )
    if found.is_doubtful or not listed.has_log:
        return found
    is_of_directory = is_uploaded_id(listed.segment_id)
    if not listed.is_complete and (is_of_directory or not tier.reads_incomplete):
        return replace(found, is_own_unfinished=found.is_own or is_of_directory)
    try:
        found = replace(found, checkpoint=listed_checkpoint(tier, key, listed))
        if not listed.is_complete:
            return _incomplete(tier, key, found, batch_bytes_max)
        read = read_segment_metadata(tier, key, listed, found.checkpoint)
        recorded = tier.recorded_end(address_of(key, listed))
        return replace(
            found,
            segment=read.segment,
            end_offset=read.segment.end_offset,
            end_from=EndFrom.LAST_BATCH if recorded is None else EndFrom.MANIFEST,
            index_corruptions=read.index_corruptions,
        )
    except TierfoldError as error:
        seen_offset = last_offset_seen(tier, key, listed)
        return replace(
            found,
            corruption=f"{error.where}: {error.what}",
            remedy=error.remedy,
            is_unopened=not isinstance(error, CorruptLog),
            seen_offset=seen_offset,
        )


def ownership_of(tier: RemoteTier, key: PartitionKey, listed: ListedSegment) -> Ownership:
    """Whose a segment is that no row names; in doubt if that cannot be read."""
    try:
        return tier.ownership(key, listed)
    except TierfoldError as error:
        return doubtful(str(error))


def _incomplete(
    tier: RemoteTier, key: PartitionKey, found: Candidate, batch_bytes_max: int
) -> Candidate:
    # Imports numba. Most segments are complete, and `status` and `plan` start without it.
    from tierfold.storage.kafka.batch_headers import joined_heads  # noqa: PLC0415
    from tierfold.storage.segments.log_windows import nonempty_windows, whole_log  # noqa: PLC0415

    listed = found.listed
    log = whole_log(tier, key, listed, batch_bytes_max)
    heads = joined_heads([window.checked().heads for window in nonempty_windows(log)])
    if heads.base_offset[0] < listed.start_offset:
        raise CorruptLog(
            f"the first batch begins at offset {heads.base_offset[0]}, below the segment's start"
            f" {listed.start_offset}",
            where=log.where,
            remedy="`tierfold dump` shows its batches. Restore its objects from a copy, or move"
            " them out of the tier and keep them.",
        )
    return replace(
        found,
        end_offset=int(heads.last_offset[-1]),
        stretches=() if found.checkpoint else epoch_stretches(heads),
    )


def batches_fit(
    tier: RemoteTier,
    key: PartitionKey,
    listed: ListedSegment,
    lineage: Sequence[LeaderEpoch],
    batch_bytes_max: int = 0,
) -> bool:
    """Whether the segment's batches have the leader epochs of `lineage`; ignores its checkpoint.

    The whole `.log` is read; `batch_bytes_max` as of `inspected`. Raises CorruptLog and
    UnreadableObject.
    """
    return _incomplete(tier, key, Candidate(listed=listed), batch_bytes_max).fits(lineage)


def epoch_stretches(heads: BatchHeads) -> tuple[EpochStretch, ...]:
    """The leader epochs of a log's batches; neighbours of one epoch form one stretch."""
    starts = np.flatnonzero(np.diff(heads.leader_epoch, prepend=heads.leader_epoch[0] - 1))
    ends = np.append(starts[1:], len(heads)) - 1
    return tuple(
        EpochStretch(
            epoch=int(heads.leader_epoch[first]),
            first_offset=int(heads.base_offset[first]),
            last_offset=int(heads.base_offset[last]),
        )
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True)
    )
