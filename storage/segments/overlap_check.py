"""Checks that overlapping segments hold the same batches, and finds each effective start.

Two leaders of one lineage have the same bytes at the same offsets. So the batches of a shared
stretch must agree in base offset, last offset and checksum. If they do not, one segment is no
upload of this log, but for example a compacted copy beside its originals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tierfold.compaction.discovery.overlaps import Chain, Comparison, Cut, OverlapProof
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.model.units import NO_TIMESTAMP_MS
from tierfold.storage.tiers.remote_tier import RemoteTier

if TYPE_CHECKING:
    from tierfold.storage.kafka.batch_headers import BatchHeads


def prove_overlaps(
    tier: RemoteTier,
    key: PartitionKey,
    chain: Chain,
    comparisons: Sequence[Comparison],
    batch_bytes_max: int = 0,
) -> OverlapProof:
    """Compare the shared stretches batch by batch, and find the effective starts of cut segments.

    Only overlapping segments are read, each once, with every checksum compared. `batch_bytes_max`:
    what a wrapper may take, see `compression.plain_bytes_max`.
    Raises CorruptLog and UnreadableObject.
    """
    cut = [segment for segment in chain.taken if segment.skipped_offsets]
    compared = [segment for pair in comparisons for segment in (pair.first, pair.second)]
    segments = {segment.segment_id: segment for segment in (*cut, *compared)}
    heads = {
        name: _heads(tier, key, segment, batch_bytes_max) for name, segment in segments.items()
    }
    found = [
        _disagreement(pair, heads[pair.first.segment_id], heads[pair.second.segment_id])
        for pair in comparisons
    ]
    found += [_straddle(segment, heads[segment.segment_id]) for segment in cut]
    return OverlapProof(
        cuts={segment.segment_id: _cut(segment, heads[segment.segment_id]) for segment in cut},
        disagreements=tuple(filter(None, found)),
    )


def _heads(
    tier: RemoteTier, key: PartitionKey, segment: Segment, batch_bytes_max: int
) -> BatchHeads:
    # Imports numba. In most tiers nothing overlaps, and `status` and `plan` start without it.
    from tierfold.storage.kafka.batch_headers import joined_heads  # noqa: PLC0415
    from tierfold.storage.segments.log_windows import sized_windows, whole_log  # noqa: PLC0415

    windows = sized_windows(whole_log(tier, key, segment, batch_bytes_max))
    return joined_heads([window.checked().heads for window in windows])


def _disagreement(pair: Comparison, first: BatchHeads, second: BatchHeads) -> str:
    """A sentence about where the two differ in the shared stretch; empty if they do not."""
    one, other = _within(pair, first), _within(pair, second)
    shared = min(len(one), len(other))
    differs = np.zeros(shared, np.bool_)
    for name in ("base_offset", "last_offset", "crc"):
        differs |= getattr(one, name)[:shared] != getattr(other, name)[:shared]
    if not differs.any() and len(one) == len(other):
        return ""
    place = int(np.argmax(differs)) if differs.any() else shared
    starts = [int(heads.base_offset[place]) for heads in (one, other) if place < len(heads)]
    return (
        f"segments {pair.first.segment_id} and {pair.second.segment_id} share offsets"
        f" {pair.start_offset} to {pair.end_offset} and hold other batches there, from offset"
        f" {min(starts)} on"
    )


def _within(pair: Comparison, heads: BatchHeads) -> BatchHeads:
    """The batches with offsets in the shared stretch."""
    first = int(np.searchsorted(heads.last_offset, pair.start_offset))
    last = int(np.searchsorted(heads.base_offset, pair.end_offset, side="right"))
    return heads.slice(first, max(first, last))


def _first_batch(segment: Segment, heads: BatchHeads) -> int:
    """The number of the first batch that reaches the effective start; none: how many there are."""
    return int(np.searchsorted(heads.last_offset, segment.start_offset))


def _straddle(segment: Segment, heads: BatchHeads) -> str:
    """A sentence about the batch that straddles the effective start; empty if none does."""
    batch = _first_batch(segment, heads)
    if batch == len(heads) or heads.base_offset[batch] >= segment.start_offset:
        return ""
    return (
        f"segment {segment.segment_id} counts from offset {segment.start_offset} on, and its"
        f" batch of offsets {heads.base_offset[batch]} to {heads.last_offset[batch]} straddles it"
    )


def _cut(segment: Segment, heads: BatchHeads) -> Cut:
    batch = _first_batch(segment, heads)
    if batch == len(heads):
        # Only a hole at its end counts.
        return Cut(skipped_bytes=segment.log_bytes, first_timestamp_ms=NO_TIMESTAMP_MS)
    return Cut(
        skipped_bytes=int(heads.position[batch]),
        first_timestamp_ms=int(heads.max_timestamp_ms[batch]),
    )
