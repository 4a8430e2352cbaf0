"""Reads the keys and transaction batches of one segment, for the offset map.

It checks formats, checksums and offsets, so later stages can trust the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_blocks import KeyBlock, blocks_of, parts_per_bucket
from tierfold.compaction.cleaning.key_columns import KeyColumns, gathered, joined, ordered_by_part
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING, superseded_in_segment
from tierfold.compaction.cleaning.transactions import (
    DATA,
    TransactionBatches,
    aborted_batches,
    joined_batches,
)
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.kafka.batch_headers import BatchHeads, read_heads
from tierfold.storage.kafka.control_records import control_types
from tierfold.storage.kafka.legacy_batches import decode_any, with_inner_heads
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.kafka.records import windows
from tierfold.storage.segments.lookahead import mapped_ahead

WINDOW_BYTES: Final = 4 * 2**20
"""Stored bytes that are decoded at a time; decoded, they take a few times that.

Measured, the scan of 1 GB of lz4: 0.9 CPU seconds with 4 MiB, 1.1 with 16, 1.6 with 64. The C
library returns buffers above 32 MiB to the system, which clears them again each time.
"""

KEYS_MAX: Final = 8_000_000
"""Keys held at a time; a segment with more emits its blocks in several stretches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOrder:
    """How to scan a segment of a round."""

    first_dirty: int
    """Records from here on can supersede others; if versions decide, all can."""
    buckets: int
    """How many buckets the partition's keys are split into."""
    threads: int = 1
    versions: VersionSource = field(default_factory=VersionSource)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """What the later stages need of a segment."""

    txn_batches: TransactionBatches
    own_bits: NDArray[np.uint8]
    """Shape (records,): the bits of `offset_map`, among the records of the same segment."""
    blocks: tuple[tuple[int, KeyBlock], ...]
    """(bucket, its keys that may still supersede or be superseded)."""
    record_bytes: int
    """Uncompressed bytes of the records, as `Counts` counts them."""
    malformed_versions: int
    """Eligible records whose version is null or of another length."""
    without_key: int
    """Records that would be eligible if they had a key; as `Counts` counts them."""

    @property
    def records(self) -> int:
        """How many records the segment holds, control records included."""
        return len(self.own_bits)


def checked_heads(log: NDArray[np.uint8], *, where: str) -> BatchHeads:
    """The batch headers of a segment, with the true base offset and record count of each wrapper.

    Raises CorruptLog, also for an empty log.
    """
    heads = read_heads(log, where=where)
    if not len(heads):
        raise CorruptLog(
            "the log is empty, 0 bytes",
            where=where,
            remedy="No broker uploads an empty log; restore the object from a backup.",
        )
    return with_inner_heads(log, heads, window_bytes=WINDOW_BYTES, where=where)


def transaction_batches_of(
    heads: BatchHeads, types: NDArray[np.int16]
) -> tuple[TransactionBatches, NDArray[np.int64]]:
    """The transaction batches in `heads`, and the rows of `heads` they come from.

    `types` has shape (batches,), as `control_types` gives it.
    """
    rows = np.flatnonzero(heads.is_transactional | heads.is_control)
    kinds = np.where(heads.is_control[rows], types[rows], DATA).astype(np.int16)
    txn_batches = TransactionBatches(
        base_offset=heads.base_offset[rows],
        last_offset=heads.last_offset[rows],
        producer_id=heads.producer_id[rows],
        control_type=kinds,
    )
    return txn_batches, rows


def is_aborted_in(
    heads: BatchHeads, types: NDArray[np.int16], aborted: Sequence[AbortedTransaction]
) -> tuple[NDArray[np.bool_], TransactionBatches]:
    """Whether each batch is data of one of the aborted transactions, and the transaction batches.

    `types` as in `transaction_batches_of`.
    """
    txn_batches, rows = transaction_batches_of(heads, types)
    is_aborted = np.zeros(len(heads), np.bool_)
    is_aborted[rows[aborted_batches(txn_batches, aborted)]] = True
    return is_aborted, txn_batches


