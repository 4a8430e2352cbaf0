"""Cleans a drawn log in one round: the product's own stages 4 to 7, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import pytest

from tests.compaction.hash_keys import FINGERPRINT, HASH_KEY
from tests.pictures.log_pictures import INDEX_INTERVAL_BYTES, KEY, Log
from tests.pictures.one_thread import OneThreadExecutor
from tierfold.compaction.cleaning.counts import Counts, total
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import CleanerOffset, PartitionState
from tierfold.compaction.planning.eligibility import DirtyRatio
from tierfold.compaction.planning.grouping import grouped
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Choice, Compact, CompactReason, propose
from tierfold.compaction.planning.regions import LastStable, Regions, last_stable_of, regions_of
from tierfold.jobs.context.byte_progress import unheard
from tierfold.jobs.context.stage_seconds import StageSeconds
from tierfold.jobs.engines import rewrite, rows, task_assignment
from tierfold.jobs.engines.rows import failure
from tierfold.jobs.pipeline.check_and_commit import violation_of
from tierfold.jobs.pipeline.round_execution import RoundResult, executed
from tierfold.storage.segments.segment_metadata import read_aborted, read_snapshot
from tierfold.storage.tiers.remote_tier import RemoteTier

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
_CORES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The result of a round."""

    log: Log
    receipts: tuple[GroupReceipt, ...]
    unindexed: tuple[AbortedTransaction, ...]
    malformed_versions: int = 0

    @property
    def counts(self) -> Counts:
        """The counts of all groups together."""
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
    """The same, with the tasks' receipts; `clean_until`: the clean end if below `first_dirty`."""
    compact = replace(_compact(log, rules, first_dirty), is_last=is_last_chunk)
    clean_until = first_dirty if clean_until is None else clean_until
    return _carried_out(log, _round(log, now_ms, rules, compact, clean_until))


def seen(log: Log, *, cleaner_offset: int | None = None) -> PartitionView:
    """The view of a log that is clean below `cleaner_offset`."""
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
    """The oldest open transaction, by the newest segment's snapshot."""
    return last_stable_of(read_snapshot(log.tier, KEY, log.segments[-1]))


def planned(
    log: Log, *, cleaner_offset: int | None = None, now_ms: int = 0, rules: Rules = RULES
) -> Choice:
    """The choice that planning makes for the log."""
    view = seen(log, cleaner_offset=cleaner_offset)
    regions = regions_of(view, last_stable(log), rules, now_ms)
    assert isinstance(regions, Regions)
    return propose(view, rules, regions, now_ms)


def vacuumed(log: Log, *, now_ms: int, rules: Rules = RULES) -> Log:
    """The log after a round for delete horizons alone; before it all of the log is clean."""
    plan = planned(log, cleaner_offset=log.segments[-1].next_offset, now_ms=now_ms, rules=rules)
    assert isinstance(plan, Compact)
    assert plan.is_partial
    return _carried_out(log, _round(log, now_ms, rules, plan, plan.first_dirty)).log


def round_done(tier: RemoteTier, work: Round) -> RoundResult:
    """The checked result of a round."""
    with _several_buckets(work), _errors_of_stages() as errors:
        executor = OneThreadExecutor(tier, unheard, _CORES)
        (done,) = executed(executor, [work], StageSeconds())
    if errors:
        assert done.failure is not None
        raise errors[0]
    assert violation_of(done, tier) is None
    return done


def _carried_out(log: Log, work: Round) -> Pass:
    done = round_done(log.tier, work)
    indexed = set(work.aborted)
    unindexed = tuple(entry for entry in done.round.aborted if entry not in indexed)
    assert len(unindexed) == done.unindexed
    return Pass(
        log=_after(log, done),
        receipts=done.receipts,
        unindexed=unindexed,
        malformed_versions=done.scan.malformed_versions,
    )


@contextmanager
def _several_buckets(work: Round) -> Iterator[None]:
    """Split the keys of a small log into several buckets, as a large log's are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_assignment, "BUCKET_BYTES", -(-work.size_bytes // _BUCKETS))
        assert task_assignment.buckets_of(work.size_bytes) == _BUCKETS
        yield


@contextmanager
def _errors_of_stages() -> Iterator[list[Exception]]:
    """Collect the errors of tasks; a round's failure has only their text."""
    errors: list[Exception] = []

    def collected(error: Exception, where: str) -> bytes:
        errors.append(error)
        return failure(error, where)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "failure", collected)
        patch.setattr(rewrite, "failure", collected)
        yield errors


def _compact(log: Log, rules: Rules, first_dirty: int) -> Compact:
    inside = log.segments[:-1] if log.is_last_beyond else log.segments
    size_bytes = sum(segment.size_bytes for segment in inside)
    return Compact(
        key=KEY,
        reason=CompactReason.DIRTY,
        detail="",
        first_dirty=first_dirty,
        next_offset=log.next_offset,
        groups=grouped(inside, rules),
        ratio=DirtyRatio(clean_bytes=0, cleanable_bytes=size_bytes),
        bytes_in=size_bytes,
        bytes_out_estimate=size_bytes,
    )


def _round(
    log: Log, now_ms: int, rules: Rules, compact: Compact, clean_until: int
) -> Round:
    # Markers beyond the round decide transactions within it.
    entries = [t for segment in log.segments for t in read_aborted(log.tier, KEY, segment)]
    vector = (CleanerOffset(epoch=1, offset=clean_until),)
    return Round(
        hash_key=HASH_KEY,
        fingerprint=FINGERPRINT,
        index=0,
        state=replace(_state(log), cleaner_offsets=vector),
        plan=PartitionPlan(
            key=KEY,
            rules=rules,
            choice=compact,
            producers=read_snapshot(log.tier, KEY, log.segments[-1]),
        ),
        aborted=tuple(entries),
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


def _after(log: Log, done: RoundResult) -> Log:
    """The log as the commit of the round leaves it."""
    sources = {segment.segment_id for segment in done.round.compact.sources}
    live = [segment for segment in log.segments if segment.segment_id not in sources]
    for group, receipt in zip(done.round.groups, done.receipts, strict=True):
        live += group.segments if receipt.segment is None else (receipt.segment,)
    return replace(log, segments=tuple(sorted(live, key=lambda segment: segment.start_offset)))
