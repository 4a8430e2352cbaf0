"""`tierfold restore`: makes an earlier state of a partition live again, by a fenced commit.

    rows -> target state -> restore plan -> check the objects -> claim, commit, release -> report

Nothing is written before the claim. A live run that holds the partition keeps it, unless the user
insists; the claim fences any other one. With
`--copy`, segments are copied between claim and commit, so that no retired id is live again.
Without Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.brokers.beside_catalog import BesideCatalog, beside_catalog
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.commits.commit import (
    CommitProposal,
    SegmentsAreLive,
    SegmentsAreRetired,
    Update,
    proposed,
)
from tierfold.compaction.commits.history import Entry, at, left_by
from tierfold.compaction.commits.holders import Skip, Wait
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of, served_restore
from tierfold.compaction.discovery.listing import corrupted_parts
from tierfold.compaction.discovery.view import Refusal, RefusalReason, first_few, never_claimed
from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.jobs.context.byte_progress import Step
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import Stopped, check, deferred
from tierfold.jobs.context.tier_identity import run_binding, tier_identity
from tierfold.jobs.context.timestamps import timestamp_ms_of, timestamp_text
from tierfold.jobs.pipeline.claim_report import refused_for
from tierfold.jobs.pipeline.known_partition import KnownPartition, left_alone, refusal_of
from tierfold.jobs.pipeline.partition_report import (
    LEFT,
    NOTHING_TO_DO,
    PLANNED,
    RESTORED,
    PartitionReport,
    Reporting,
)
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import inspected, known_by_name, with_identity
from tierfold.jobs.publishing.segment_copies import SegmentCopies, copied_segments, lack_of_space
from tierfold.jobs.verbs.history import claim_sentence, past_of
from tierfold.jobs.verbs.row_change import changed_row, holder_of, noted_binding, refused
from tierfold.jobs.verbs.waiting import freed
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.clock import now_ms
from tierfold.storage.kafka.compression import PLAIN_BYTES_MAX
from tierfold.storage.segments.lookahead import mapped_ahead
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check

CHECKERS: Final = min(8, os.cpu_count() or 1)
"""Segments that are read in parallel: kernels release the GIL."""

SHOWN_MAX: Final = 5
"""Maximum corruptions, or runs, that a sentence lists."""

_INDEX_INTERVAL_BYTES: Final = 4096
"""Only used to compare an index with the one that tierfold would build; ignored here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(Reporting):
    """The outcome of `restore`."""

    report: PartitionReport
    """`segments_in` and `bytes_in` are retired by it, `segments_out` and `bytes_out` come back."""
    row: PartitionState | None = None
    """The row as it was read; None: it cannot be restored."""
    target: Entry | None = None
    """The target state; None: there is none."""
    restore_plan: RestorePlan | None = None
    """The changes to make; None: the restore is impossible."""
    is_copy: bool = False
    """Whether copies come back, and the retired segments stay retired."""
    copies: tuple[Segment, ...] = ()
    """The copies that are live now, in the order of the plan's `back`."""
    brokers: BrokerPartition | None = None
    """What brokers have of it; None: none were asked."""
    beside: BesideCatalog | None = None
    """How that differs from the row; None: none were asked."""


def restore(
    context: RunContext,
    name: str,
    to: str,
    *,
    is_dry_run: bool = False,
    is_copy: bool = False,
) -> Restored:
    """Restore the partition `name` to its state at the time `to`, or after the run `to`.

    `is_copy`: what comes back is copied under new ids, and no retired id is live again.
    A dry run checks names and sizes, and changes nothing. Raises BadSettings if `name` or `to`
    matches nothing, TierfoldError if the catalog or the tier's note is unreadable.
    """
    started_at_ms = now_ms()
    with context.seconds.timed(TimedStage.SURVEY), context.progress.survey():
        found = _planned_restore(context, name, to, is_copy=is_copy)
    if is_dry_run:
        return found
    try:
        if found.row is not None and found.report.outcome == PLANNED:
            match holder_of(context, found.row, "restore"):
                case Skip(holder=holder):
                    found = replace(found, report=refused_for(found.report, holder))
                case Wait():
                    freed(context, [found.key], "restore")
                    found = _planned_restore(context, name, to, is_copy=is_copy)
        if found.report.outcome == PLANNED:
            size_bytes = found.report.bytes_out
            context.progress.begin(1, size_bytes)
            with context.progress.wave(size_bytes, passes=2 if found.is_copy else 1):
                found = _carried_out(context, found)
    except Stopped as stopped:
        reason = f"stopped by {stopped.by}; nothing was changed"
        left = replace(found.report, outcome=LEFT, reason=reason)
        keep_record(context, [(0, left)], started_at_ms, "restore")
        raise
    with deferred():
        keep_record(context, [(0, found.report)], started_at_ms, "restore")
    return found


