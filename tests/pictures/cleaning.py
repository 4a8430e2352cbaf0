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
from compaction.plan import Choice, Compact, propose
from compaction.receipts import GroupReceipt, GroupResult, receipt_faults
from compaction.regions import LastStable, Regions, last_stable_of, regions_of
from compaction.rules import Rules
from compaction.segments import CleanerOffset, PartitionState, Segment
from compaction.tally import Tally, total
from compaction.transactions import TransactionVerdict, joined_marks, verdict
from compaction.view import PartitionView
from compaction.winners import LOST, WON, bucket_contest
from jobs.rounds import Round, group_orders
from storage.first_sight import read_aborted, read_snapshot
from storage.group_rewrite import rewrite_group
from storage.local_tiered_storage import Part
from storage.record_versions import VersionSource
from storage.segment_scan import ScannedSegment, ScanOrder, scan_marks, scan_segment
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
    clean_until: int | None = None,
    is_last_chunk: bool = True,
) -> Pass:
    """The same, with what the workers said; `clean_until`: where it is below `first_dirty`."""
    each = replace(_round(log, now_ms, rules, first_dirty), is_last_chunk=is_last_chunk)
    if clean_until is not None:
        vector = (CleanerOffset(epoch=1, offset=clean_until),)
        each = replace(each, state=replace(each.state, cleaner_offsets=vector))
    return _carried_out(log, each)


def seen(log: Log, *, cleaner_offset: int | None = None) -> PartitionView:
    """The picture as planning sees it; clean below `cleaner_offset`."""
    offsets = () if cleaner_offset is None else (CleanerOffset(epoch=1, offset=cleaner_offset),)
    return PartitionView(
        key=KEY,
        state=replace(_state(log), cleaner_offsets=offsets),
        segments=log.segments,
        new_ids=(),
        orphans=(),
        out_of_lineage=(),
        retired=(),
        lineage=log.lineage,
        log_start_offset=log.segments[0].start_offset,
    )


def last_stable(log: Log) -> LastStable | None:
    """The oldest transaction that the newest segment's snapshot calls open."""
    return last_stable_of(read_snapshot(log.tier, KEY, log.segments[-1]))


def planned(
    log: Log, *, cleaner_offset: int | None = None, now_ms: int = 0, rules: Rules = RULES
) -> Choice:
    """What planning chooses for the picture."""
    view = seen(log, cleaner_offset=cleaner_offset)
    regions = regions_of(view, last_stable(log), rules, now_ms)
    assert isinstance(regions, Regions)
    return propose(view, rules, regions, now_ms)


def swept(log: Log, *, now_ms: int, rules: Rules = RULES) -> Log:
    """A log that is clean to its end, after the round that its passed delete horizons call for."""
    plan = planned(log, cleaner_offset=log.segments[-1].next_offset, now_ms=now_ms, rules=rules)
    assert isinstance(plan, Compact)
    assert plan.is_partial
    each = replace(
        _round(log, now_ms, rules, plan.first_dirty),
        end_offset=plan.end_offset,
        groups=plan.groups,
        is_partial=True,
    )
    return _carried_out(log, each).log


def _carried_out(log: Log, each: Round) -> Pass:
    scans = _scans(log, each)
    first_verdict = _verdict(log, each, scans)
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
    faults = receipt_faults(
        each.groups,
        receipts,
        records_scanned=sum(scan.records for scan in scans),
        record_bytes_scanned=sum(scan.record_bytes for scan in scans),
    )
    assert faults == ()
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
        state=replace(
            _state(log), cleaner_offsets=(CleanerOffset(epoch=1, offset=first_dirty),)
        ),
        first_dirty=first_dirty,
        end_offset=log.end_offset,
        groups=grouped(inside, rules),
        rules=rules,
        aborted=tuple(entries),
        producers=read_snapshot(log.tier, KEY, log.segments[-1]),
        now_ms=now_ms,
    )


def _state(log: Log) -> PartitionState:
    return PartitionState(
        key=KEY,
        epoch=1,
        owner_run="a run",
        cleaner_offsets=(),
        log_start_offset=log.segments[0].start_offset,
        segments=log.segments,
        lineage=log.lineage,
    )


def _verdict(log: Log, each: Round, scans: Sequence[ScannedSegment]) -> TransactionVerdict:
    """By the marks of all that lives: those of segments beside the round decide within it."""
    found = {s.segment_id: scan.marks for s, scan in zip(each.segments, scans, strict=True)}
    marks = [
        found[segment.segment_id]
        if segment.segment_id in found
        else scan_marks(
            log.tier.read_part(KEY, segment.segment_id, segment.start_offset, Part.LOG),
            where="a picture",
        )
        for segment in log.segments
    ]
    return verdict(joined_marks(marks), each.aborted)


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
        _verdict(log, each, scans),
        wanted=dict(enumerate(each.groups)),
        close=each.must_close(is_joined=is_again),
    )
    return tuple(
        rewrite_group(log.tier, order.task, lambda segment, _: standing[segment.segment_id])
        for order in orders
    )


def _after(log: Log, each: Round, receipts: Sequence[GroupReceipt]) -> Log:
    """What lives once the round is committed."""
    sources = {segment.segment_id for segment in each.segments}
    live = [segment for segment in log.segments if segment.segment_id not in sources]
    for group, receipt in zip(each.groups, receipts, strict=True):
        live += group.segments if receipt.segment is None else (receipt.segment,)
    return replace(log, segments=tuple(sorted(live, key=lambda segment: segment.start_offset)))
