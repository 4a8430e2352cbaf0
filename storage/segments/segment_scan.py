"""Reads the keys and transaction batches of one segment, for the offset map.

It checks formats, checksums and offsets, so later stages can trust the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.batch_outline import BatchOutline, joined_outlines
from tierfold.compaction.cleaning.group_outcome import PlainSegment
from tierfold.compaction.cleaning.key_blocks import blocks_of, parts_per_bucket
from tierfold.compaction.cleaning.key_columns import PartedKeys, gathered, joined_windows
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING, superseded_in_segment
from tierfold.compaction.cleaning.record_retention import is_plain
from tierfold.compaction.cleaning.transactions import (
    DATA,
    TransactionBatches,
    aborted_batches,
    joined_batches,
)
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.hash_key import HashKey
from tierfold.compaction.model.rules import RECORD_BYTES_MAX
from tierfold.compaction.skipping.key_hashes import key_hashes
from tierfold.compaction.skipping.key_index import repeats_a_key
from tierfold.compaction.skipping.skip_decision import (
    CompetingKeys,
    all_competing,
    competing_keys,
)
from tierfold.storage.kafka.batch_headers import BatchHeads
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.kafka.records import Records
from tierfold.storage.segments.key_indexing import IndexedWindow, KeyIndexing, indexed_window
from tierfold.storage.segments.log_windows import StoredObject, sized_windows
from tierfold.storage.segments.lookahead import begun, mapped_ahead
from tierfold.storage.segments.window import LogWindow, UncheckedWindow, decoded_windows

KEYS_MAX: Final = 8_000_000
"""Keys held at a time; a segment with more emits its blocks in several stretches."""

KEY_BYTES_MAX: Final = 256 * 2**20
"""Bytes of keys held at a time. With keys of a kilobyte it is reached long before `KEYS_MAX`, and
compressed keys may take many times the segment's size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOrder:
    """How to scan a segment of a round."""

    first_dirty: int
    """Records from here on can supersede others; if versions decide, all can."""
    buckets: int
    """How many buckets the partition's keys are split into."""
    hash_key: HashKey
    """The run's."""
    threads: int = 1
    versions: VersionSource = field(default_factory=VersionSource)
    competing_max: int = 0
    """How many competing keys are wanted at most, for the key indexes of other segments; 0: none
    are."""
    fpp: float | None = None
    """Of the Bloom filter of the segment's key index; None: it gets no index."""
    record_bytes_max: int = RECORD_BYTES_MAX
    """The rules' `max_decompressed_message_bytes`."""

    @property
    def parts(self) -> int:
        """How many parts all buckets have together."""
        return self.buckets * parts_per_bucket(self.buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """What the later stages need of a segment."""

    txn_batches: TransactionBatches
    own_bits: NDArray[np.uint8]
    """Shape (records,): the bits of `offset_map`, among the records of the same segment."""
    blocks: tuple[tuple[int, bytes], ...]
    """(bucket, its keys that may still supersede or be superseded), as `blocks_of` makes them."""
    malformed_versions: int
    """Eligible records whose version is null or of another length."""
    without_key: int
    """Records that would be eligible if they had a key; as `Counts` counts them."""
    plain: PlainSegment | None
    """None if the segment is not plain."""
    competing: CompetingKeys | None
    """None: they were not wanted."""
    outline: BatchOutline
    indexing: KeyIndexing
    """What its key index needs, if it gets one."""

    @property
    def records(self) -> int:
        """How many records the segment holds, control records included."""
        return len(self.own_bits)

    @property
    def loses_nothing(self) -> bool:
        """Whether all of it stays, unless records of other segments supersede its own."""
        return self.plain is not None and not (self.own_bits & SUPERSEDED).any()

    @property
    def record_bytes(self) -> int:
        """Uncompressed bytes of the records, as `Counts` counts them."""
        return self.outline.record_bytes


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


def scan_transactions(log: StoredObject) -> TransactionBatches:
    """Read only the transaction batches of a log; raises CorruptLog, and UnreadableObject."""
    txn_batches: list[TransactionBatches] = []
    for window, records in decoded_windows(sized_windows(log)):
        types = window.control_types(records)
        txn_batches.append(transaction_batches_of(window.heads, types)[0])
    return joined_batches(txn_batches)


def scan_segment(
    log: StoredObject, aborted: Sequence[AbortedTransaction], order: ScanOrder
) -> ScannedSegment:
    """Read the log of a segment of a round; raises CorruptLog, and UnreadableObject."""
    keys = _Keys(order)
    indexing = KeyIndexing()

    def scanned(window: UncheckedWindow) -> Iterator[_ScannedWindow]:
        wanted = order if indexing.is_possible else replace(order, fpp=None)
        return begun(_scanned_window(*decoded, aborted, wanted) for decoded in window.decoded())

    competing: list[CompetingKeys] = []
    txn_batches: list[TransactionBatches] = []
    outlines: list[BatchOutline] = []
    malformed = without_key = records = 0
    is_plain_so_far = True
    ahead = mapped_ahead(scanned, sized_windows(log), threads=order.threads)
    for found in chain.from_iterable(ahead):
        malformed += found.malformed_versions
        without_key += found.without_key
        records = found.records_end
        outlines.append(found.outline)
        is_plain_so_far &= found.is_plain
        if order.fpp is not None:
            indexing.add(_unless_it_changes(found, is_first=not txn_batches))
        txn_batches.append(found.txn_batches)
        if found.competing is not None:
            competing.append(found.competing)
        keys.add(found)
    keys.flush()
    outline = joined_outlines(outlines)
    plain = None
    if is_plain_so_far and len(outline):
        plain = PlainSegment(
            first_offset=outline.first_offset,
            last_offset=int(outline.last_offset[-1]),
            records=records,
            record_bytes=outline.record_bytes,
        )
    return ScannedSegment(
        txn_batches=joined_batches(txn_batches),
        own_bits=np.concatenate(keys.own_bits),
        blocks=tuple(keys.blocks),
        outline=outline,
        malformed_versions=malformed,
        without_key=without_key,
        plain=plain,
        competing=all_competing(competing) if order.competing_max else None,
        indexing=indexing,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScannedWindow:
    """The scan of one window of a segment."""

    txn_batches: TransactionBatches
    keys: PartedKeys
    """Numbered from the segment's first record."""
    first_competing: int | None
    """The number within the segment of the first record at or above `first_dirty`."""
    records_end: int
    """How many records of the segment lie before the window's end."""
    outline: BatchOutline
    malformed_versions: int
    without_key: int
    is_plain: bool
    competing: CompetingKeys | None
    """None: they are not wanted."""
    indexed: IndexedWindow | None
    """For the key index."""


def _scanned_window(
    window: LogWindow,
    records: Records,
    aborted: Sequence[AbortedTransaction],
    order: ScanOrder,
) -> _ScannedWindow:
    heads = window.heads
    types = window.control_types(records)
    is_aborted, txn_batches = is_aborted_in(heads, types, aborted)
    is_data = ~heads.is_control & ~is_aborted
    window.refuse_large(records, is_data, order.record_bytes_max)
    is_dirty = records.offset >= order.first_dirty
    competing = np.flatnonzero(is_dirty)
    may_compete = is_data[records.batch]
    chosen = may_compete & (records.key_bytes >= 0)
    keys = gathered(
        records.body, records.key_at, records.key_bytes, chosen, order.parts, order.hash_key
    )
    columns = keys.columns
    versions, malformed = order.versions.versions_of(records, columns.ordinal)
    columns = replace(columns, versions=versions).numbered_from(window.first_record)
    return _ScannedWindow(
        txn_batches=txn_batches,
        keys=replace(keys, columns=columns),
        first_competing=window.first_record + int(competing[0]) if len(competing) else None,
        records_end=window.records_end,
        outline=BatchOutline(
            size_bytes=heads.size_bytes.astype(np.int32),
            records=heads.count,
            last_offset=heads.last_offset,
            first_offset=int(heads.base_offset[0]),
            record_bytes=int((records.end - records.start).sum()),
            has_legacy=bool(heads.is_legacy.any()),
        ),
        malformed_versions=malformed,
        without_key=int(np.count_nonzero(may_compete) - np.count_nonzero(chosen)),
        is_plain=is_plain(
            is_control=heads.is_control,
            is_legacy=heads.is_legacy,
            is_aborted=is_aborted,
            records=heads.count,
            has_key=records.key_bytes >= 0,
            has_value=records.value_bytes >= 0,
        ),
        competing=_competing(records, chosen & is_dirty) if order.competing_max else None,
        indexed=None if order.fpp is None else indexed_window(heads, records, types),
    )


def _unless_it_changes(found: _ScannedWindow, *, is_first: bool) -> IndexedWindow | None:
    """What the key index needs; None: the window is dirty, and a rewrite changes it.

    That a key comes twice is looked for in the first window only: where keys are updated often, it
    shows there, and the hashes of all others need not be computed.
    """
    if found.first_competing is None or found.indexed is None:
        return found.indexed
    if not found.is_plain or (is_first and repeats_a_key(found.indexed.entries)):
        return None
    return found.indexed


def _competing(records: Records, chosen: NDArray[np.bool_]) -> CompetingKeys:
    """The keys of the chosen records; `chosen` has shape (records,)."""
    hashes = key_hashes(records.body, records.key_at[chosen], records.key_bytes[chosen])
    return competing_keys(hashes, records.value_bytes[chosen] < 0)


class _Keys:
    """The keys of windows, in order, which become blocks a stretch at a time.

    Held per key: 16 bytes (hash, ordinal, length; 25 with versions) and the key itself; while a
    stretch is joined all of it twice, and 24 bytes more. Held per record: one byte of bits.
    Measured (`tests.bench.memory`) with keys of 24 bytes: at most 143 bytes per record in all.
    """

    def __init__(self, order: ScanOrder) -> None:
        self.blocks: list[tuple[int, bytes]] = []
        self.own_bits: list[NDArray[np.uint8]] = []
        """One array per stretch."""
        self._order = order
        self._windows: list[PartedKeys] = []
        self._held = self._held_bytes = 0
        self._competes_from: int | None = None
        self._stretch_start = 0
        self._records_end = 0

    def add(self, found: _ScannedWindow) -> None:
        """Add the keys of the next window."""
        if self._competes_from is None:
            self._competes_from = found.first_competing
        self._records_end = found.records_end
        self._windows.append(found.keys)
        self._held += len(found.keys.columns)
        self._held_bytes += len(found.keys.columns.keys)
        if self._held >= KEYS_MAX or self._held_bytes >= KEY_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Make blocks of the stretch, and set the bits of its records."""
        keys = joined_windows(self._windows, self._order.parts)
        self._windows.clear()
        self._held = self._held_bytes = 0
        competes_from = self._records_end if self._competes_from is None else self._competes_from
        superseded, superseding = superseded_in_segment(keys, competes_from)
        ordinal = keys.columns.ordinal - np.uint32(self._stretch_start)
        bits = np.zeros(self._records_end - self._stretch_start, np.uint8)
        bits[ordinal[superseded]] = SUPERSEDED
        bits[ordinal[superseding]] = SUPERSEDING
        self.own_bits.append(bits)
        self._stretch_start = self._records_end
        self.blocks += blocks_of(
            keys,
            superseded,
            buckets=self._order.buckets,
            competes_from=competes_from,
            hash_key=self._order.hash_key,
        )
