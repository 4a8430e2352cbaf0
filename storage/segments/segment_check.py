"""Reads one live segment in full and reports what is wrong with it.

It compares the log with everything that a reader relies on: sizes, checksums, formats, the offsets
and leader epochs in the catalog, the indexes, the snapshot and the checkpoint. It also collects the
keys' latest values, so that a segment is read only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tierfold.compaction.cleaning.transactions import (
    ABORT,
    TransactionBatches,
    is_marker,
    joined_batches,
)
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.hash_key import HashKey
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.model.units import NO_PRODUCER_ID
from tierfold.compaction.verification.latest_values import LatestValues
from tierfold.storage.indexes.index_check import CheckedIndexes, check_indexes
from tierfold.storage.kafka.batch_headers import BatchHeads, joined_heads
from tierfold.storage.kafka.batch_layout import NO_EPOCH
from tierfold.storage.kafka.record_versions import OFFSETS_DECIDE, VersionSource
from tierfold.storage.segments.log_windows import StoredObject, log_windows, unasked, whole_log
from tierfold.storage.segments.segment_latest import LatestCollector
from tierfold.storage.segments.segment_metadata import read_aborted, read_checkpoint, read_snapshot
from tierfold.storage.segments.segment_scan import transaction_batches_of
from tierfold.storage.segments.window import LogWindow, decoded_windows
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOrder:
    """Which checks to run on one segment."""

    key: PartitionKey
    segment: Segment
    is_live: bool
    """Of a retired segment only the keys are read."""
    is_last: bool
    """Whether it is the last live segment."""
    index_interval_bytes: int
    buckets: int
    aborted_now: tuple[AbortedTransaction, ...] | None
    """By the live segments' indexes; None: its keys are not compared as live."""
    aborted_before: tuple[AbortedTransaction, ...] | None
    """By the originals' indexes; None: its keys are not compared as original."""
    hash_key: HashKey
    """The run's."""
    versions: VersionSource = OFFSETS_DECIDE
    """What decides between the records of a key."""
    batch_bytes_max: int = 0
    """What a batch may expand to, see `kafka.compression.plain_bytes_max`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSegment:
    """The result, except the keys."""

    batches: int
    records: int
    markers: int
    """How many of `records` are in control batches."""
    bytes_read: int
    index_entries: int
    has_indexes_as_built: bool
    txn_batches: TransactionBatches
    """They decide, over the whole partition, which transactions should be listed."""
    corruptions: tuple[str, ...]
    is_near: bool
    """Whether its log was read from a file of the worker's machine, not from the tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSegment:
    """The result, and the keys' latest values."""

    checked: CheckedSegment
    now: tuple[tuple[int, LatestValues], ...]
    """(bucket, latest values) for the live side; empty if not requested."""
    before: tuple[tuple[int, LatestValues], ...]
    """The same for the side of the originals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """All batches of the log, after all records were decoded."""

    heads: BatchHeads
    """The base offset of a legacy wrapper is that of its first record."""
    first: int
    """The number of the first batch that counts; the offsets before are another segment's."""
    txn_batches: TransactionBatches
    """Of the batches that count."""
    records: int
    size_bytes: int
    where: str


def read_and_check(
    tier: RemoteTier, order: CheckOrder, proceed: Callable[[], None] = unasked
) -> ReadSegment:
    """Read a segment and check it; raises CorruptLog or UnreadableObject if its log is unusable.

    `proceed` is called before each window, and may raise.
    """
    collectors = [
        None
        if aborted is None
        else LatestCollector(aborted, order.buckets, order.versions, order.hash_key)
        for aborted in (order.aborted_now, order.aborted_before)
    ]
    wanted = [collector for collector in collectors if collector is not None]
    stored = whole_log(tier, order.key, order.segment, order.batch_bytes_max)
    log = _decoded(replace(stored, proceed=proceed), order.segment, wanted)
    indexes = _checked_indexes(tier, order, log) if order.is_live else CheckedIndexes()
    corruptions = _corruptions(tier, order, log) if order.is_live else ()
    now, before = (() if collector is None else collector.blocks() for collector in collectors)
    checked = CheckedSegment(
        batches=len(log.heads) - log.first,
        records=log.records,
        markers=int(np.count_nonzero(is_marker(log.txn_batches.control_type))),
        bytes_read=log.size_bytes,
        index_entries=indexes.entries,
        has_indexes_as_built=indexes.is_as_built,
        txn_batches=log.txn_batches,
        corruptions=(*corruptions, *indexes.corruptions),
        is_near=stored.is_near,
    )
    return ReadSegment(checked=checked, now=now, before=before)


