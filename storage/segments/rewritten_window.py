"""What one window of a segment becomes in a rewrite.

`compaction.cleaning.record_retention` decides which records and batches are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.counts import KEPT, Counts, counts_of
from tierfold.compaction.cleaning.group_outcome import (
    RewriteReason,
    last_offset_of,
    reason_in_batches,
)
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.cleaning.record_retention import (
    BatchColumns,
    BatchRetention,
    RecordFacts,
    Retention,
    decide_retention,
    earliest_due_ms,
    latest_kept_ms,
    legacy_tombstones_go,
)
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.cleaning.transactions import is_marker
from tierfold.compaction.model.segments import Segment
from tierfold.storage.kafka.batch_headers import BatchHeads, read_heads
from tierfold.storage.kafka.batch_rewrite import rewrite_batches
from tierfold.storage.kafka.records import Records
from tierfold.storage.segments.key_indexing import IndexedWindow, indexed_rewrite, indexed_window
from tierfold.storage.segments.producer_replay import EndMarkers, end_markers_of
from tierfold.storage.segments.segment_scan import is_aborted_in
from tierfold.storage.segments.window import LogWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenWindow:
    """What one window of a segment became."""

    window: LogWindow
    data: NDArray[np.uint8]
    heads: BatchHeads
    """Of the batches in `data`, whose checksums were compared, or just computed."""
    reason: RewriteReason | None
    """The reason to rewrite the group; None: `data` are the source's bytes."""
    counts: Counts
    due_ms: int | None
    """When a kept tombstone or marker is due; None: never."""
    kept_ms: int | None
    """The last timestamp of a producer for which a batch without records stays; None: none does."""
    last_offset: int
    """Where the window ends, see `last_offset_of`."""
    indexed: IndexedWindow | None
    """What the key index needs of `data`; None: nothing, or there will be none."""
    markers: EndMarkers
    """Of the source."""


def rewritten_window(
    task: GroupTask,
    segment: Segment,
    window: LogWindow,
    records: Records,
    bits: NDArray[np.uint8],
    has_replay: bool,  # noqa: FBT001 - only a replay needs the markers
) -> RewrittenWindow:
    """What becomes of a window; `bits` are those of all records of the segment that are read.

    Raises CorruptLog for a record that is larger than the task allows.
    """
    heads = window.heads
    if task.rules.keeps_all:
        bits = np.zeros(window.records_end, np.uint8)
    bits = bits[window.first_record : window.records_end]
    if len(bits) < len(records):
        raise ValueError(f"{window.where} has more records than there are bits")
    types = window.control_types(records)
    retention, due_ms, kept_ms = _retention(_Source(task, segment, window, types), records, bits)
    reason = reason_in_batches(retention.batch)
    indexed = None
    if reason is None and not window.has_gaps:
        data, written = window.stored, heads
        if task.fpp is not None:
            indexed = indexed_window(heads, records, types)
    else:
        keep, horizon_ms = retention.record == KEPT, retention.horizon_ms
        new = rewrite_batches(window.data, heads, records, keep, retention.batch, horizon_ms)
        data = new.data
        written = read_heads(data, where=f"rewritten from {window.where}", check_crc=False)
        if task.fpp is not None and len(data):
            indexed = indexed_rewrite(written, records, types, new)
    return RewrittenWindow(
        window=window,
        data=data,
        heads=written,
        reason=reason,
        counts=_counts(records, retention, types),
        due_ms=due_ms,
        kept_ms=segment.kept_for_producer_ms if task.rules.keeps_all else kept_ms,
        last_offset=last_offset_of(heads.last_offset, heads.is_legacy, retention, records.offset),
        indexed=indexed,
        markers=end_markers_of(records, types) if has_replay else {},
    )


def _counts(records: Records, retention: Retention, types: NDArray[np.int16]) -> Counts:
    sizes = records.end - records.start
    of_marker = np.repeat(is_marker(types), np.diff(records.first_record))
    return replace(
        counts_of(len(records), int(sizes.sum()), retention.record, sizes),
        kept_markers=int(np.count_nonzero(of_marker & (retention.record == KEPT))),
    )


class _Source(NamedTuple):
    """The batches of a window that is being rewritten."""

    task: GroupTask
    segment: Segment
    window: LogWindow
    types: NDArray[np.int16]
    """Their `control_types`."""


def _retention(
    source: _Source, records: Records, bits: NDArray[np.uint8]
) -> tuple[Retention, int | None, int | None]:
    """What is kept of a window, `earliest_due_ms` and `latest_kept_ms`; raises CorruptLog."""
    task, segment, window, types = source
    heads = window.heads
    aborted, _ = is_aborted_in(heads, types, task.aborted)
    columns = BatchColumns(
        last_offset=heads.last_offset,
        producer_id=heads.producer_id,
        producer_epoch=heads.producer_epoch,
        is_control=heads.is_control,
        is_legacy=heads.is_legacy,
        is_emptied=heads.is_emptied,
        horizon_ms=heads.delete_horizon_ms,
        record_batch=records.batch,
        has_key=records.key_bytes >= 0,
        has_value=records.value_bytes >= 0,
    )
    facts = RecordFacts(
        aborted=aborted,
        discardable=heads.is_control & np.isin(heads.base_offset, task.discardable),
        superseded=(bits & SUPERSEDED).view(np.bool_),
        supersedes=(bits & SUPERSEDING) != 0,
        legacy_tombstones_go=legacy_tombstones_go(segment.max_timestamp_ms, task.rules),
    )
    retention = decide_retention(columns, facts, task.rules)
    # The scan has not looked at all of them; Kafka's cleaner reads those that it does not drop.
    is_read = retention.batch != BatchRetention.DROP
    window.refuse_large(records, is_read, task.record_bytes_max)
    due_ms = earliest_due_ms(columns, retention, task.rules)
    return retention, due_ms, latest_kept_ms(columns, retention, task.rules)