def _carried_out(context: RunContext, found: Restored) -> Restored:
    """Check the segments that come back, copy them if so asked, and commit.

    Raises Stopped during the check, and between two copies.
    """
    row, restore_plan = found.row, found.restore_plan
    if row is None or restore_plan is None:
        raise ValueError(f"{found.key}: a planned restore has a row and a plan")
    bytes_read = sum(segment.size_bytes for segment in restore_plan.back)
    with context.seconds.timed(TimedStage.CHECK):
        corruptions = _corruptions(context, row.key, restore_plan)
    if corruptions:
        report = replace(refused(row.key, _corrupt(corruptions)), bytes_read=bytes_read)
        return replace(found, report=report)
    copies = SegmentCopies()

    def propose(claimed: PartitionState) -> CommitProposal | Refusal:
        nonlocal copies
        if found.is_copy:
            try:
                with context.seconds.timed(TimedStage.REWRITE):
                    copies = copied_segments(
                        context, claimed.key, restore_plan.back, is_restored=True
                    )
            except TierfoldError as error:
                return refusal_of(error, str(claimed.key))
        at_ms = context.clock()
        binding = noted_binding(context, claimed, at_ms)
        return restore_proposal(restore_plan, claimed, at_ms, copies.segments, binding)

    with deferred():
        report = changed_row(context, row, found.report, propose, RESTORED, "restore")
    report = replace(
        report,
        bytes_read=bytes_read,
        objects_written=copies.objects,
        bytes_written=copies.stored_bytes,
        parts_verified=copies.verified,
    )
    is_restored = report.outcome == RESTORED
    return replace(found, report=report, copies=copies.segments if is_restored else ())


def _planned_restore(context: RunContext, name: str, to: str, *, is_copy: bool) -> Restored:
    """Decide from the catalog, a listing and what brokers have, if they were asked."""
    known = known_by_name(context, name, where=context.tier_uri)
    found = _planned_of(context, known, to, is_copy=is_copy)
    if known.brokers is None:
        return found
    row = known.state or never_claimed(known.key)
    beside = beside_catalog(
        known.brokers.view, known.brokers.naming, live=row.live_ids, retired=row.retired_ids
    )
    return replace(found, brokers=known.brokers, beside=beside)


def _refused_beside(context: RunContext, known: KnownPartition) -> Refusal | None:
    """The refusal if brokers serve the row, or do not fit it; None: they do, or none were asked."""
    if known.brokers is None:
        return None
    found = served_restore(known.state) or inspected(context, known)
    return found if isinstance(found, Refusal) else None


def _planned_of(context: RunContext, known: KnownPartition, to: str, *, is_copy: bool) -> Restored:
    key = known.key
    if known.is_left_alone:
        reason = left_alone(known)
        return Restored(report=PartitionReport(key=key, outcome=NOTHING_TO_DO, reason=reason))
    known = with_identity(known, tier_identity(context, run_binding(context)))
    if (refusal := known.refusal or _refused_beside(context, known)) is not None:
        return Restored(report=refused(key, refusal))
    past = past_of(context, key)
    if past is None:
        raise BadSettings(
            f"no run has touched {key}, so the catalog has no earlier state of it",
            where="--to",
            remedy="There is nothing to restore.",
        )
    newest, entries = past
    time_ms = timestamp_ms_of(to, where="--to")
    history = f"`tierfold history {context.place(key)}` shows times and runs."
    target = (
        _after_run(entries, to, history) if time_ms is None else _at_time(entries, time_ms, history)
    )
    restore_plan = restore_plan_of(target.state, newest.state)
    if isinstance(restore_plan, Refusal):
        report = replace(refused(key, restore_plan), epoch=newest.state.epoch)
        return Restored(report=report, target=target)
    report = _planned(newest, restore_plan)
    if time_ms is not None and time_ms > context.clock():
        note = f"{timestamp_text(time_ms)} is in the future"
        report = replace(report, notes=(*report.notes, note))
    found = Restored(
        report=replace(report, epoch=newest.state.epoch),
        row=newest.state,
        target=target,
        restore_plan=restore_plan,
        is_copy=is_copy,
    )
    refusal = _refused_by_tier(context, found, restore_plan) if report.outcome == PLANNED else None
    if refusal is None:
        return found
    return replace(found, report=replace(refused(key, refusal), epoch=newest.state.epoch))


def _refused_by_tier(
    context: RunContext, found: Restored, restore_plan: RestorePlan
) -> Refusal | None:
    """The refusal if the listing lacks what comes back, or the tier space for copies of it."""
    try:
        listed = context.tier.listing(found.key)
        if corruptions := corrupted_parts(restore_plan.segments, listed, kind="segment"):
            return _corrupt(corruptions)
        why = lack_of_space(context, restore_plan.back, listed) if found.is_copy else ""
        return _without_space(why) if why else None
    except TierfoldError as error:
        return refusal_of(error, str(found.key))


