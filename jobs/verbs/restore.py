"""`tierfold restore`: an earlier state of a partition lives again, by an ordinary fenced commit.

    rows -> which of them -> what it takes -> are the objects whole -> claim -> commit -> report

Until the claim nothing is written; from the claim on any other run that held the partition is
fenced. Without Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.console import Console

from tierfold.compaction.commits.commit import (
    CommitProposal,
    ReleaseClaim,
    SegmentsAreLive,
    SegmentsAreRetired,
    proposed,
)
from tierfold.compaction.commits.history import Entry, at, left_by
from tierfold.compaction.commits.restore import Restoration, restoration
from tierfold.compaction.discovery.listing import damages
from tierfold.compaction.discovery.view import PLACE, Refusal, RefusalReason
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
)
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import deferred
from tierfold.jobs.context.timestamps import moment, moment_ms
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
from tierfold.jobs.spark.progress import byte_bars
from tierfold.jobs.verbs.history import holder, past_of
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.clock import now_ms
from tierfold.storage.segments.lookahead import mapped_ahead
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check

CHECKERS: Final = min(8, os.cpu_count() or 1)
"""Segments that are read at a time: kernels let go of Python's lock."""

FAULTS_TOLD: Final = 5
RUNS_TOLD: Final = 5

_INDEX_INTERVAL_BYTES: Final = 4096
"""Only decides whether an index equals the one we would build, which is not asked here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What became of it."""

    report: PartitionReport
    """`segments_in` and `bytes_in` are retired by it, `segments_out` and `bytes_out` come back."""
    row: PartitionState | None = None
    """The row as it was read; None: nothing can be done from it."""
    target: Entry | None = None
    """The state that was meant; None: there was none."""
    way_back: Restoration | None = None
    """What it takes; None: it cannot be done."""

    def as_json(self) -> dict[str, Any]:
        """The partition's entry in the `--json` document."""
        entry = self.report.as_json()
        if self.target is not None:
            state = self.target.state
            entry["to"] = {
                "committed_at": moment(state.committed_at_ms),
                "committed_at_ms": state.committed_at_ms,
                "run": self.target.run,
                "event": self.target.event.value,
                "epoch": state.epoch,
            }
        if self.way_back is not None:
            entry["cleaner_offset"] = self.way_back.cleaner_offset
            entry["log_start_offset"] = self.way_back.state.log_start_offset
            entry["back"] = [_named(segment) for segment in self.way_back.back]
            entry["leaving"] = [_named(segment) for segment in self.way_back.leaving]
        return entry


def restore(
    context: RunContext, name: str, to: str, console: Console, *, is_dry_run: bool = False
) -> Restored:
    """Bring the partition `name` back to what it was at the moment, or after the run, `to`.

    `console` gets the progress. A dry run looks at names and sizes, and changes nothing. Raises
    BadSettings where `name` or `to` says nothing, TierfoldError where the catalog cannot be read.
    """
    started_at_ms = now_ms()
    found = _sought(context, name, to)
    is_planned = found.report.outcome == PLANNED
    if is_dry_run or not is_planned or found.row is None or found.way_back is None:
        return found
    faults = _faults(context, found.row.key, found.way_back, console)
    if faults:
        return replace(found, report=_refused(found.row.key, _not_whole(faults)))
    with deferred():
        report = put_back(context, found.row, found.way_back, found.report)
        keep_record(context, [(0, report)], started_at_ms, "restore", console)
    return replace(found, report=report)


def _sought(context: RunContext, name: str, to: str) -> Restored:
    """What would be done, as far as the catalog and a listing tell."""
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
    time_ms = moment_ms(to, where="--to")
    look = _LOOK.replace(PLACE, context.place(key))
    target = (
        _at_run(entries, to, look) if time_ms is None else _at_moment(entries, time_ms, look)
    )
    way_back = restoration(target.state, newest.state)
    if isinstance(way_back, Refusal):
        return Restored(report=_refused(key, way_back), target=target)
    report = _planned(newest, way_back)
    if time_ms is not None and time_ms > context.clock():
        report = replace(report, notes=(*report.notes, f"{moment(time_ms)} is yet to come"))
    if report.outcome == PLANNED and (refusal := _refused_by_listing(context, key, way_back)):
        report = _refused(key, refusal)
    return Restored(report=report, row=newest.state, target=target, way_back=way_back)


def _refused_by_listing(
    context: RunContext, key: PartitionKey, way_back: Restoration
) -> Refusal | None:
    try:
        faults = damages(way_back.segments, context.tier.listing(key), kind="segment")
    except TierfoldError as error:
        return refusal_of(error, str(key))
    return _not_whole(faults) if faults else None


