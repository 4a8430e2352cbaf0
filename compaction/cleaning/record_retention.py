"""Retention of the records and batches of a stretch of log, as filters over columns.

The rules are those of Kafka's `Cleaner.cleanInto` and `MemoryRecords.filterTo`. Per record the
checks are, in this order: aborted, without key, superseded, expired tombstone, else kept. A control
record stays as long as its batch. Then each batch is copied, rewritten, emptied or dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.counts import (
    ABORTED,
    KEPT,
    MARKER_EXPIRED,
    SUPERSEDED,
    TOMBSTONE_EXPIRED,
    WITHOUT_KEY,
)
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import (
    BATCH_HEADER_BYTES,
    NO_HORIZON,
    NO_PRODUCER_ID,
    NO_TIMESTAMP_MS,
    TIMESTAMP_MS_MAX,
)
from tierfold.compaction.planning.drop_limits import NEVER_EXPIRED, DropLimits

_NO_CODEC: Final = 0
"""Kafka's `CompressionType.NONE`."""


class BatchRetention(IntEnum):
    """What is written for a batch."""

    DROP = 0
    """Nothing."""
    COPY = 1
    """The source's bytes."""
    REWRITE = 2
    """A new batch of the kept records, at least one."""
    EMPTY = 3
    """A header without records, which keeps the batch's offsets in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchColumns:
    """The columns that the rules need: `b` batches and their `r` records."""

    last_offset: NDArray[np.int64]
    producer_id: NDArray[np.int64]
    producer_epoch: NDArray[np.int16]
    is_control: NDArray[np.bool_]
    is_legacy: NDArray[np.bool_]
    """Shape (b,): of magic 0 or 1, and converted if anything of it is kept."""
    is_emptied: NDArray[np.bool_]
    """Shape (b,): from the function `is_emptied`; such a batch need not be rewritten."""
    horizon_ms: NDArray[np.int64]
    """Shape (b,): the delete horizon (KIP-534), or `NO_HORIZON`."""
    record_batch: NDArray[np.int32]
    """Shape (r,): the index of a record's batch."""
    has_key: NDArray[np.bool_]
    has_value: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """What the rules need from outside the stretch."""

    aborted: NDArray[np.bool_]
    """Shape (b,): data batches of aborted transactions."""
    discardable: NDArray[np.bool_]
    """Shape (b,): control batches whose transaction has no data batch left in this pass."""
    superseded: NDArray[np.bool_]
    """Shape (r,): records that another record of their key supersedes."""
    supersedes: NDArray[np.bool_]
    """Shape (r,): records that supersede another in this pass, set only if versions decide. A
    tombstone among them stays until a later pass, when those others are gone (SEMANTICS 3)."""
    legacy_tombstones_go: bool
    """From the function `legacy_tombstones_go`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRules:
    """The rules that hold for a whole round of one partition."""

    now_ms: int
    delete_retention_ms: int
    remote_end: int
    """The first offset after the remote range: the batch that ends right before it stays."""
    last_data_offsets: NDArray[np.int64]
    """Shape (p, 2): (producer id, last data offset) of the active producers, sorted."""
    marker_epochs: NDArray[np.int64]
    """Shape (q, 2): (producer id, epoch) of the active producers without data, sorted."""
    producer_times: NDArray[np.int64] = field(default_factory=lambda: _pairs([]))
    """Shape (s, 2): (producer id, last timestamp) of those of them that may expire, sorted."""
    expired_ms: int = NEVER_EXPIRED
    """As of `DropLimits`."""
    legacy_delete_horizon_ms: int = 0
    """From the function `legacy_delete_horizon_ms`; 0: there is no clean segment."""
    keeps_tombstones: bool = False
    """No tombstone is removed, because a record that it supersedes may survive this round."""
    served: DropLimits | None = None
    """Which delete horizons have passed on a served row; None: the time alone decides."""
    keeps_all: bool = False
    """Nothing is removed, and no delete horizon is set: segments are only merged."""
    horizons_from_ms: int | None = None
    """From when new delete horizons count; None: from `now_ms`. Later than `now_ms` if an earlier
    plan is carried out: a tombstone must stay for its whole time after it was first compacted."""

    @property
    def limits(self) -> DropLimits:
        """Which delete horizons have passed, and which producers have expired."""
        limits = self.served or DropLimits(now_ms=self.now_ms)
        return replace(limits, expired_ms=self.expired_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What is kept of a stretch."""

    record: NDArray[np.uint8]
    """Shape (r,): a number of `compaction.cleaning.counts.RECORD_OUTCOMES`."""
    batch: NDArray[np.int8]
    """Shape (b,): a `BatchRetention`."""
    horizon_ms: NDArray[np.int64]
    """Shape (b,): the delete horizon of the batch as written, or `NO_HORIZON`."""