def _decoded(
    log: StoredObject, segment: Segment, collectors: Sequence[LatestCollector]
) -> _Log:
    """Decode every record, which checks its format; raises CorruptLog."""
    heads: list[BatchHeads] = []
    txn_batches: list[TransactionBatches] = []
    size_bytes = first_batch = records_in_all = 0
    for window, decoded in decoded_windows(log_windows(log)):
        types = window.control_types(decoded)
        heads.append(window.heads)
        size_bytes += window.size_bytes
        skipped = _skipped_batches(window, segment.skipped_bytes)
        first_batch += skipped
        counted = window.between(skipped, len(window.heads))
        if not len(counted.heads):
            continue
        records = counted.records() if skipped else decoded
        types = types[skipped:]
        txn_batches.append(transaction_batches_of(counted.heads, types)[0])
        for collector in collectors:
            collector.add(counted.heads, records, types)
        records_in_all += len(records)
    return _Log(
        heads=joined_heads(heads),
        first=first_batch,
        txn_batches=joined_batches(txn_batches),
        records=records_in_all,
        size_bytes=size_bytes,
        where=log.where,
    )


def _skipped_batches(window: LogWindow, skipped_bytes: int) -> int:
    """How many batches of the window begin below that position of the log."""
    return int(np.searchsorted(window.heads.position + window.origin, skipped_bytes))


def _checked_indexes(tier: RemoteTier, order: CheckOrder, log: _Log) -> CheckedIndexes:
    if not len(log.heads):
        return CheckedIndexes()
    segment = order.segment
    try:
        offset_index, offset_name = tier.part_of(order.key, segment, Part.OFFSET_INDEX)
        time_index, time_name = tier.part_of(order.key, segment, Part.TIME_INDEX)
    except TierfoldError as error:
        return CheckedIndexes(corruptions=(str(error),))
    found = check_indexes(
        offset_index,
        time_index,
        log.heads,
        start_offset=segment.own_start_offset,
        index_interval_bytes=order.index_interval_bytes,
        names=(offset_name, time_name),
    )
    promised = (
        (offset_name, len(offset_index), segment.offset_index_bytes),
        (time_name, len(time_index), segment.time_index_bytes),
    )
    cut = tuple(
        f"{name}: {found_bytes} bytes, where the catalog says {size_bytes}"
        for name, found_bytes, size_bytes in promised
        if found_bytes != size_bytes
    )
    return replace(found, corruptions=(*cut, *found.corruptions))


def _corruptions(tier: RemoteTier, order: CheckOrder, log: _Log) -> tuple[str, ...]:
    return (
        *(f"{log.where}: {corruption}" for corruption in _log_corruptions(order, log)),
        *_transaction_corruptions(tier, order, log),
        *_side_file_corruptions(tier, order),
    )


