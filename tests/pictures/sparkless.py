"""A round without Spark: calls the stages' functions one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.cleaning.key_blocks import (
    KeyBlock,
    deserialize,
    parts_per_bucket,
    serialize,
)
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING, superseded_in_bucket
from tierfold.compaction.cleaning.transactions import (
    TransactionBatches,
    TransactionStatus,
    joined_batches,
    transaction_status,
)
from tierfold.compaction.commits.receipts import GroupReceipt, GroupResult
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.empty_groups import merge_empty
from tierfold.jobs.pipeline.check_and_commit import Rewritten
from tierfold.jobs.pipeline.task_assignment import GroupOrder, Round, group_orders
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.segments.group_rewrite import RecordBits, rewrite_group
from tierfold.storage.segments.segment_scan import (
    ScannedSegment,
    ScanOrder,
    scan_segment,
    scan_transactions,
)
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, Part

Rewriter: TypeAlias = Callable[[LocalTieredStorage, GroupOrder, RecordBits], GroupReceipt]
"""How a group is rewritten; a test may have it done twice, or by somebody who dies over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A round up to its receipts; nothing of it is committed."""

    rewritten: Rewritten
    unindexed: tuple[AbortedTransaction, ...]
    """Those of which only their marker tells."""


def by_one_task(
    tier: LocalTieredStorage, order: GroupOrder, bits: RecordBits
) -> GroupReceipt:
    """Each group is rewritten once."""
    return rewrite_group(tier, order.task, bits)


def carried_out(
    tier: LocalTieredStorage, work: Round, *, buckets: int, rewrite: Rewriter = by_one_task
) -> Carried:
    """Stages 4 to 6 of one round; raises CorruptLog and UnreadableObject."""
    found = _read(tier, work, buckets)
    first = found.transaction_status
    if first.unindexed:
        entries = sorted(work.aborted + first.unindexed, key=lambda entry: entry.last_offset)
        work = replace(work, aborted=tuple(entries))
        found = _read(tier, work, buckets)
    receipts = _rewritten(tier, work, found, rewrite)
    is_empty = [receipt.result is GroupResult.EMPTY for receipt in receipts]
    if any(is_empty):
        joined = merge_empty(work.groups, is_empty)
        work = replace(work, groups=joined.groups)
        receipts = _rewritten(tier, work, found, rewrite, empty=joined.empty)
    return Carried(
        rewritten=Rewritten(
            round=work,
            receipts=receipts,
            records_scanned=sum(scan.records for scan in found.scans.values()),
            record_bytes_scanned=sum(scan.record_bytes for scan in found.scans.values()),
            unindexed=len(first.unindexed),
            malformed_versions=sum(scan.malformed_versions for scan in found.scans.values()),
        ),
        unindexed=first.unindexed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What the scan and the reduce tell."""

    scans: Mapping[str, ScannedSegment]
    """The sources, by segment id and in offset order."""
    transaction_status: TransactionStatus
    bits: Mapping[str, NDArray[np.uint8]]
    """Per segment id which records lose their key, and which make another one lose it."""


def _read(tier: LocalTieredStorage, work: Round, buckets: int) -> _Read:
    """Scan the source segments; read only the transaction batches of the others."""
    sources = {segment.segment_id for segment in work.segments}
    order = ScanOrder(
        first_dirty=work.first_dirty,
        buckets=buckets,
        versions=VersionSource(
            strategy=work.rules.compaction_strategy,
            header=work.rules.compaction_strategy_header,
        ),
    )
    scans: dict[str, ScannedSegment] = {}
    txn_batches: list[TransactionBatches] = []
    for _, segment in work.scanned:
        address = (work.key, segment.segment_id, segment.own_start_offset, Part.LOG)
        data, where = tier.read_log(work.key, segment), tier.uri(*address)
        if segment.segment_id in sources:
            scan = scan_segment(data, work.aborted, order, where=where)
            scans[segment.segment_id] = scan
            txn_batches.append(scan.txn_batches)
        else:
            txn_batches.append(scan_transactions(data, where=where))
    return _Read(
        scans=scans,
        transaction_status=transaction_status(joined_batches(txn_batches), work.aborted),
        bits=_record_bits(scans, buckets),
    )


def _record_bits(
    scans: Mapping[str, ScannedSegment], buckets: int
) -> dict[str, NDArray[np.uint8]]:
    bits = {segment_id: scan.own_bits.copy() for segment_id, scan in scans.items()}
    met: dict[int, list[tuple[str, KeyBlock]]] = defaultdict(list)
    for segment_id, scan in scans.items():
        for bucket, block in scan.blocks:
            met[bucket].append((segment_id, deserialize(serialize(block))))
    for blocks in met.values():
        parts = parts_per_bucket(buckets)
        results = superseded_in_bucket([block for _, block in blocks], buckets, parts)
        for (segment_id, _), result in zip(blocks, results, strict=True):
            bits[segment_id][result.superseded] |= SUPERSEDED
            bits[segment_id][result.superseding] |= SUPERSEDING
    return bits


def _rewritten(
    tier: LocalTieredStorage,
    work: Round,
    found: _Read,
    rewrite: Rewriter,
    *,
    empty: frozenset[int] = frozenset(),
) -> tuple[GroupReceipt, ...]:
    def bits(segment: Segment, _: int) -> NDArray[np.uint8]:
        return found.bits[segment.segment_id]

    orders = group_orders(
        work,
        found.transaction_status,
        wanted=dict(enumerate(work.groups)),
        empty=empty,
    )
    return tuple(rewrite(tier, order, bits) for order in orders)
