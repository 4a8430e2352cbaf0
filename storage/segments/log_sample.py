"""Reads windows of a partition's segments for `compaction.estimation`, by one range each.

A window begins anywhere in a `.log`. The first batch in it is found by its checksum, and checked as
every other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.record_retention import BatchRetention
from tierfold.compaction.estimation.sample import KEPT_SHARES, SampledWindow
from tierfold.compaction.estimation.windows import PlannedWindow
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.units import NO_HORIZON, OffsetSpan
from tierfold.compaction.skipping.key_hashes import key_hashes
from tierfold.storage.kafka.batch_headers import BatchHeads, unchecked_heads
from tierfold.storage.kafka.batch_layout import corrupt_batch
from tierfold.storage.kafka.batch_lengths import whole_batches_bytes
from tierfold.storage.kafka.batch_rewrite import rewrite_batches
from tierfold.storage.kafka.batch_search import first_batch
from tierfold.storage.kafka.compression import PlainLimits
from tierfold.storage.kafka.records import Records, windows
from tierfold.storage.segments.log_windows import WINDOW_BYTES
from tierfold.storage.segments.segment_scan import is_aborted_in
from tierfold.storage.segments.window import LogWindow, UncheckedWindow
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of

_MIXED: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyBatches:
    """The window has messages of magic 0 or 1, whose rewrite enlarges them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOrder:
    """How the windows of a partition are read."""

    aborted: tuple[AbortedTransaction, ...]
    """The aborted transactions of the segments that are sampled."""
    expired_until_ms: int
    """Tombstones go whose delete horizon is not after this; `NO_HORIZON`: none does."""
    batch_bytes_max: int = 0
    """What a batch may expand to, see `kafka.compression.plain_bytes_max`."""
    measures_rewrites: bool = True
    """Whether to measure what rewritten batches take."""


def read_window(
    tier: RemoteTier, key: PartitionKey, planned: PlannedWindow, order: SampleOrder
) -> SampledWindow | LegacyBatches | None:
    """The whole batches of a window; None: it has none.

    Raises UnreadableObject, and CorruptLog.
    """
    segment, address = planned.segment, address_of(key, planned.segment)
    data = tier.read_range(address, Part.LOG, planned.start, planned.size_bytes)
    where = tier.uri(address, Part.LOG)
    wanted = OffsetSpan(start=segment.start_offset, end=segment.next_offset)
    at = 0 if planned.is_at_batch else first_batch(data, wanted)
    if at is None:
        return None
    whole_bytes, _ = whole_batches_bytes(data[at:])
    if planned.size_bytes == segment.size_bytes and whole_bytes < segment.size_bytes:
        raise corrupt_batch(
            f"whole batches take {whole_bytes} bytes, where the catalog says {segment.size_bytes}",
            where,
        )
    if not whole_bytes:
        return None
    return _sampled(data[at : at + whole_bytes], planned.start + at, order, where)


def _sampled(
    log: NDArray[np.uint8], origin: int, order: SampleOrder, where: str
) -> SampledWindow | LegacyBatches:
    """The records of whole batches; `origin`: their position in the `.log`."""
    heads = unchecked_heads(log, where=where, origin=origin)
    if heads.is_legacy.any():
        return LegacyBatches()
    limits = PlainLimits(order.batch_bytes_max)
    pieces: list[SampledWindow] = []
    for first, last in windows(
        heads, window_bytes=WINDOW_BYTES, batch_bytes_max=order.batch_bytes_max
    ):
        window = LogWindow(
            data=log,
            heads=heads.slice(first, last),
            origin=origin,
            first_record=0,
            where=where,
            limits=limits,
        )
        for decoded, records in UncheckedWindow(window).decoded():
            pieces.append(_piece(decoded, records, order))
    return _joined(pieces)


def _piece(window: LogWindow, records: Records, order: SampleOrder) -> SampledWindow:
    heads, batch = window.heads, records.batch
    aborted, _ = is_aborted_in(heads, window.control_types(records), order.aborted)
    is_data = ~heads.is_control[batch]
    has_key = (records.key_bytes >= 0) & is_data & ~aborted[batch]
    horizon_ms = heads.delete_horizon_ms
    expired = (horizon_ms != NO_HORIZON) & (horizon_ms <= order.expired_until_ms)
    key_hash = np.zeros(len(records), np.uint64)
    key_hash[has_key] = key_hashes(
        records.body, records.key_at[has_key], records.key_bytes[has_key]
    )
    sizes = (records.end - records.start).astype(np.float64)
    of_batch = np.bincount(batch, sizes, len(heads))
    return SampledWindow(
        start_offset=int(heads.base_offset[0]),
        end_offset=int(heads.last_offset[-1]) + 1,
        stored_bytes=window.size_bytes,
        offset=records.offset,
        key_hash=key_hash,
        record_bytes=sizes * (heads.size_bytes / np.maximum(of_batch, 1))[batch],
        goes=is_data & (~has_key | (expired[batch] & (records.value_bytes < 0))),
        may_compete=has_key,
        rewritten_bytes=_rewritten(window, records) if order.measures_rewrites else (),
    )


def _rewritten(window: LogWindow, records: Records) -> tuple[int, ...]:
    """The stored bytes of the batches if `KEPT_SHARES` of their records were kept."""
    drawn = (records.offset.astype(np.uint64) * _MIXED).astype(np.float64) / 2.0**64
    return tuple(
        _kept_bytes(window.data, window.heads, records, (drawn < share) | (share == 1))
        for share in KEPT_SHARES
    )


def _kept_bytes(
    log: NDArray[np.uint8], heads: BatchHeads, records: Records, keep: NDArray[np.bool_]
) -> int:
    kept = np.bincount(records.batch[keep], minlength=len(heads))
    retention = np.where(kept == heads.count, BatchRetention.COPY, BatchRetention.REWRITE)
    retention[kept == 0] = BatchRetention.DROP
    rewritten = rewrite_batches(
        log, heads, records, keep, retention.astype(np.int8), heads.delete_horizon_ms
    )
    return int(rewritten.batch_bytes.sum())


def _joined(pieces: Sequence[SampledWindow]) -> SampledWindow:
    first, last = pieces[0], pieces[-1]
    columns = ("offset", "key_hash", "record_bytes", "goes", "may_compete")
    measured = [piece.rewritten_bytes for piece in pieces if piece.rewritten_bytes]
    return SampledWindow(
        start_offset=first.start_offset,
        end_offset=last.end_offset,
        stored_bytes=sum(piece.stored_bytes for piece in pieces),
        **{name: np.concatenate([getattr(one, name) for one in pieces]) for name in columns},
        rewritten_bytes=tuple(map(sum, zip(*measured, strict=True))),
    )
