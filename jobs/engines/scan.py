"""Stage 4: reads every segment of the round once; emits packed keys, bitmaps and counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tierfold.compaction.cleaning.batch_outline import is_worth_sending, serialize_outline
from tierfold.compaction.cleaning.group_outcome import PlainSegment
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.cleaning.transactions import TransactionBatches, joined_batches
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.skipping.probe_counts import NO_PROBES, ProbeCounts
from tierfold.compaction.skipping.segment_facts import SegmentFacts
from tierfold.compaction.skipping.skip_decision import CompetingKeys
from tierfold.jobs.engines.rows import Found, Row, RowKind, SegmentStage, Worker, pickled
from tierfold.storage.clock import elapsed_s
from tierfold.storage.segments.index_reason import outlined_batches
from tierfold.storage.segments.log_windows import live_log
from tierfold.storage.segments.segment_metadata import has_corrupt_index
from tierfold.storage.segments.segment_scan import ScanOrder, scan_segment, scan_transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Everything that a worker needs to scan one segment."""

    key: PartitionKey
    segment: Segment
    aborted: tuple[AbortedTransaction, ...]
    """Aborted transactions that reach into the segment."""
    order: ScanOrder | None
    """None: only its transaction batches are read, because the segment is not a source."""
    batch_bytes_max: int = 0
    """The rules' `decompressed_batch_max_bytes`; 0: not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSummary:
    """The driver's summary of a scanned segment, or of all segments of a round."""

    txn_batches: TransactionBatches
    records: int = 0
    """Of sources only, like the other counts."""
    record_bytes: int = 0
    """Uncompressed."""
    malformed_versions: int = 0
    without_key: int = 0
    log_bytes: int = 0
    """Of all `.log`s that were read."""
    plain: tuple[tuple[int, PlainSegment], ...] = ()
    """The plain segments, each with its index among the live segments; none whose offset index is
    wrong and could not be checked by its outline."""
    unread: tuple[tuple[int, SegmentFacts], ...] = ()
    """The sources whose keys were not read, each with its index among the live segments."""
    spared: tuple[tuple[str, int], ...] = ()
    """Their ids, each with an upper bound of the superseded bytes that the round left in it."""
    probes: ProbeCounts = NO_PROBES
    task_ms: int = field(default=0, compare=False)
    """How long the workers scanned."""


TOO_MANY: Final = b"-"
"""The payload of a COMPETING row if the segment has more keys than the driver accepts."""

_COUNTS: Final = ("records", "record_bytes", "malformed_versions", "without_key")
"""The counts that a `ScannedSegment` also has."""

_SUMMED: Final = (*_COUNTS, "log_bytes", "task_ms")


def summed(found: Sequence[ScanSummary]) -> ScanSummary:
    """Return the summary of a round from those of its segments, in offset order."""
    counts = {name: sum(getattr(one, name) for one in found) for name in _SUMMED}
    return ScanSummary(
        txn_batches=joined_batches([one.txn_batches for one in found]),
        plain=tuple(plain for one in found for plain in one.plain),
        unread=tuple(unread for one in found for unread in one.unread),
        spared=tuple(spared for one in found for spared in one.spared),
        probes=sum((one.probes for one in found), NO_PROBES),
        **counts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStage(SegmentStage):
    """SCAN rows → KEYS, OWN_…, OUTLINE, COMPETING, and SCANNED or FAILED rows."""

    def found(self, worker: Worker, row: Row, task: ScanTask, /) -> Iterator[Found]:
        """Scan a source in full, and any other segment only for its transaction batches."""
        began_s = elapsed_s()
        log = live_log(
            worker.tier, task.key, task.segment, task.batch_bytes_max, worker.proceed
        )
        log_bytes = task.segment.size_bytes
        if task.order is None:
            summary = ScanSummary(txn_batches=scan_transactions(log), log_bytes=log_bytes)
            yield RowKind.SCANNED, 0, pickled(summary)
            return
        scanned = scan_segment(log, task.aborted, task.order)
        for bucket, block in scanned.blocks:
            yield RowKind.KEYS, bucket, block
        # The reduce stage passes these on unchanged; its tasks share them.
        bucket = row.segment_index % task.order.buckets
        bits = scanned.own_bits
        yield RowKind.OWN_SUPERSEDED, bucket, np.packbits(bits & SUPERSEDED).tobytes()
        if (bits & SUPERSEDING).any():
            yield RowKind.OWN_SUPERSEDING, bucket, np.packbits(bits & SUPERSEDING).tobytes()
        plain = scanned.plain
        if is_worth_sending(scanned.outline, log_bytes):
            yield RowKind.OUTLINE, bucket, serialize_outline(scanned.outline)
        elif plain is not None:  # Without an outline a rewrite cannot check the index unread.
            batches = outlined_batches(task.segment, scanned.outline)
            if has_corrupt_index(worker.tier, task.key, task.segment, batches):
                plain = None
        if scanned.competing is not None:
            yield RowKind.COMPETING, bucket, _sent(scanned.competing, task.order.competing_max)
        is_clean = task.segment.next_offset <= task.order.first_dirty
        stays = is_clean or scanned.loses_nothing
        if task.order.fpp is not None and worker.key_indexes is not None and stays:
            built = scanned.indexing.built(task.segment, task.order.fpp)
            if built is not None:
                worker.key_indexes.write(task.key, *built)
        counts = {name: getattr(scanned, name) for name in _COUNTS}
        summary = ScanSummary(
            txn_batches=scanned.txn_batches,
            log_bytes=log_bytes,
            task_ms=round(1000 * (elapsed_s() - began_s)),
            plain=() if plain is None else ((row.segment_index, plain),),
            **counts,
        )
        yield RowKind.SCANNED, bucket, pickled(summary)


def _sent(competing: CompetingKeys, most: int) -> bytes:
    """The payload of a COMPETING row."""
    return competing.words.tobytes() if len(competing) <= most else TOO_MANY