def scan_transactions(log: NDArray[np.uint8], *, where: str) -> TransactionBatches:
    """Read only the transaction batches of a log (uint8); raises CorruptLog."""
    heads = checked_heads(log, where=where)
    txn_batches: list[TransactionBatches] = []
    for first, last in windows(heads, window_bytes=WINDOW_BYTES):
        window = heads.slice(first, last)
        types = control_types(decode_any(log, window, where=where), window, where=where)
        txn_batches.append(transaction_batches_of(window, types)[0])
    return joined_batches(txn_batches)


def scan_segment(
    log: NDArray[np.uint8],
    aborted: Sequence[AbortedTransaction],
    order: ScanOrder,
    *,
    where: str,
) -> ScannedSegment:
    """Read the log (uint8) of a segment of a round; raises CorruptLog."""
    heads = checked_heads(log, where=where)
    txn_batches: list[TransactionBatches] = []
    pieces: list[KeyColumns] = []
    blocks: list[tuple[int, KeyBlock]] = []
    own_bits = np.zeros(int(heads.count.sum(dtype=np.int64)), np.uint8)
    first_ordinal = np.cumsum(heads.count, dtype=np.int64) - heads.count

    def scanned(window: tuple[int, int]) -> _Window:
        return _scanned_window(log, heads.slice(*window), aborted, order, where)

    competes_from, held = len(own_bits), 0
    malformed = without_key = record_bytes = 0
    cut = list(windows(heads, window_bytes=WINDOW_BYTES))
    for (first, _), found in zip(
        cut, mapped_ahead(scanned, cut, threads=order.threads), strict=True
    ):
        ordinal = int(first_ordinal[first])
        txn_batches.append(found.txn_batches)
        if found.first_competing is not None:
            competes_from = min(competes_from, ordinal + found.first_competing)
        pieces.append(found.keys.numbered_from(ordinal))
        held += len(found.keys)
        malformed += found.malformed_versions
        without_key += found.without_key
        record_bytes += found.record_bytes
        if held >= KEYS_MAX:
            blocks += _blocks(pieces, order.buckets, competes_from, own_bits)
            pieces, held = [], 0
    blocks += _blocks(pieces, order.buckets, competes_from, own_bits)
    return ScannedSegment(
        txn_batches=joined_batches(txn_batches),
        own_bits=own_bits,
        blocks=tuple(blocks),
        record_bytes=record_bytes,
        malformed_versions=malformed,
        without_key=without_key,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The scan of one window of a segment."""

    txn_batches: TransactionBatches
    keys: KeyColumns
    """Numbered from the window's first record."""
    first_competing: int | None
    """The number within the window of the first record at or above `first_dirty`."""
    record_bytes: int
    malformed_versions: int
    without_key: int


def _scanned_window(
    log: NDArray[np.uint8],
    heads: BatchHeads,
    aborted: Sequence[AbortedTransaction],
    order: ScanOrder,
    where: str,
) -> _Window:
    records = decode_any(log, heads, where=where)
    types = control_types(records, heads, where=where)
    is_aborted, txn_batches = is_aborted_in(heads, types, aborted)
    competing = np.flatnonzero(records.offset >= order.first_dirty)
    may_compete = (~heads.is_control & ~is_aborted)[records.batch]
    chosen = may_compete & (records.key_bytes >= 0)
    keys = gathered(records.body, records.key_at, records.key_bytes, chosen)
    versions, malformed = order.versions.versions_of(records, keys.ordinal)
    return _Window(
        txn_batches=txn_batches,
        keys=replace(keys, versions=versions),
        first_competing=int(competing[0]) if len(competing) else None,
        record_bytes=int((records.end - records.start).sum()),
        malformed_versions=malformed,
        without_key=int(np.count_nonzero(may_compete) - np.count_nonzero(chosen)),
    )


def _blocks(
    pieces: Sequence[KeyColumns],
    buckets: int,
    competes_from: int,
    own_bits: NDArray[np.uint8],
) -> list[tuple[int, KeyBlock]]:
    """The blocks of these keys; also sets the bits of their records in `own_bits`."""
    ordered, starts = ordered_by_part(joined(pieces), buckets * parts_per_bucket(buckets))
    superseded, superseding = superseded_in_segment(ordered, starts, competes_from)
    own_bits[ordered.ordinal[superseded]] = SUPERSEDED
    own_bits[ordered.ordinal[superseding]] = SUPERSEDING
    return list(
        blocks_of(ordered, starts, superseded, buckets=buckets, competes_from=competes_from)
    )
