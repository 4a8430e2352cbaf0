"""`tierfold restore`: makes an earlier state of a partition live again, by a fenced commit.

    rows -> target state -> restore plan -> check the objects -> claim, commit, release -> report

Nothing is written before the claim. A live run that holds the partition keeps it, unless the user
insists; the claim fences any other one. With `--copy`, segments are copied between claim and
commit, so that no retired id is live again. What brokers serve is always copied; what is open of
it is published before the restore, and then the copies. Without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tierfold.compaction.commits.history import Entry
from tierfold.compaction.commits.holders import Skip, Wait
from tierfold.compaction.commits.published_restore import (
    offsets_read_again,
    unpublishable_restore,
)
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of, unpublished_restore
from tierfold.compaction.discovery.view import Refusal, never_claimed
from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.publishing.batches import batch_bytes_max
from tierfold.compaction.publishing.ranges import OffsetRange
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import Stopped, deferred
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
from tierfold.jobs.pipeline.publication import (
    PublicationState,
    with_publication,
)
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import inspected, known_by_name, with_identity
from tierfold.jobs.publishing.segment_copies import SegmentCopies, copied_segments
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.history import check_catalog, claim_sentence, past_of
from tierfold.jobs.verbs.restore_check import corrupt, corruptions_in, refused_by_tier
from tierfold.jobs.verbs.restore_target import earlier_state
from tierfold.jobs.verbs.row_change import changed_row, holder_of, noted_binding, refused
from tierfold.jobs.verbs.waiting import freed
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.clock import now_ms


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

    @property
    def is_published(self) -> bool:
        """Whether brokers serve the row, and so are sent what comes back."""
        return self.row is not None and self.row.is_served and self.brokers is not None

    @property
    def read_again(self) -> tuple[OffsetRange, ...]:
        """The offsets that consumers read again as they were; none: brokers are sent nothing."""
        if self.restore_plan is None or not self.is_published:
            return ()
        return offsets_read_again(self.restore_plan)


def restore(
    context: RunContext,
    settings: Settings,
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

    def planned() -> Restored:
        return _planned_restore(context, settings, name, to, is_copy=is_copy)

    with context.seconds.timed(TimedStage.SURVEY), context.progress.survey():
        found = planned()
    if is_dry_run:
        return found
    try:
        if found.row is not None and found.report.outcome == PLANNED:
            match holder_of(context, found.row, "restore"):
                case Skip(holder=holder):
                    found = replace(found, report=refused_for(found.report, holder))
                case Wait():
                    freed(context, [found.key], "restore")
                    found = planned()
        if found.report.outcome == PLANNED and found.is_published:
            found = _published(context, settings, found, planned)
        elif found.report.outcome == PLANNED:
            found = _with_progress(context, found)
    except Stopped as stopped:
        reason = f"stopped by {stopped.by}; nothing was changed"
        left = replace(found.report, outcome=LEFT, reason=reason)
        keep_record(context, [(0, left)], started_at_ms, "restore")
        raise
    with deferred():
        keep_record(context, [(0, found.report)], started_at_ms, "restore")
    return found


def _published(
    context: RunContext, settings: Settings, found: Restored, again: Callable[[], Restored]
) -> Restored:
    """Complete what is open, restore, and publish that; raises Stopped before anything is sent.

    `again`: plans once more, as what was open may have changed the row.
    """
    # Imported here: the client is loaded only where brokers are named.
    from tierfold.jobs.publishing.open_step import published_step, with_step_published

    earlier = published_step(context, settings, found.key, "restore")
    if earlier is not None and earlier.state is not PublicationState.PUBLISHED:
        left = replace(found.report, outcome=NOTHING_TO_DO, reason="", bytes_out=0)
        left = with_publication(left, earlier)
        return replace(found, report=replace(left, reason=f"{_NOT_BEGUN}; {left.reason}"))
    try:
        found = found if earlier is None else again()
        if found.report.outcome == PLANNED:
            found = _with_progress(context, found)
    except Stopped as stopped:
        # What was open may have been sent: only the restore has changed nothing.
        reason = f"stopped by {stopped.by}; nothing was restored"
        found = replace(found, report=replace(found.report, outcome=LEFT, reason=reason))
    report = replace(found.report, events_sent=0 if earlier is None else earlier.events)
    if report.outcome != RESTORED:
        return replace(found, report=report)
    return replace(found, report=with_step_published(context, settings, report, "restore"))


_NOT_BEGUN: Final = "nothing is restored, as brokers do not have yet what an earlier run committed"


def _with_progress(context: RunContext, found: Restored) -> Restored:
    size_bytes = found.report.bytes_out
    context.progress.begin(1, size_bytes)
    with context.progress.wave(size_bytes, passes=2 if found.is_copy else 1):
        return _carried_out(context, found)


def _carried_out(context: RunContext, found: Restored) -> Restored:
    """Check the segments that come back, copy them if so asked, and commit.

    Raises Stopped during the check, and between two copies.
    """
    row, restore_plan = found.row, found.restore_plan
    if row is None or restore_plan is None:
        raise ValueError(f"{found.key}: a planned restore has a row and a plan")
    bytes_read = sum(segment.size_bytes for segment in restore_plan.back)
    with context.seconds.timed(TimedStage.CHECK):
        corruptions = corruptions_in(context, row.key, restore_plan)
    if corruptions:
        report = replace(refused(row.key, corrupt(corruptions)), bytes_read=bytes_read)
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


def _planned_restore(
    context: RunContext, settings: Settings, name: str, to: str, *, is_copy: bool
) -> Restored:
    """Decide from the catalog, a listing and what brokers have, if they were asked."""
    known = known_by_name(context, name, where=context.tier_uri)
    row = known.state or never_claimed(known.key)
    is_served = known.brokers is not None and row.is_served
    refusal = _refused_beside(context, settings, known)
    found = _planned_of(context, known, refusal, to, is_copy=is_copy or is_served)
    if known.brokers is None:
        return found
    beside = beside_catalog(
        known.brokers.view, known.brokers.naming, live=row.live_ids, retired=row.retired_ids
    )
    return replace(found, brokers=known.brokers, beside=beside)


def _refused_beside(
    context: RunContext, settings: Settings, known: KnownPartition
) -> Refusal | None:
    """The refusal if brokers would not learn of it, or do not fit the row; None: nothing is wrong.

    Nothing is, either, if none were asked.
    """
    if known.brokers is None or known.is_left_alone:
        return None
    is_taken_out = not settings.rules_for(known.key.topic).publish
    is_on = context.publishing_state is Publishing.ON and not is_taken_out
    unpublished = None if is_on else unpublished_restore(known.state, is_taken_out=is_taken_out)
    found = unpublished or inspected(context, known)
    return found if isinstance(found, Refusal) else None


def _planned_of(
    context: RunContext,
    known: KnownPartition,
    beside: Refusal | None,
    to: str,
    *,
    is_copy: bool,
) -> Restored:
    key = known.key
    if known.is_left_alone:
        reason = left_alone(known)
        return Restored(report=PartitionReport(key=key, outcome=NOTHING_TO_DO, reason=reason))
    known = with_identity(known, tier_identity(context, run_binding(context)))
    if (refusal := known.refusal or beside) is not None:
        return Restored(report=refused(key, refusal))
    check_catalog(context)
    past = past_of(context, key)
    if past is None:
        raise BadSettings(
            f"no run has touched {key} by the catalog in {context.catalog_uri}, which has no"
            " earlier state of it",
            where="--to",
            remedy="There is nothing to restore.",
        )
    newest, entries = past
    time_ms = timestamp_ms_of(to, where="--to")
    target = earlier_state(entries, to, time_ms, context.place(key))
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
        brokers=known.brokers,
    )
    return _unless_refused(context, found, restore_plan)


def _unless_refused(context: RunContext, found: Restored, restore_plan: RestorePlan) -> Restored:
    """The restore, refused if it could not be published or the tier lacks something for it."""
    if found.report.outcome != PLANNED:
        return found
    refusal = _refused_by_brokers(context, found) or refused_by_tier(
        context, found.key, restore_plan, is_copy=found.is_copy
    )
    if refusal is None:
        return found
    report = replace(refused(found.key, refusal), epoch=found.report.epoch)
    return replace(found, report=report)


def _refused_by_brokers(context: RunContext, found: Restored) -> Refusal | None:
    """The refusal if brokers could not be sent the restore as they must be."""
    if not found.is_published or found.row is None or found.restore_plan is None:
        return None
    try:
        most = batch_bytes_max(context.metadata_configs)
    except TierfoldError as error:
        return refusal_of(error, str(found.key))
    return unpublishable_restore(found.restore_plan, found.row, most)


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