def _at_moment(entries: Iterator[Entry], time_ms: int, look: str) -> Entry:
    """The state at that time; raises BadSettings where none is remembered."""
    found = at(entries, time_ms)
    if found is not None:
        return found
    raise BadSettings(
        f"nothing is remembered of {moment(time_ms)}, or of any time before",
        where="--to",
        remedy=look,
    )


def _at_run(entries: Iterator[Entry], to: str, look: str) -> Entry:
    """The state that the run left; raises BadSettings where `to` names none, or several."""
    found = left_by(entries, to)
    if len(found) == 1:
        return found[0]
    if found:
        raise BadSettings(
            f"{to!r} begins the names of {len(found)} runs:"
            f" {', '.join(each.run for each in found[:RUNS_TOLD])}",
            where="--to",
            remedy="Give more of the name.",
        )
    raise BadSettings(
        f"{to!r} is no moment, and no run that changed the partition is named so",
        where="--to",
        remedy=look,
    )


def _planned(newest: Entry, way_back: Restoration) -> PartitionReport:
    row, held = newest.state, holder(newest)
    if way_back.is_nothing:
        reason = "what lived then is what lives now"
        return PartitionReport(key=row.key, outcome=NOTHING_TO_DO, reason=reason)
    return PartitionReport(
        key=row.key,
        outcome=PLANNED,
        first_dirty=way_back.cleaner_offset,
        next_offset=row.next_offset,
        segments_in=len(way_back.leaving),
        segments_out=len(way_back.back),
        bytes_in=sum(segment.size_bytes for segment in way_back.leaving),
        bytes_out=sum(segment.size_bytes for segment in way_back.back),
        notes=(f"{held}: it is fenced by this",) if held else (),
    )


def _faults(
    context: RunContext, key: PartitionKey, way_back: Restoration, console: Console
) -> tuple[str, ...]:
    """What is wrong with the segments that come back, each read whole, as `verify` reads it."""
    if not way_back.back:
        return ()
    last_id = way_back.segments[-1].segment_id

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
            return read_and_check(context.tier, order).checked.faults
        except TierfoldError as error:
            return (str(error),)

    faults: list[str] = []
    with byte_bars(console) as bars:
        bar = bars.add_task("check", total=sum(each.size_bytes for each in way_back.back))
        results = mapped_ahead(checked, way_back.back, threads=CHECKERS)
        for segment, found in zip(way_back.back, results, strict=True):
            faults += found
            bars.advance(bar, segment.size_bytes)
    return tuple(faults)


def put_back(
    context: RunContext, row: PartitionState, way_back: Restoration, planned: PartitionReport
) -> PartitionReport:
    """Claim and commit what `restoration` says of `row`; what became of what was planned.

    Nothing is written where another run was faster.
    """
    try:
        claim = context.catalog.claim([row], context.run, at_ms=context.clock())[row.key]
    except (CorruptLog, UnreadableObject) as error:
        return failure_report(planned, str(error))
    if not isinstance(claim.outcome, Committed):
        return claim_report(planned, claim.outcome)
    proposals = [restore_proposal(way_back, claim.state, context.clock())]
    outcomes = settled(context.catalog, proposals, committed(context.catalog, proposals))
    outcome = outcomes[row.key]
    report = replace(outcome_report(planned, outcome), epoch=claim.state.epoch)
    return replace(report, outcome=RESTORED) if isinstance(outcome, Committed) else report


def restore_proposal(way_back: Restoration, state: PartitionState, at_ms: int) -> CommitProposal:
    """The commit, under the epoch of the claimed row `state`; it ends the claim."""
    back = tuple(segment.segment_id for segment in way_back.back)
    stay = tuple(s.segment_id for s in way_back.segments if s.segment_id not in back)
    return proposed(
        state,
        way_back.update(at_ms=at_ms, run=state.owner_run),
        ReleaseClaim(run=state.owner_run),
        commit_id=new_commit_id(),
        at_ms=at_ms,
        requires=(SegmentsAreRetired(ids=back), SegmentsAreLive(ids=stay)),
    )


def _refused(key: PartitionKey, refusal: Refusal) -> PartitionReport:
    return PartitionReport(key=key, outcome=REFUSED, reason=refusal.sentence)


def _not_whole(faults: Sequence[str]) -> Refusal:
    more = f"; and {len(faults) - FAULTS_TOLD} more" if len(faults) > FAULTS_TOLD else ""
    return Refusal(
        reason=RefusalReason.DATA_GONE,
        detail=f"{'; '.join(faults[:FAULTS_TOLD])}{more}",
        remedy="Bring the objects back from a copy, or choose another state. Nothing was changed.",
    )


def _named(segment: Segment) -> dict[str, Any]:
    return {
        "id": segment.segment_id,
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "size_bytes": segment.size_bytes,
        "written_by_run": segment.written_by_run,
    }


_LOOK: Final = f"`tierfold history {PLACE}` shows moments and runs."