def _without_space(why: str) -> Refusal:
    return Refusal(
        reason=RefusalReason.NOT_RESTORABLE,
        detail=why,
        remedy="Free space, or choose a later state. Where no broker serves the tier, restore"
        " without --copy: that takes no space.",
    )


def _at_time(entries: Iterator[Entry], time_ms: int, history: str) -> Entry:
    """The state at that time; raises BadSettings if the catalog has none."""
    found = at(entries, time_ms)
    if found is not None:
        return found
    raise BadSettings(
        f"the catalog has no state of {timestamp_text(time_ms)} or earlier",
        where="--to",
        remedy=history,
    )


def _after_run(entries: Iterator[Entry], to: str, history: str) -> Entry:
    """The state after the run; raises BadSettings if `to` matches no run, or several."""
    found = left_by(entries, to)
    if len(found) == 1:
        return found[0]
    if found:
        runs = ", ".join(entry.run for entry in found[:SHOWN_MAX])
        raise BadSettings(
            f"{to!r} is a prefix of {len(found)} runs: {runs}",
            where="--to",
            remedy="Give more of the name.",
        )
    raise BadSettings(
        f"{to!r} is neither a timestamp nor the name of a run that changed the partition",
        where="--to",
        remedy=history,
    )


def _planned(newest: Entry, restore_plan: RestorePlan) -> PartitionReport:
    row, held = newest.state, claim_sentence(newest)
    if restore_plan.is_nothing:
        reason = "the segments of that state are the live ones"
        return PartitionReport(key=row.key, outcome=NOTHING_TO_DO, reason=reason)
    return PartitionReport(
        key=row.key,
        outcome=PLANNED,
        first_dirty=restore_plan.cleaner_offset,
        next_offset=row.next_offset,
        segments_in=len(restore_plan.leaving),
        segments_out=len(restore_plan.back),
        bytes_in=sum(segment.size_bytes for segment in restore_plan.leaving),
        bytes_out=sum(segment.size_bytes for segment in restore_plan.back),
        notes=(f"{held}; this restore fences it",) if held else (),
    )


def _corruptions(
    context: RunContext, key: PartitionKey, restore_plan: RestorePlan
) -> tuple[str, ...]:
    """Corruptions of the segments that come back; each is read completely, as by `verify`."""
    if not restore_plan.back:
        return ()
    last_id = restore_plan.segments[-1].segment_id

    def checked(segment: Segment) -> tuple[str, ...]:
        order = CheckOrder(
            key=key,
            segment=segment,
            is_live=True,
            is_last=segment.segment_id == last_id,
            index_interval_bytes=_INDEX_INTERVAL_BYTES,
            buckets=1,
            aborted_now=None,
            aborted_before=None,
            hash_key=context.hash_key,
            # A run has read it before, under a setting that a restore is not given.
            batch_bytes_max=PLAIN_BYTES_MAX,
        )
        try:
            return read_and_check(context.tier, order, check).checked.corruptions
        except TierfoldError as error:
            return (str(error),)

    corruptions: list[str] = []
    bytes_total = sum(segment.size_bytes for segment in restore_plan.back)
    with Step(context.progress, "check", bytes_total) as step:
        results = mapped_ahead(checked, restore_plan.back, threads=CHECKERS)
        for segment, found in zip(restore_plan.back, results, strict=True):
            corruptions += found
            step.advance(segment.size_bytes)
    return tuple(corruptions)


def restore_proposal(
    restore_plan: RestorePlan,
    state: PartitionState,
    at_ms: int,
    copies: Sequence[Segment] = (),
    also: Sequence[Update] = (),
) -> CommitProposal:
    """Return the commit under the epoch of the claimed row `state`, with other changes, too.

    Segments of which there is a copy stay retired.
    """
    update = restore_plan.update(at_ms=at_ms, run=state.owner_run, copies=copies)
    back = tuple(segment.segment_id for segment in restore_plan.back)
    stay = tuple(segment_id for segment_id in update.ids if segment_id not in back)
    return proposed(
        state,
        update,
        *also,
        commit_id=new_commit_id(),
        at_ms=at_ms,
        requires=(SegmentsAreRetired(ids=back), SegmentsAreLive(ids=stay)),
    )


def _corrupt(corruptions: Sequence[str]) -> Refusal:
    return Refusal(
        reason=RefusalReason.DATA_GONE,
        detail=first_few(corruptions),
        remedy="If objects are missing or corrupt, copy them back from a backup, or choose another"
        " state. Nothing was changed.",
    )
