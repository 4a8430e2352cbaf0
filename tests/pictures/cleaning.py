"""One round over a picture: the functions that the stages of a run call, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from compaction.aborted import AbortedTransaction
from compaction.absorption import absorbed
from compaction.grouping import grouped
from compaction.key_blocks import KeyBlock, pack, parts_per_bucket, unpack
from compaction.receipts import GroupReceipt, GroupResult, receipt_faults
from compaction.rules import Rules
from compaction.segments import PartitionState, Segment
from compaction.tally import Tally, total
from compaction.transactions import joined_marks, verdict
from compaction.winners import LOST, WON, bucket_contest
from jobs.rounds import Round, group_orders
from storage.first_sight import read_aborted, read_snapshot
from storage.group_rewrite import rewrite_group
from storage.local_tiered_storage import Part
from storage.record_versions import VersionSource
from storage.segment_scan import ScannedSegment, ScanOrder, scan_segment
from tests.pictures.log_pictures import INDEX_INTERVAL_BYTES, KEY, Log

RETENTION_MS: Final = 1000
RULES: Final = Rules(
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=RETENTION_MS,
    producer_id_expiration_ms=100_000,
    index_interval_bytes=INDEX_INTERVAL_BYTES,
)
APART: Final = replace(RULES, segment_bytes=1)
"""Every segment is a group of its own."""

_BUCKETS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A round that is over."""

    log: Log
    receipts: tuple[GroupReceipt, ...]
    believed: tuple[AbortedTransaction, ...]
    malformed_versions: int = 0

    @property
    def tally(self) -> Tally:
        """What became of every record."""
        return total(receipt.tally for receipt in self.receipts)


def cleaned(log: Log, *, now_ms: int = 0, rules: Rules = RULES, first_dirty: int = 0) -> Log:
    """The log after a round; records at or above `first_dirty` compete."""
    return passed(log, now_ms=now_ms, rules=rules, first_dirty=first_dirty).log


def passed(
    log: Log,
    *,
    now_ms: int = 0,
    rules: Rules = RULES,
    first_dirty: int = 0,
    is_last_chunk: bool = True,
) -> Pass:
    """The same, with what the workers said."""
    each = replace(_round(log, now_ms, rules, first_dirty), is_last_chunk=is_last_chunk)
    scans = _scans(log, each)
    first_verdict = verdict(joined_marks([scan.marks for scan in scans]), each.aborted)
    believed = first_verdict.believed
    if believed:
        entries = sorted(each.aborted + believed, key=lambda entry: entry.last_offset)
        each = replace(each, aborted=tuple(entries))
        scans = _scans(log, each)
    standing = _standing(each.segments, scans)
    receipts = _rewritten(log, each, scans, standing, is_again=False)
    is_empty = [receipt.result is GroupResult.EMPTY for receipt in receipts]
    if any(is_empty):
        each = replace(each, groups=absorbed(each.groups, is_empty))
        receipts = _rewritten(log, each, scans, standing, is_again=True)
    assert receipt_faults(each.groups, receipts, sum(scan.records for scan in scans)) == ()
    return Pass(
        log=_after(log, each, receipts),
        receipts=receipts,
        believed=believed,
        malformed_versions=sum(scan.malformed_versions for scan in scans),
    )


def _round(log: Log, now_ms: int, rules: Rules, first_dirty: int) -> Round:
    inside = log.segments[:-1] if log.is_last_beyond else log.segments
    # Markers beyond the round decide transactions within it.
    entries = [t for each in log.segments for t in read_aborted(log.tier, KEY, each)]
    return Round(
        index=0,
        state=PartitionState(
            key=KEY,
            epoch=1,
            owner_run="a run",
            cleaner_offsets=(),
            log_start_offset=log.segments[0].start_offset,
            segments=log.segments,
            lineage=log.lineage,
        ),
        first_dirty=first_dirty,
        end_offset=log.end_offset,
        groups=grouped(inside, rules),
        rules=rules,
        aborted=tuple(entries),
        producers=read_snapshot(log.tier, KEY, log.segments[-1]),
        now_ms=now_ms,
    )


def _scans(log: Log, each: Round) -> list[ScannedSegment]:
    return [
        scan_segment(
            log.tier.read_part(KEY, segment.segment_id, segment.start_offset, Part.LOG),
            each.aborted,
            ScanOrder(
                first_dirty=each.first_dirty,
                buckets=_BUCKETS,
                versions=VersionSource(
                    strategy=each.rules.compaction_strategy,
                    header=each.rules.compaction_strategy_header,
                ),
            ),
            where="a picture",
        )
        for segment in each.segments
    ]


def _standing(
    segments: Sequence[Segment], scans: Sequence[ScannedSegment]
) -> dict[str, NDArray[np.uint8]]:
    """Per segment id which records lose their key, and which make another one lose it."""
    standing = {
        s.segment_id: scan.own_standing.copy() for s, scan in zip(segments, scans, strict=True)
    }
    met: dict[int, list[tuple[str, KeyBlock]]] = defaultdict(list)
    for segment, scan in zip(segments, scans, strict=True):
        for bucket, block in scan.blocks:
            met[bucket].append((segment.segment_id, unpack(pack(block))))
    for blocks in met.values():
        parts = parts_per_bucket(_BUCKETS)
        contest = bucket_contest([block for _, block in blocks], _BUCKETS, parts)
        for (segment_id, _), told in zip(blocks, contest, strict=True):
            standing[segment_id][told.lost] |= LOST
            standing[segment_id][told.won] |= WON
    return standing


def _rewritten(
    log: Log,
    each: Round,
    scans: Sequence[ScannedSegment],
    standing: dict[str, NDArray[np.uint8]],
    *,
    is_again: bool,
) -> tuple[GroupReceipt, ...]:
    orders = group_orders(
        each,
        verdict(joined_marks([scan.marks for scan in scans]), each.aborted),
        wanted=dict(enumerate(each.groups)),
        close=each.must_close(is_joined=is_again),
    )
    return tuple(
        rewrite_group(log.tier, order.task, lambda segment, _: standing[segment.segment_id])
        for order in orders
    )


def _after(log: Log, each: Round, receipts: Sequence[GroupReceipt]) -> Log:
    """What lives once the round is committed."""
    live: list[Segment] = []
    for group, receipt in zip(each.groups, receipts, strict=True):
        live += group.segments if receipt.segment is None else (receipt.segment,)
    beyond = log.segments[-1:] if log.is_last_beyond else ()
    return replace(log, segments=(*live, *beyond))
