"""Splits a segment's log into pieces of bounded size, and reads the wanted records of a piece.

By the offset index, a piece begins and ends where a batch begins. The index is not trusted: the
batches of a piece must show that nothing wanted lies outside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.transactions import DATA, TransactionBatches, aborted_batches
from tierfold.compaction.model.aborted_transactions import AbortedTransaction, reaching
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.model.units import OffsetSpan
from tierfold.storage.kafka.batch_headers import NO_OFFSET, BatchHeads
from tierfold.storage.kafka.compression import PlainLimits
from tierfold.storage.kafka.records import Records
from tierfold.storage.segments.log_windows import StoredObject, log_windows, stored_object
from tierfold.storage.segments.usable_indexes import usable_offsets
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of, counted_from


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """Bytes `[start, end)` of a live segment's `.log`, and the offsets wanted of them."""

    key: PartitionKey
    segment: Segment
    start: int
    end: int
    wanted: OffsetSpan
    aborted: tuple[AbortedTransaction, ...]
    """Their data is left out; empty if uncommitted data is wanted, too."""
    is_first: bool
    """No piece precedes it; if one does, that ends at `start`."""
    is_last: bool
    """No piece follows it; if one does, that begins at `end`."""
    batch_bytes_max: int = 0
    """What a batch may expand to, see `kafka.compression.plain_bytes_max`."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the piece."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRecords:
    """Decoded batches, and which of their records are wanted."""

    heads: BatchHeads
    records: Records
    rows: NDArray[np.int64]
    """Indices into the records, ascending."""


def pieces_of(
    tier: RemoteTier,
    key: PartitionKey,
    segment: Segment,
    wanted: OffsetSpan,
    aborted: tuple[AbortedTransaction, ...],
    piece_bytes: int,
) -> Iterator[LogPiece]:
    """The pieces of a segment that may hold offsets of `wanted`, in order.

    A piece has up to `piece_bytes`, or the bytes between two entries of the offset index. The index
    is read only if part of the segment is wanted, or if it is more than one piece. Where nothing of
    it can be used, the segment is one piece.

    Raises CorruptLog if the index points beyond the log, and UnreadableObject.
    """
    within = OffsetSpan(
        start=max(wanted.start, segment.start_offset), end=min(wanted.end, segment.next_offset)
    )
    if within.is_empty or not segment.size_bytes:
        return
    is_whole = within.start == segment.start_offset and within.end == segment.next_offset
    if is_whole and segment.size_bytes <= piece_bytes:
        cuts = [segment.skipped_bytes, segment.log_bytes]
    else:
        cuts = _cuts(tier, key, segment, within, piece_bytes)
    overlapping = reaching(aborted, within.start, within.end - 1)
    for i in range(len(cuts) - 1):
        yield LogPiece(
            key=key,
            segment=segment,
            start=cuts[i],
            end=cuts[i + 1],
            wanted=within,
            aborted=overlapping,
            is_first=i == 0,
            is_last=i == len(cuts) - 2,
        )


def read_piece(tier: RemoteTier, piece: LogPiece) -> Iterator[ChosenRecords]:
    """The wanted records of a piece, a window of batches at a time, without control records.

    Raises UnreadableObject, and CorruptLog, also if the index led to other batches.
    """
    is_misled = piece.start > piece.segment.skipped_bytes
    try:
        for chosen in _chosen(tier, piece):
            is_misled = False
            yield chosen
    except CorruptLog as error:
        if not is_misled:
            raise
        # Where the index leads to no batch, the log seems to be corrupt.
        raise _corrupt(error.what, error.where) from error


def _chosen(tier: RemoteTier, piece: LogPiece) -> Iterator[ChosenRecords]:
    log, wanted = _stored(tier, piece), piece.wanted
    is_cut_before = piece.is_first and piece.start > piece.segment.skipped_bytes
    is_cut_behind = piece.is_last and piece.end < piece.segment.log_bytes
    first_offset: int | None = None
    last_offset = NO_OFFSET
    for unchecked in log_windows(log):
        window = unchecked.checked()
        heads = window.heads
        last_offset = int(heads.last_offset[-1])
        if first_offset is None:
            first_offset = int(heads.base_offset[0])
            if is_cut_before and first_offset > wanted.start:
                raise _misled(wanted, (first_offset, last_offset), log.where)
        first = int(np.searchsorted(heads.last_offset, wanted.start))
        last = int(np.searchsorted(heads.base_offset, wanted.end))
        if first < last:
            for chosen, records in window.between(first, last).decoded():
                rows = _rows(piece, chosen.heads, records)
                if rows.size:
                    yield ChosenRecords(heads=chosen.heads, records=records, rows=rows)
    if first_offset is not None and is_cut_behind and last_offset < wanted.end - 1:
        raise _misled(wanted, (first_offset, last_offset), log.where)


def _stored(tier: RemoteTier, piece: LogPiece) -> StoredObject:
    """The piece as an object that ends where the piece does."""
    segment = piece.segment
    log = stored_object(tier, address_of(piece.key, segment), Part.LOG, piece.end)

    def read(start: int, length: int) -> NDArray[np.uint8]:
        length = min(length, piece.end - start)
        data = log.read(start, length) if length > 0 else np.empty(0, np.uint8)
        if len(data) < length:
            end = start + len(data)
            raise _corrupt(
                f"the log ends at byte {end}, {segment.log_bytes} are known", log.where
            )
        return data

    return replace(
        log,
        read=read,
        start=piece.start,
        where=counted_from(log.where, piece.start),
        limits=PlainLimits(piece.batch_bytes_max),
    )


def _cuts(
    tier: RemoteTier,
    key: PartitionKey,
    segment: Segment,
    within: OffsetSpan,
    piece_bytes: int,
) -> list[int]:
    """Where the pieces that hold `within` begin, and where the last one ends.

    An entry has the last offset of a batch or, before Kafka 4.0, of an append whose first batch is
    there. Either way, what precedes an entry at or below an offset lies below that offset.
    """
    address, log_bytes = address_of(key, segment), segment.log_bytes
    index, _ = usable_offsets(tier, address)
    is_cut = index.positions > 0  # The log begins without an entry.
    starts = np.append(0, index.positions[is_cut]).astype(np.int64)
    offsets = index.offsets[is_cut]
    first = int(np.searchsorted(offsets, within.start, side="right"))
    behind = int(np.searchsorted(offsets, within.end - 1, side="left")) + 2
    begin = int(starts[first])
    end = int(starts[behind]) if behind < starts.size else log_bytes
    if not 0 <= begin < end <= log_bytes:
        raise _corrupt(
            f"it points at bytes {begin} to {end} of a log of {log_bytes} bytes",
            tier.uri(address, Part.OFFSET_INDEX),
        )
    cuts = [begin]
    while end - cuts[-1] > piece_bytes:
        reach = int(np.searchsorted(starts, cuts[-1] + piece_bytes, side="right"))
        # At least one stretch between two entries, even if that is larger than a piece.
        after = max(reach - 1, int(np.searchsorted(starts, cuts[-1], side="right")))
        if after >= min(behind, starts.size):
            break
        cuts.append(int(starts[after]))
    return [*cuts, end]


def _misled(wanted: OffsetSpan, found: tuple[int, int], where: str) -> CorruptLog:
    """The error for pieces outside which wanted offsets lie, where the log has more batches."""
    return _corrupt(
        f"the offset index leads to offsets {found[0]} to {found[1]}, where {wanted.start} to"
        f" {wanted.end - 1} were looked for",
        where,
    )


def _corrupt(what: str, where: str) -> CorruptLog:
    remedy = (
        "`tierfold verify` says whether the log or its offset index is wrong. `tierfold compact`"
        " builds an index again, in a clean partition with --first-dirty 0; take a log from a"
        " backup."
    )
    return CorruptLog(what, where=where, remedy=remedy)


def _rows(piece: LogPiece, heads: BatchHeads, records: Records) -> NDArray[np.int64]:
    visible = ~heads.is_control
    transactional = np.flatnonzero(heads.is_transactional & visible)
    txn_batches = TransactionBatches(
        base_offset=heads.base_offset[transactional],
        last_offset=heads.last_offset[transactional],
        producer_id=heads.producer_id[transactional],
        control_type=np.full(transactional.size, DATA, np.int16),
    )
    visible[transactional[aborted_batches(txn_batches, piece.aborted)]] = False
    within = (records.offset >= piece.wanted.start) & (records.offset < piece.wanted.end)
    return np.flatnonzero(visible[records.batch] & within)
