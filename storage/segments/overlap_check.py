"""Checks that overlapping segments hold the same batches, and finds where each begins to count.

Two leaders of one lineage hold the same bytes at the same offsets, so the batches of every shared
stretch must agree in base offset, last offset and checksum. Where they do not, one of them is no
upload of this log, but for example a compacted copy beside its originals (SEMANTICS 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tierfold.compaction.discovery.overlaps import Chain, Comparison, Cut, OverlapProof
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, Part

if TYPE_CHECKING:
    from tierfold.storage.kafka.batch_headers import BatchHeads


def prove_overlaps(
    tier: LocalTieredStorage,
    key: PartitionKey,
    chain: Chain,
    comparisons: Sequence[Comparison],
) -> OverlapProof:
    """Compare the shared stretches batch by batch, and find where cut segments begin to count.

    Only segments that overlap are read, each once, with every checksum compared.
    Raises CorruptLog and UnreadableObject.
    """
    cut = [segment for segment in chain.taken if segment.skipped_offsets]
    compared = [segment for pair in comparisons for segment in (pair.first, pair.second)]
    segments = {segment.segment_id: segment for segment in (*cut, *compared)}
    heads = {name: _heads(tier, key, segment) for name, segment in segments.items()}
    found = [
        sentence
        for pair in comparisons
        for one, other in [(heads[pair.first.segment_id], heads[pair.second.segment_id])]
        if (sentence := _disagreement(pair, one, other))
    ]
    found += [
        straddle for segment in cut for straddle in _straddles(segment, heads[segment.segment_id])
    ]
    return OverlapProof(
        cuts={segment.segment_id: _cut(segment, heads[segment.segment_id]) for segment in cut},
        disagreements=tuple(found),
    )


def _heads(tier: LocalTieredStorage, key: PartitionKey, segment: Segment) -> BatchHeads:
    # Imports numba. In most tiers nothing overlaps, and `status` and `plan` start without it.
    from tierfold.storage.segments.segment_scan import checked_heads  # noqa: PLC0415

    address = (key, segment.segment_id, segment.own_start_offset, Part.LOG)
    return checked_heads(tier.read_part(*address), where=tier.uri(*address))


def _disagreement(pair: Comparison, first: BatchHeads, second: BatchHeads) -> str:
    """Where the two differ within the shared stretch, a sentence; empty: nowhere."""
    one, other = _within(pair, first), _within(pair, second)
    columns = ("base_offset", "last_offset", "crc")
    shared = min(len(one), len(other))
    differs = np.zeros(shared, np.bool_)
    for name in columns:
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
    """The batches that hold offsets of the shared stretch."""
    first = int(np.searchsorted(heads.last_offset, pair.start_offset))
    last = int(np.searchsorted(heads.base_offset, pair.end_offset, side="right"))
    return heads.slice(first, max(first, last))


def _first_batch(segment: Segment, heads: BatchHeads) -> int:
    """The number of the first batch that reaches the effective start."""
    return int(np.searchsorted(heads.last_offset, segment.start_offset))


def _straddles(segment: Segment, heads: BatchHeads) -> Iterator[str]:
    batch = _first_batch(segment, heads)
    if heads.base_offset[batch] < segment.start_offset:
        yield (
            f"segment {segment.segment_id} counts from offset {segment.start_offset} on, and its"
            f" batch of offsets {heads.base_offset[batch]} to {heads.last_offset[batch]} straddles"
            " it"
        )


def _cut(segment: Segment, heads: BatchHeads) -> Cut:
    batch = _first_batch(segment, heads)
    return Cut(
        skipped_bytes=int(heads.position[batch]),
        first_timestamp_ms=int(heads.max_timestamp_ms[batch]),
    )
