"""Cleans a drawn log in one round, with the stages' functions but without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.pictures.log_pictures import INDEX_INTERVAL_BYTES, KEY, Log
from tests.pictures.sparkless import carried_out
from tierfold.compaction.cleaning.counts import Counts, total
from tierfold.compaction.commits.receipts import GroupReceipt, receipt_violations
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import CleanerOffset, PartitionState
from tierfold.compaction.planning.grouping import grouped
from tierfold.compaction.planning.plan import Choice, Compact, propose
from tierfold.compaction.planning.regions import LastStable, Regions, last_stable_of, regions_of
from tierfold.jobs.pipeline.task_assignment import Round
from tierfold.storage.segments.segment_metadata import read_aborted, read_snapshot

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
    unindexed: tuple[AbortedTransaction, ...]
    malformed_versions: int = 0

    @property
    def counts(self) -> Counts:
        """What became of every record."""
        return total(receipt.counts for receipt in self.receipts)


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
    round_ = replace(_round(log, now_ms, rules, first_dirty), is_last_chunk=is_last_chunk)
    if clean_until is not None:
        vector = (CleanerOffset(epoch=1, offset=clean_until),)
        round_ = replace(round_, state=replace(round_.state, cleaner_offsets=vector))
    return _carried_out(log, round_)


def seen(log: Log, *, cleaner_offset: int | None = None) -> PartitionView:
    """The picture as planning sees it; clean below `cleaner_offset`."""
    offsets = () if cleaner_offset is None else (CleanerOffset(epoch=1, offset=cleaner_offset),)
    return PartitionView(
        key=KEY,
        state=replace(_state(log), cleaner_offsets=offsets),
        segments=log.segments,
        orphans=(),
        set_apart=(),
        waiting=(),
        stalled_since_ms=None,
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


def vacuumed(log: Log, *, now_ms: int, rules: Rules = RULES) -> Log:
    """A log that is clean to its end, after the round that its passed delete horizons call for."""
    plan = planned(log, cleaner_offset=log.segments[-1].next_offset, now_ms=now_ms, rules=rules)
    assert isinstance(plan, Compact)
    assert plan.is_partial
    round_ = replace(
        _round(log, now_ms, rules, plan.first_dirty),
        next_offset=plan.next_offset,
        groups=plan.groups,
        is_partial=True,
    )
    return _carried_out(log, round_).log


def _carried_out(log: Log, work: Round) -> Pass:
    carried = carried_out(log.tier, work, buckets=_BUCKETS)
    done = carried.rewritten
    faults = receipt_violations(
        done.round.groups,
        done.receipts,
        records_scanned=done.records_scanned,
        record_bytes_scanned=done.record_bytes_scanned,
    )
    assert faults == ()
    return Pass(
        log=_after(log, done.round, done.receipts),
        receipts=done.receipts,
        unindexed=carried.unindexed,
        malformed_versions=done.malformed_versions,
    )


def _round(log: Log, now_ms: int, rules: Rules, first_dirty: int) -> Round:
    inside = log.segments[:-1] if log.is_last_beyond else log.segments
    # Markers beyond the round decide transactions within it.
    entries = [t for segment in log.segments for t in read_aborted(log.tier, KEY, segment)]
    return Round(
        index=0,
        state=replace(
            _state(log), cleaner_offsets=(CleanerOffset(epoch=1, offset=first_dirty),)
        ),
        first_dirty=first_dirty,
        next_offset=log.next_offset,
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


def _after(log: Log, work: Round, receipts: Sequence[GroupReceipt]) -> Log:
    """What lives once the round is committed."""
    sources = {segment.segment_id for segment in work.segments}
    live = [segment for segment in log.segments if segment.segment_id not in sources]
    for group, receipt in zip(work.groups, receipts, strict=True):
        live += group.segments if receipt.segment is None else (receipt.segment,)
    return replace(log, segments=tuple(sorted(live, key=lambda segment: segment.start_offset)))