def producer_pairs(
    entries: Iterable[ProducerEntry], *, now_ms: int, expiration_ms: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`RoundRules.last_data_offsets` and `marker_epochs` from a producer snapshot.

    An entry without an open transaction expires after `expiration_ms` without a batch (Kafka
    `ProducerStateManager.isProducerExpired`).
    """
    data: list[tuple[int, int]] = []
    markers: list[tuple[int, int]] = []
    for entry in entries:
        is_open = entry.current_txn_first_offset is not None
        if not is_open and now_ms - entry.last_timestamp_ms >= expiration_ms:
            continue
        if entry.last_data_offset >= 0:
            data.append((entry.producer_id, entry.last_data_offset))
        else:
            markers.append((entry.producer_id, entry.epoch))
    return _pairs(data), _pairs(markers)


def producer_times(entries: Iterable[ProducerEntry]) -> NDArray[np.int64]:
    """`RoundRules.producer_times` from a producer snapshot: without open transactions."""
    return _pairs(
        [
            (entry.producer_id, entry.last_timestamp_ms)
            for entry in entries
            if entry.current_txn_first_offset is None
        ]
    )


def _pairs(rows: list[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(sorted(rows), np.int64).reshape(-1, 2)


def _is_listed(
    pairs: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Whether (first, second) is one of the sorted pairs, whose first values are unique."""
    if not len(pairs):
        return np.zeros(len(first), np.bool_)
    at = np.minimum(np.searchsorted(pairs[:, 0], first), len(pairs) - 1)
    return np.asarray((pairs[at, 0] == first) & (pairs[at, 1] == second), np.bool_)


def legacy_delete_horizon_ms(
    segments: Sequence[Segment], first_dirty: int, delete_retention_ms: int
) -> int:
    """The time up to which tombstones of magic 0 and 1, which have no horizon, may be removed.

    It is the max timestamp of the last of `segments` that starts below `first_dirty`, less the
    retention; 0: none starts there. Kafka's `legacyDeleteHorizonMs` in `Cleaner.doClean` uses the
    last modified time instead. `segments` are in offset order.
    """
    clean = [segment for segment in segments if segment.start_offset < first_dirty]
    return clean[-1].max_timestamp_ms - delete_retention_ms if clean else 0


def legacy_tombstones_go(max_timestamp_ms: int, rules: RoundRules) -> bool:
    """Whether tombstones of magic 0 and 1 may be removed from a segment of that max timestamp.

    Rule: Kafka's `retainLegacyDeletesAndTxnMarkers` in `Cleaner.cleanSegments`. A segment without
    timestamps keeps them: a broker uses the time of its file, which the tier does not have. They
    get a horizon when they are converted, so they stay for `delete.retention.ms` longer.
    """
    is_timed = max_timestamp_ms != NO_TIMESTAMP_MS
    return is_timed and max_timestamp_ms <= rules.legacy_delete_horizon_ms


def must_stay(batches: BatchColumns, rules: RoundRules) -> NDArray[np.bool_]:
    """Shape (b,): batches that stay even without records (SEMANTICS 5).

    They are the last one of every active producer, and the last one of the remote range: readers
    get stuck at a hole there. Kafka from 4.4 on keeps the one that ends at the high watermark
    (KAFKA-20452); before, it kept the last one of every round.
    """
    ends_range = batches.last_offset + 1 == rules.remote_end
    return np.asarray(_is_last_of_producer(batches, rules) | ends_range, np.bool_)


def _is_last_of_producer(batches: BatchColumns, rules: RoundRules) -> NDArray[np.bool_]:
    has_producer = batches.producer_id != NO_PRODUCER_ID
    ends_data = _is_listed(rules.last_data_offsets, batches.producer_id, batches.last_offset)
    holds_epoch = batches.is_control & _is_listed(
        rules.marker_epochs, batches.producer_id, batches.producer_epoch
    )
    return np.asarray(has_producer & (ends_data | holds_epoch), np.bool_)


def decide_retention(batches: BatchColumns, facts: RecordFacts, rules: RoundRules) -> Retention:
    """Decide which records and batches stay.

    A tombstone or marker gets its delete horizon in the first pass that keeps it, and is removed in
    a pass after that horizon (KIP-534). No tombstone is removed in a round that `keeps_tombstones`
    (see `cleaning.rounds`).
    """
    if rules.keeps_all:
        return _all_kept(batches)
    horizon_set = batches.horizon_ms != NO_HORIZON
    horizon_passed = rules.limits.have_passed(batches.horizon_ms, batches.last_offset)
    at = batches.record_batch
    record = np.full(len(at), KEPT, np.uint8)
    # The last assignment counts, so the checks are in reverse order.
    if not rules.keeps_tombstones:
        goes = horizon_passed | (batches.is_legacy & facts.legacy_tombstones_go)
        record[goes[at] & ~batches.has_value & ~facts.supersedes] = TOMBSTONE_EXPIRED
    record[facts.superseded] = SUPERSEDED
    record[~batches.has_key] = WITHOUT_KEY
    record[facts.aborted[at]] = ABORTED
    is_control = batches.is_control[at]
    marker_goes = batches.is_control & facts.discardable & horizon_passed
    record[is_control] = np.where(marker_goes[at][is_control], MARKER_EXPIRED, KEPT)

    survives = record == KEPT
    count = np.bincount(at, minlength=len(batches.last_offset))
    kept = np.bincount(at[survives], minlength=len(batches.last_offset))
    has_tombstone = np.zeros(len(count), np.bool_)
    has_tombstone[at[survives & ~batches.has_value]] = True
    # A horizon beyond the latest timestamp is not set: the records stay forever, as in Kafka.
    from_ms = rules.now_ms if rules.horizons_from_ms is None else rules.horizons_from_ms
    horizon_ms = from_ms + rules.delete_retention_ms
    sets_horizon = (
        (kept > 0)
        & (has_tombstone | (batches.is_control & facts.discardable))
        & ~horizon_set
        & (horizon_ms <= TIMESTAMP_MS_MAX)
    )
    batch = np.where(kept == count, BatchRetention.COPY, BatchRetention.REWRITE).astype(np.int8)
    batch[sets_horizon | batches.is_legacy] = BatchRetention.REWRITE
    stays = must_stay(batches, rules)
    batch[(kept == 0) & stays] = BatchRetention.EMPTY
    batch[(kept == 0) & stays & batches.is_emptied] = BatchRetention.COPY
    batch[(kept == 0) & ~stays] = BatchRetention.DROP
    horizons_ms = np.where(
        sets_horizon, min(horizon_ms, TIMESTAMP_MS_MAX), batches.horizon_ms
    )
    return Retention(record=record, batch=batch, horizon_ms=horizons_ms)


def _all_kept(batches: BatchColumns) -> Retention:
    """Every batch as it is; one of magic 0 or 1 is converted."""
    batch = np.where(batches.is_legacy, BatchRetention.REWRITE, BatchRetention.COPY)
    return Retention(
        record=np.full(len(batches.record_batch), KEPT, np.uint8),
        batch=batch.astype(np.int8),
        horizon_ms=batches.horizon_ms,
    )


def is_plain(
    *,
    is_control: NDArray[np.bool_],
    is_legacy: NDArray[np.bool_],
    is_aborted: NDArray[np.bool_],
    records: NDArray[np.int32],
    has_key: NDArray[np.bool_],
    has_value: NDArray[np.bool_],
) -> bool:
    """Whether `decide_retention` copies every batch of a stretch, unless a record is superseded.

    It does under any rules if each batch has magic 2 and holds records, and none of these is a
    control record, aborted, without a key, or a tombstone. The first four arrays have shape (b,),
    the others (r,).
    """
    is_data = ~is_control & ~is_legacy & ~is_aborted & (records > 0)
    return bool(is_data.all() and has_key.all() and has_value.all())


def earliest_due_ms(batches: BatchColumns, retention: Retention, rules: RoundRules) -> int | None:
    """The earliest horizon at which a kept tombstone or control record may be removed; None: never.

    Horizons that had already passed do not count: what could be removed is removed. The exception
    is a tombstone that strategies other than `offset` keep until the records that it supersedes are
    gone. A batch keeps its horizon without its last tombstone, and does not count either.
    """
    at = batches.record_batch
    is_kept = retention.record == KEPT
    holds = np.zeros(len(batches.last_offset), np.bool_)
    holds[at[is_kept & (batches.is_control[at] | ~batches.has_value)]] = True
    holds_tombstone = np.zeros(len(holds), np.bool_)
    holds_tombstone[at[is_kept & ~batches.is_control[at] & ~batches.has_value]] = True
    had_passed = rules.limits.have_passed(batches.horizon_ms, batches.last_offset)
    is_due = holds & (~had_passed | holds_tombstone | rules.keeps_all)
    is_due &= retention.horizon_ms != NO_HORIZON
    horizons_ms = retention.horizon_ms[is_due]
    return int(horizons_ms.min()) if len(horizons_ms) else None


def latest_kept_ms(batches: BatchColumns, retention: Retention, rules: RoundRules) -> int | None:
    """The latest last timestamp of a producer for which a batch without records stays.

    None: there is none. Once that producer expires, all of these batches may go, in one rewrite.
    One that also ends the remote range stays anyway, and a producer with an open transaction does
    not expire.
    """
    is_kept = retention.record == KEPT
    kept = np.bincount(batches.record_batch[is_kept], minlength=len(batches.last_offset))
    waits = (kept == 0) & (batches.last_offset + 1 != rules.remote_end)
    waits &= _is_last_of_producer(batches, rules)
    is_of_one = np.isin(rules.producer_times[:, 0], batches.producer_id[waits])
    times_ms = rules.producer_times[is_of_one, 1]
    return int(times_ms.max()) if len(times_ms) else None


def is_emptied(
    *,
    is_legacy: NDArray[np.bool_],
    size_bytes: NDArray[np.int64],
    codec: NDArray[np.int8],
    has_delete_horizon: NDArray[np.bool_],
    base_timestamp_ms: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Shape (b,), as the arguments: batches that are already emptied.

    Kafka's `DefaultRecordBatch.writeEmptyHeader` writes magic 2, a header without records, no
    codec, no delete horizon (KIP-534) and no base timestamp. A batch without records in another
    form is emptied again.
    """
    return np.asarray(
        ~is_legacy
        & (size_bytes == BATCH_HEADER_BYTES)
        & (codec == _NO_CODEC)
        & ~has_delete_horizon
        & (base_timestamp_ms == NO_TIMESTAMP_MS),
        np.bool_,
    )
