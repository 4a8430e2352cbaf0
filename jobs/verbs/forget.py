"""`tierfold forget`: empties the catalog's row of a partition whose log was truncated.

    row, listing -> was the log truncated, does anything block it -> what the next run would read
    -> claim -> inspect again -> one commit that empties the row -> release -> report

The empty row keeps a new epoch, so that no earlier run can commit. Segments that are not part of
the new log stay in the tier until `vacuum --diverged`. With brokers, the row takes over what they
have (`verbs.adoption`), or notes what a person leaves alone (`verbs.leave_alone`). What comes back
as copies is published (`verbs.adopted_copies`). Without Spark.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.commits.adoption import Adoption
from tierfold.compaction.commits.commit import (
    CommitProposal,
    ForgetPartition,
    proposed,
)
from tierfold.compaction.commits.forget import (
    Forgetting,
    comparisons_with_live,
    forgetting,
    in_the_way,
    row_without,
)
from tierfold.compaction.commits.holders import Skip, Wait
from tierfold.compaction.commits.leave_alone import LeftAlone
from tierfold.compaction.commits.restore import restore_plan_of
from tierfold.compaction.discovery.draft import divergence, drafted
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.overlaps import Comparison, chain_of
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason, never_claimed
from tierfold.compaction.model.errors import LEAVE_OUT, UNCHANGED, TierfoldError
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import Stopped, deferred
from tierfold.jobs.context.tier_identity import run_binding, tier_identity
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.claim_report import refused_for
from tierfold.jobs.pipeline.discovery import facts_of, view_from
from tierfold.jobs.pipeline.known_partition import KnownPartition, left_alone, refusal_of
from tierfold.jobs.pipeline.partition_report import (
    FORGOTTEN,
    LEFT,
    NOTHING_TO_DO,
    PLANNED,
    PartitionReport,
    Reporting,
)
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import known_by_name, with_identity
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.adopted_copies import refused_copies
from tierfold.jobs.verbs.adoption import carried_out, planned_adoption
from tierfold.jobs.verbs.history import past_of
from tierfold.jobs.verbs.leave_alone import planned_leaving, recorded, refuse_wrong_ids
from tierfold.jobs.verbs.row_change import changed_row, holder_of, noted_binding, refused
from tierfold.jobs.verbs.waiting import freed
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.clock import now_ms
from tierfold.storage.segments.overlap_check import prove_overlaps
from tierfold.storage.segments.segment_inspection import batches_fit
from tierfold.storage.tiers.remote_tier import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgot(Reporting):
    """The outcome of `forget`."""

    report: PartitionReport
    """`segments_in` and `bytes_in`: live before, by the row; `segments_out` and `bytes_out`: what
    the next `compact` would take."""
    state: PartitionState | None = None
    """The row as it was read; None: the catalog has none."""
    loss: Forgetting | None = None
    """Which segments leave the row, and which the next run reads; None: impossible, nothing to do,
    or brokers say it."""
    adoption: Adoption | None = None
    """What the row takes over from brokers; None: impossible, nothing to do, or none were asked."""
    left_alone: LeftAlone | None = None
    """What a person leaves alone; None: impossible, or nothing was given."""


def forget(
    context: RunContext,
    settings: Settings,
    name: str,
    *,
    is_dry_run: bool = False,
    leave_alone: Collection[str] = (),
) -> Forgot:
    """Empty the catalog's row of the partition `name`, if its log was truncated.

    `leave_alone`: ids of segments; it only notes in the row that they are left alone. A dry run
    changes nothing. Raises BadSettings if `name` matches no partition or `leave_alone` has what is
    no id, TierfoldError if the catalog is unreadable.
    """
    started_at_ms = now_ms()
    if leave_alone:
        refuse_wrong_ids(context, leave_alone)
    with context.seconds.timed(TimedStage.SURVEY):
        found = _planned_forgetting(context, settings, name, leave_alone)
    if is_dry_run:
        return found
    if found.state is not None and found.report.outcome == PLANNED:
        match holder_of(context, found.state, "forget"):
            case Skip(holder=holder):
                found = replace(found, report=refused_for(found.report, holder))
            case Wait():
                freed(context, [found.key], "forget")
                found = _planned_forgetting(context, settings, name, leave_alone)
    try:
        if found.adoption is not None and found.adoption.back:
            report = _with_copies(context, settings, name, found, found.adoption)
        else:
            with deferred():
                report = _changed(context, name, found)
    except Stopped as stopped:
        reason = f"stopped by {stopped.by}; nothing was changed"
        left = replace(found.report, outcome=LEFT, reason=reason)
        keep_record(context, [(0, left)], started_at_ms, "forget")
        raise
    with deferred():
        keep_record(context, [(0, report)], started_at_ms, "forget")
    return replace(found, report=report)


def _changed(context: RunContext, name: str, found: Forgot) -> PartitionReport:
    """Carry out what is planned; nothing else: report it."""
    report = found.report
    if report.outcome != PLANNED:
        return report
    if found.left_alone is not None:
        return recorded(context, name, report, found.state, found.left_alone)
    if found.adoption is not None:
        return carried_out(context, name, report, found.state, found.adoption)
    return report if found.loss is None else _emptied(context, found, found.loss)


def _with_copies(
    context: RunContext, settings: Settings, name: str, found: Forgot, taken: Adoption
) -> PartitionReport:
    """Take over what was planned, with copies of what comes back, and publish that.

    Raises Stopped before anything is committed.
    """
    # Imported here: the client is loaded only where brokers are named.
    from tierfold.jobs.publishing.open_step import with_step_published

    if found.report.outcome != PLANNED:
        return found.report
    size_bytes = sum(segment.size_bytes for segment in taken.back)
    context.progress.begin(1, size_bytes)
    with context.progress.wave(size_bytes, passes=2):
        report = _changed(context, name, found)
    if report.outcome != FORGOTTEN:
        return report
    return with_step_published(context, settings, report, "forget")


def _planned_forgetting(
    context: RunContext, settings: Settings, name: str, leave_alone: Collection[str]
) -> Forgot:
    known = known_by_name(context, name, where=context.tier_uri)
    if known.is_left_alone:
        reason = left_alone(known)
        return Forgot(
            report=PartitionReport(key=known.key, outcome=NOTHING_TO_DO, reason=reason)
        )
    known = with_identity(known, tier_identity(context, run_binding(context)))
    if known.refusal is not None:
        return Forgot(report=refused(known.key, known.refusal))
    if known.brokers is not None and leave_alone:
        found = _leaving(context, known, known.brokers, leave_alone)
    elif known.brokers is not None:
        found = _beside_brokers(context, settings, known, known.brokers)
    else:
        found = _inspected(context, known.key, known.state, known.listed)
    epoch = 0 if known.state is None else known.state.epoch
    return replace(found, report=replace(found.report, epoch=epoch))


def _inspected(
    context: RunContext,
    key: PartitionKey,
    state: PartitionState | None,
    listed: Listing | None = None,
) -> Forgot:
    """Decide from the row and the tier; `listed`: its listing, if known."""
    try:
        listed = context.tier.listing(key) if listed is None else listed
        facts = facts_of(context, key, state, listed)
        if divergence(facts) is None:
            return Forgot(report=_not_truncated(context, facts))
        obstacles = in_the_way(facts, _unlike_live(context, facts))
        if obstacles is not None:
            refusal = obstacles.refusal(_uploads_at(context, key)).at(context.place(key))
            return Forgot(report=refused(key, refusal))
        emptied = row_without(key, state, [segment.segment_id for segment in listed])
        bare = facts_of(context, key, emptied, listed)
        view = view_from(context, bare)
        doubt = None if isinstance(view, Refusal) else _doubt(context, facts, view)
    except TierfoldError as error:
        return Forgot(report=refused(key, refusal_of(error, str(key))))
    if isinstance(view, Refusal):
        detail = f"even without its row, the partition would be refused: {view.detail}"
        return Forgot(report=refused(key, replace(view, detail=detail)))
    if doubt is not None:
        return Forgot(report=refused(key, doubt))
    loss = forgetting(facts, bare, view)
    return Forgot(report=_planned(key, state, loss), state=state, loss=loss)


def _unlike_live(context: RunContext, facts: PartitionFacts) -> set[str]:
    """Ids of unknown segments that lack records of live uploads; raises TierfoldError."""
    most = context.batch_bytes_max(facts.key.topic)

    def differs(comparison: Comparison) -> bool:
        proof = prove_overlaps(context.tier, facts.key, chain_of(-1, ()), [comparison], most)
        return bool(proof.disagreements)

    found = filter(differs, comparisons_with_live(facts))
    return {comparison.second.segment_id for comparison in found}


def _doubt(context: RunContext, facts: PartitionFacts, view: PartitionView) -> Refusal | None:
    """Why the new log is doubtful: its checkpoints list epochs that its batches lack.

    A checkpoint is a small text file, and `forget` cannot be undone. So where a new epoch begins,
    the batches are checked too. Raises TierfoldError.
    """
    most = context.batch_bytes_max(facts.key.topic)
    known = () if facts.row is None else facts.row.lineage
    begun = [epoch.start_offset for epoch in view.lineage if epoch not in known]
    listed = {segment.segment_id: segment for segment in facts.classified.unknown}
    for segment in view.segments:
        if not any(segment.start_offset <= offset <= segment.end_offset for offset in begun):
            continue
        found = listed.get(segment.segment_id)
        if found is None or batches_fit(context.tier, facts.key, found, view.lineage, most):
            continue
        return Refusal(
            reason=RefusalReason.UNREADABLE,
            detail=f"the batches of segment {segment.segment_id} have other leader epochs than its"
            " leader epoch checkpoint",
            remedy="The checkpoint may be corrupt: compare it with the broker's"
            " leader-epoch-checkpoint or a backup, and copy it from there if it differs; otherwise"
            f" {LEAVE_OUT}. {UNCHANGED}",
        )
    return None


def _not_truncated(context: RunContext, facts: PartitionFacts) -> PartitionReport:
    draft = drafted(facts)
    if isinstance(draft, Refusal):
        detail = f"no unclean leader election truncated its log; {draft.detail}"
        return refused(facts.key, replace(draft.at(context.place(facts.key)), detail=detail))
    reason = "no unclean leader election truncated its log, so there is nothing to forget"
    return PartitionReport(key=facts.key, outcome=NOTHING_TO_DO, reason=reason)


def _uploads_at(context: RunContext, key: PartitionKey) -> str:
    """The newest restorable state in which all live segments are uploads; empty: there is none.

    Decided from the catalog alone; `restore` checks the objects.
    """
    past = past_of(context, key)
    if past is None:
        return ""
    newest, entries = past
    for entry in entries:
        if all(segment.is_upload for segment in entry.state.segments) and not isinstance(
            restore_plan_of(entry.state, newest.state), Refusal
        ):
            return timestamp_text(entry.state.committed_at_ms)
    return ""


def _planned(key: PartitionKey, state: PartitionState | None, loss: Forgetting) -> PartitionReport:
    held = ""
    if state is not None and state.owner_run:
        at = timestamp_text(state.committed_at_ms)
        held = f"run {state.owner_run} holds it, its last commit was at {at}; `forget` fences it"
    return PartitionReport(
        key=key,
        outcome=PLANNED,
        next_offset=loss.taken[-1].next_offset if loss.taken else None,
        segments_in=len(loss.forgotten),
        segments_out=len(loss.taken),
        bytes_in=sum(segment.size_bytes for segment in loss.forgotten),
        bytes_out=sum(segment.size_bytes for segment in loss.taken),
        notes=(held,) if held else (),
    )


def _emptied(context: RunContext, found: Forgot, loss: Forgetting) -> PartitionReport:
    key = found.report.key

    def propose(claimed: PartitionState) -> CommitProposal | None:
        # A run that was not fenced until now may have written something since the tier was listed.
        if _inspected(context, key, claimed).loss != loss:
            return None
        at_ms = context.clock()
        return proposed(
            claimed,
            ForgetPartition(consent=tuple(loss.consent)),
            *noted_binding(context, claimed, at_ms),
            commit_id=new_commit_id(),
            at_ms=at_ms,
        )

    row = found.state or never_claimed(key)
    return changed_row(context, row, found.report, propose, FORGOTTEN, "forget")


def _beside_brokers(
    context: RunContext, settings: Settings, known: KnownPartition, brokers: BrokerPartition
) -> Forgot:
    """What `forget` would take over from brokers."""
    planned = planned_adoption(context, known, brokers)
    taken = planned.adoption
    if isinstance(taken, Refusal):
        return Forgot(report=refused(known.key, taken))
    if taken is None:
        reason = "the catalog, the tier and the brokers agree, so there is nothing to forget"
        return Forgot(
            report=PartitionReport(key=known.key, outcome=NOTHING_TO_DO, reason=reason)
        )
    if (refusal := refused_copies(context, settings, known, taken)) is not None:
        return Forgot(report=refused(known.key, refusal.at(context.place(known.key))))
    live = () if known.state is None else known.state.segments
    report = PartitionReport(
        key=known.key,
        outcome=PLANNED,
        next_offset=taken.live[-1].next_offset if taken.live else None,
        segments_in=len(live),
        segments_out=len(taken.live),
        bytes_in=sum(segment.size_bytes for segment in live),
        bytes_out=sum(segment.size_bytes for segment in taken.live),
        notes=() if taken.lost is None else (taken.lost.note,),
    )
    return Forgot(report=report, state=known.state, adoption=taken)


def _leaving(
    context: RunContext,
    known: KnownPartition,
    brokers: BrokerPartition,
    leave_alone: Collection[str],
) -> Forgot:
    """What would be left alone."""
    leaving = planned_leaving(context, known, brokers, leave_alone)
    if isinstance(leaving, Refusal):
        return Forgot(report=refused(known.key, leaving))
    if not leaving.segments:
        reason = "the catalog has noted already that these segments are left alone"
        return Forgot(
            report=PartitionReport(key=known.key, outcome=NOTHING_TO_DO, reason=reason)
        )
    report = PartitionReport(key=known.key, outcome=PLANNED)
    return Forgot(report=report, state=known.state, left_alone=leaving)