def _log_corruptions(order: CheckOrder, log: _Log) -> Iterator[str]:
    """Compare sizes, offsets and leader epochs of the log with the catalog."""
    segment, heads = order.segment, log.heads
    if log.size_bytes != segment.log_bytes:
        yield f"{log.size_bytes} bytes, where the catalog says {segment.log_bytes}"
    if not len(heads):
        if segment.log_bytes or not segment.is_upload:
            yield "0 bytes, which only a broker's cleaner leaves of a segment"
        return
    starts = np.full(len(heads), segment.own_start_offset)
    starts[log.first :] = segment.start_offset
    outside = np.flatnonzero(
        (heads.base_offset < starts) | (heads.last_offset > segment.end_offset)
    )
    if outside.size:
        batch = int(outside[0])
        yield (
            f"the batch at byte {heads.position[batch]} has offsets {heads.base_offset[batch]} to "
            f"{heads.last_offset[batch]}, the segment {starts[batch]} to "
            f"{segment.end_offset}"
        )
    counts_from = heads.position[log.first] if log.first < len(heads) else segment.log_bytes
    if counts_from != segment.skipped_bytes:
        yield (
            f"no batch begins at byte {segment.skipped_bytes}, where the catalog says that the"
            f" segment counts from, at offset {segment.start_offset}"
        )
    last_offset = int(heads.last_offset[-1])
    if order.is_last and last_offset < segment.end_offset and not segment.is_upload:
        yield (
            f"the last batch ends at offset {last_offset}, the live range at "
            f"{segment.end_offset}: readers get stuck at the gap"
        )
    stated_ms, found_ms = segment.records_max_timestamp_ms, heads.records_max_timestamp_ms
    if stated_ms is not None and stated_ms != found_ms:
        yield (
            f"the largest timestamp of a record is {found_ms}, where the catalog says {stated_ms}"
        )
    yield from _epoch_corruptions(segment, log)


def _epoch_corruptions(segment: Segment, log: _Log) -> Iterator[str]:
    """Check that each batch carries the leader epoch of its base offset.

    Messages of magic 0 and 1 carry none, and neither do batches that a cleaner made of them.
    """
    heads = log.heads
    epochs = sorted(segment.leader_epochs, key=lambda entry: (entry.start_offset, entry.epoch))
    starts = np.array([entry.start_offset for entry in epochs], np.int64)
    numbers = np.array([NO_EPOCH, *(entry.epoch for entry in epochs)], np.int64)
    expected = numbers[np.searchsorted(starts, heads.base_offset, side="right")]
    has_none = (heads.leader_epoch == NO_EPOCH) & (heads.producer_id == NO_PRODUCER_ID)
    is_wrong = ~heads.is_legacy & ~has_none & (heads.leader_epoch != expected)
    is_wrong[: log.first] = False
    wrong = np.flatnonzero(is_wrong)
    if wrong.size:
        batch = int(wrong[0])
        yield (
            f"{wrong.size} of {len(heads)} batches carry another leader epoch than the catalog "
            f"has for them, the first at byte {heads.position[batch]} (base offset "
            f"{heads.base_offset[batch]}): {heads.leader_epoch[batch]}, where the catalog says "
            f"{expected[batch]}"
        )


def _transaction_corruptions(
    tier: RemoteTier, order: CheckOrder, log: _Log
) -> Iterator[str]:
    """Check that each transaction listed as aborted has its ABORT marker in this segment."""
    segment = order.segment
    try:
        listed = read_aborted(tier, order.key, segment)
    except TierfoldError as error:
        yield str(error)
        return
    is_abort = log.txn_batches.control_type == ABORT
    markers = set(
        zip(
            log.txn_batches.producer_id[is_abort].tolist(),
            log.txn_batches.last_offset[is_abort].tolist(),
            strict=True,
        )
    )
    where = tier.uri(address_of(order.key, segment), Part.TRANSACTION_INDEX)
    for number, entry in enumerate(listed):
        if (entry.producer_id, entry.last_offset) not in markers:
            yield (
                f"{where}: entry {number} lists a transaction of producer {entry.producer_id} as "
                f"aborted at offset {entry.last_offset}, where the log has no such ABORT marker"
            )


def _side_file_corruptions(tier: RemoteTier, order: CheckOrder) -> Iterator[str]:
    """Check the snapshot and the checkpoint, which brokers need to load the log."""
    for read in (read_snapshot, read_checkpoint):
        try:
            read(tier, order.key, order.segment)
        except TierfoldError as error:
            yield str(error)
