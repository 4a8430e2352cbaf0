"""Digests of the data records that a segment has within a span, found by its offset index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.verification.canary_records import (
    Field,
    RecordDigests,
    digested,
    joined_records,
)
from tierfold.storage.segments.log_pieces import ChosenRecords, pieces_of, read_piece
from tierfold.storage.tiers.remote_tier import RemoteTier

PIECE_BYTES: Final = 8 * 2**20


def whole_segment(segment: Segment) -> Segment:
    """The segment with all offsets of its `.log`, also those that earlier ones give to the log."""
    return replace(
        segment,
        start_offset=segment.own_start_offset,
        size_bytes=segment.log_bytes,
        skipped_offsets=0,
        skipped_bytes=0,
    )


def written_records(
    tier: RemoteTier,
    key: PartitionKey,
    segment: Segment,
    span: OffsetSpan,
    batch_bytes_max: int = 0,
) -> RecordDigests:
    """All of them, also those of aborted transactions, from the effective start on.

    Raises UnreadableObject and CorruptLog.
    """
    return joined_records(list(pieces_of_records(tier, key, segment, span, batch_bytes_max)))


def pieces_of_records(
    tier: RemoteTier,
    key: PartitionKey,
    segment: Segment,
    span: OffsetSpan,
    batch_bytes_max: int = 0,
) -> Iterator[RecordDigests]:
    """The same, a window of batches at a time."""
    for piece in pieces_of(tier, key, segment, span, (), PIECE_BYTES):
        for chosen in read_piece(tier, replace(piece, batch_bytes_max=batch_bytes_max)):
            yield _digests(chosen)


def _digests(chosen: ChosenRecords) -> RecordDigests:
    records, rows = chosen.records, chosen.rows
    return digested(
        records.body,
        records.offset[rows],
        records.timestamp_ms[rows],
        Field(records.key_at[rows], records.key_bytes[rows]),
        Field(records.value_at[rows], records.value_bytes[rows]),
    )
