"""`tierfold restore`: makes an earlier state of a partition live again, by a fenced commit.

    rows -> target state -> restore plan -> check the objects -> claim -> commit -> report

Nothing is written before the claim; the claim fences any other run that held the partition.
Without Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.console import Console

from tierfold.compaction.commits.commit import (
    CommitProposal,
    ReleaseClaim,
    SegmentsAreLive,
    SegmentsAreRetired,
    proposed,
)
from tierfold.compaction.commits.history import Entry, at, left_by
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of
from tierfold.compaction.discovery.listing import corrupted_parts
from tierfold.compaction.discovery.view import PLACE, Refusal, RefusalReason
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
)
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.jobs.context.byte_progress import byte_bars
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import deferred
from tierfold.jobs.context.timestamps import timestamp_ms_of, timestamp_text
from tierfold.jobs.pipeline.commits import committed, settled
from tierfold.jobs.pipeline.partition_report import (
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    RESTORED,
    PartitionReport,
    claim_report,
    failure_report,
    outcome_report,
)
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import known_by_name, refusal_of
from tierfold.jobs.verbs.history import claim_sentence, past_of
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.clock import now_ms
from tierfold.storage.segments.lookahead import mapped_ahead
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check

CHECKERS: Final = min(8, os.cpu_count() or 1)
"""Segments that are read in parallel: kernels release the GIL."""

FAULTS_TOLD: Final = 5
RUNS_TOLD: Final = 5

_INDEX_INTERVAL_BYTES: Final = 4096
"""Only used to compare an index with the one that tierfold would build; ignored here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The outcome of `restore`."""

    report: PartitionReport
    """`segments_in` and `bytes_in` are retired by it, `segments_out` and `bytes_out` come back."""
    row: PartitionState | None = None
    """The row as it was read; None: it cannot be restored."""
    target: Entry | None = None
    """The target state; None: there is none."""
    restore_plan: RestorePlan | None = None
    """The changes to make; None: the restore is impossible."""


def restore(
    context: RunContext, name: str, to: str, console: Console, *, is_dry_run: bool = False
) -> Restored:
    """Restore the partition `name` to its state at the time `to`, or after the run `to`.

    `console` shows the progress. A dry run checks names and sizes, and changes nothing. Raises
    BadSettings if `name` or `to` matches nothing, TierfoldError if the catalog is unreadable.
    """
    started_at_ms = now_ms()
    found = _sought(context, name, to)
    is_planned = found.report.outcome == PLANNED
    if is_dry_run or not is_planned or found.row is None or found.restore_plan is None:
        return found
    corruptions = _corruptions(context, found.row.key, found.restore_plan, console)
    if corruptions:
        return replace(found, report=_refused(found.row.key, _not_whole(corruptions)))
    with deferred():
        report = commit_restore(context, found.row, found.restore_plan, found.report)
        keep_record(context, [(0, report)], started_at_ms, "restore", console)
    return replace(found, report=report)


def _sought(context: RunContext, name: str, to: str) -> Restored:
    """Return what would be done, from the catalog and a listing."""
    known = known_by_name(context, name, where="tierfold restore")
    key = known.key
    if known.refusal is not None:
        return Restored(report=_refused(key, known.refusal))
    past = past_of(context, key)
    if past is None:
        raise BadSettings(
            f"no run has touched {key}: the catalog remembers no state of it",
            where="--to",
            remedy="There is nothing to go back to.",
        )
    newest, entries = past
    found = _found(context, newest, entries, to)
    return replace(found, report=replace(found.report, epoch=newest.state.epoch))


def _found(context: RunContext, newest: Entry, entries: Iterator[Entry], to: str) -> Restored:
    key = newest.state.key
    time_ms = timestamp_ms_of(to, where="--to")
    look = _LOOK.replace(PLACE, context.place(key))
    target = (
        _at_run(entries, to, look) if time_ms is None else _at_timestamp(entries, time_ms, look)
    )
    restore_plan = restore_plan_of(target.state, newest.state)
    if isinstance(restore_plan, Refusal):
        return Restored(report=_refused(key, restore_plan), target=target)
    report = _planned(newest, restore_plan)
    if time_ms is not None and time_ms > context.clock():
        report = replace(report, notes=(*report.notes, f"{timestamp_text(time_ms)} is yet to come"))
    if report.outcome == PLANNED and (refusal := _refused_by_listing(context, key, restore_plan)):
        report = _refused(key, refusal)
    return Restored(report=report, row=newest.state, target=target, restore_plan=restore_plan)


def _refused_by_listing(
    context: RunContext, key: PartitionKey, restore_plan: RestorePlan
) -> Refusal | None:
    try:
        corruptions = corrupted_parts(
            restore_plan.segments, context.tier.listing(key), kind="segment"
        )
    except TierfoldError as error:
        return refusal_of(error, str(key))
    return _not_whole(corruptions) if corruptions else None


def _at_timestamp(entries: Iterator[Entry], time_ms: int, look: str) -> Entry:
    """The state at that time; raises BadSettings if the catalog has none."""
    found = at(entries, time_ms)
    if found is not None:
        return found
    raise BadSettings(
        f"nothing is remembered of {timestamp_text(time_ms)}, or of any time before",
        where="--to",
        remedy=look,
    )


def _at_run(entries: Iterator[Entry], to: str, look: str) -> Entry:
    """The state that the run left; raises BadSettings if `to` matches no run, or several."""
    found = left_by(entries, to)
    if len(found) == 1:
        return found[0]
    if found:
        raise BadSettings(
            f"{to!r} begins the names of {len(found)} runs:"
            f" {', '.join(entry.run for entry in found[:RUNS_TOLD])}",
            where="--to",
            remedy="Give more of the name.",
        )
    raise BadSettings(
        f"{to!r} is no timestamp, and no run that changed the partition is named so",
        where="--to",
        remedy=look,
    )


def _planned(newest: Entry, restore_plan: RestorePlan) -> PartitionReport:
    row, held = newest.state, claim_sentence(newest)
    if restore_plan.is_nothing:
        reason = "what lived then is what lives now"
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
        notes=(f"{held}: it is fenced by this",) if held else (),
    )


def _corruptions(
    context: RunContext, key: PartitionKey, restore_plan: RestorePlan, console: Console
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
        )
        try:
            return read_and_check(context.tier, order).checked.corruptions
        except TierfoldError as error:
            return (str(error),)

    corruptions: list[str] = []
    with byte_bars(console) as bars:
        bar = bars.add_task("check", total=sum(segment.size_bytes for segment in restore_plan.back))
        results = mapped_ahead(checked, restore_plan.back, threads=CHECKERS)
        for segment, found in zip(restore_plan.back, results, strict=True):
            corruptions += found
            bars.advance(bar, segment.size_bytes)
    return tuple(corruptions)


def commit_restore(
    context: RunContext, row: PartitionState, restore_plan: RestorePlan, planned: PartitionReport
) -> PartitionReport:
    """Claim, then commit what `restore_plan_of` returns for `row`; return the outcome.

    Nothing is written if another run was faster.
    """
    try:
        claim = context.catalog.claim([row], context.run, at_ms=context.clock())[row.key]
    except (CorruptLog, UnreadableObject) as error:
        return failure_report(planned, str(error))
    if not isinstance(claim.outcome, Committed):
        return claim_report(planned, claim.outcome)
    proposals = [restore_proposal(restore_plan, claim.state, context.clock())]
    outcomes = settled(context.catalog, proposals, committed(context.catalog, proposals))
    outcome = outcomes[row.key]
    report = replace(outcome_report(planned, outcome), epoch=claim.state.epoch)
    return replace(report, outcome=RESTORED) if isinstance(outcome, Committed) else report


def restore_proposal(
    restore_plan: RestorePlan, state: PartitionState, at_ms: int
) -> CommitProposal:
    """The commit under the epoch of the claimed row `state`; it ends the claim."""
    back = tuple(segment.segment_id for segment in restore_plan.back)
    stay = tuple(s.segment_id for s in restore_plan.segments if s.segment_id not in back)
    return proposed(
        state,
        restore_plan.update(at_ms=at_ms, run=state.owner_run),
        ReleaseClaim(run=state.owner_run),
        commit_id=new_commit_id(),
        at_ms=at_ms,
        requires=(SegmentsAreRetired(ids=back), SegmentsAreLive(ids=stay)),
    )


def _refused(key: PartitionKey, refusal: Refusal) -> PartitionReport:
    return PartitionReport(key=key, outcome=REFUSED, reason=refusal.sentence)


def _not_whole(corruptions: Sequence[str]) -> Refusal:
    more = f"; and {len(corruptions) - FAULTS_TOLD} more" if len(corruptions) > FAULTS_TOLD else ""
    return Refusal(
        reason=RefusalReason.DATA_GONE,
        detail=f"{'; '.join(corruptions[:FAULTS_TOLD])}{more}",
        remedy="Bring the objects back from a copy, or choose another state. Nothing was changed.",
    )


_LOOK: Final = f"`tierfold history {PLACE}` shows times and runs."
