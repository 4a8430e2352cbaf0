"""`tierfold forget`: empties the catalog's row of a partition whose log was truncated.

    row, listing -> was the log truncated, does anything block it -> what discovery would then take
    -> claim -> inspect again -> one commit that empties the row -> report

The row stays as a fence: it gets a new epoch, so that no earlier run can commit. Segments outside
the new history stay in the tier until `vacuum --diverged`. Without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from tierfold.compaction.commits.commit import (
    CommitProposal,
    ForgetPartition,
    ReleaseClaim,
    proposed,
)
from tierfold.compaction.commits.forget import (
    Forgetting,
    comparisons_with_live,
    forgetting,
    in_the_way,
    row_without,
)
from tierfold.compaction.commits.restore import restore_plan_of
from tierfold.compaction.commits.round_commit import release_of
from tierfold.compaction.discovery.overlaps import chain_of
from tierfold.compaction.discovery.unknown_segments import PartitionFacts, divergence, drafted
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason, never_claimed
from tierfold.compaction.model.errors import CorruptLog, TierfoldError, UnreadableObject
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import deferred
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.commits import committed, settled
from tierfold.jobs.pipeline.discovery import facts_of, view_from
from tierfold.jobs.pipeline.partition_report import (
    FORGOTTEN,
    LOST_RACE,
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    PartitionReport,
    claim_report,
    failure_report,
    outcome_report,
)
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import known_by_name, refusal_of
from tierfold.jobs.verbs.history import past_of
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.clock import now_ms
from tierfold.storage.segments.overlap_check import prove_overlaps
from tierfold.storage.segments.segment_inspection import batches_fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgot:
    """The outcome of `forget`."""

    report: PartitionReport
    """`segments_in` and `bytes_in`: live before, by the row; `segments_out` and `bytes_out`: what
    the next `compact` would take."""
    state: PartitionState | None = None
    """The row as it was read; None: there is none."""
    loss: Forgetting | None = None
    """What is forgotten and taken; None: impossible, or there is nothing to do."""


def forget(context: RunContext, name: str, console: Console, *, is_dry_run: bool = False) -> Forgot:
    """Empty the catalog's row of the partition `name`, if its log was truncated.

    A dry run changes nothing. `console` gets a warning if the run's record could not be written.
    Raises BadSettings if `name` matches no partition, TierfoldError if the catalog is unreadable.
    """
    started_at_ms = now_ms()
    known = known_by_name(context, name, where="tierfold forget")
    if known.refusal is not None:
        return Forgot(report=_refused(known.key, known.refusal))
    found = _looked_at(context, known.key, known.state)
    epoch = 0 if known.state is None else known.state.epoch
    found = replace(found, report=replace(found.report, epoch=epoch))
    if is_dry_run or found.loss is None or found.report.outcome != PLANNED:
        return found
    with deferred():
        report = _emptied(context, found, found.loss)
        keep_record(context, [(0, report)], started_at_ms, "forget", console)
    return replace(found, report=report)


def _looked_at(context: RunContext, key: PartitionKey, state: PartitionState | None) -> Forgot:
    """Return what would be done, from the row and the tier."""
    try:
        listed = context.tier.listing(key)
        facts = facts_of(context, key, state, listed)
        if divergence(facts) is None:
            return Forgot(report=_not_cut_off(context, facts))
        obstacles = in_the_way(facts, _unlike_live(context, facts))
        if obstacles is not None:
            refusal = obstacles.refusal(_uploads_at(context, key)).at(context.place(key))
            return Forgot(report=_refused(key, refusal))
        everything = row_without(
            key, state, [listed_segment.segment_id for listed_segment in listed]
        )
        bare = facts_of(context, key, everything, listed)
        view = view_from(context, bare)
        doubt = None if isinstance(view, Refusal) else _doubt(context, facts, view)
    except TierfoldError as error:
        return Forgot(report=_refused(key, refusal_of(error, str(key))))
    if isinstance(view, Refusal):
        detail = f"without its row, too, the partition would be refused: {view.detail}"
        return Forgot(report=_refused(key, replace(view, detail=detail)))
    if doubt is not None:
        return Forgot(report=_refused(key, doubt))
    loss = forgetting(facts, bare, view)
    return Forgot(report=_planned(key, state, loss), state=state, loss=loss)


def _unlike_live(context: RunContext, facts: PartitionFacts) -> set[str]:
    """Ids of unknown segments that lack records of live uploads; raises TierfoldError."""
    return {
        comparison.second.segment_id
        for comparison in comparisons_with_live(facts)
        if prove_overlaps(context.tier, facts.key, chain_of(-1, ()), [comparison]).disagreements
    }


def _doubt(context: RunContext, facts: PartitionFacts, view: PartitionView) -> Refusal | None:
    """Why the new history is doubtful: its checkpoints list epochs that its batches lack.

    A checkpoint is a small text file, and `forget` cannot be undone. So the batches are checked
    too where a new epoch begins. Raises TierfoldError.
    """
    known = () if facts.row is None else facts.row.lineage
    begun = [
        leader_epoch.start_offset for leader_epoch in view.lineage if leader_epoch not in known
    ]
    listed = {segment.segment_id: segment for segment in facts.classified.unknown}
    for segment in view.segments:
        if not any(segment.start_offset <= partition <= segment.end_offset for partition in begun):
            continue
        found = listed.get(segment.segment_id)
        if found is None or batches_fit(context.tier, facts.key, found, view.lineage):
            continue
        return Refusal(
            reason=RefusalReason.UNREADABLE,
            detail=f"the batches of segment {segment.segment_id} carry other leader epochs than its"
            " leader epoch checkpoint says",
            remedy="Its checkpoint may be damaged: compare it with the broker's, or take it from a"
            " copy. Nothing was changed.",
        )
    return None


def _not_cut_off(context: RunContext, facts: PartitionFacts) -> PartitionReport:
    draft = drafted(facts)
    if isinstance(draft, Refusal):
        detail = f"no unclean leader election cut its log off; {draft.detail}"
        return _refused(facts.key, replace(draft.at(context.place(facts.key)), detail=detail))
    reason = "no unclean leader election cut its log off: there is nothing to forget"
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
        is_ours = any(segment.written_by_run for segment in entry.state.segments)
        if not is_ours and not isinstance(restore_plan_of(entry.state, newest.state), Refusal):
            return timestamp_text(entry.state.committed_at_ms)
    return ""


def _planned(
    key: PartitionKey, state: PartitionState | None, loss: Forgetting
) -> PartitionReport:
    held = ""
    if state is not None and state.owner_run:
        at = timestamp_text(state.committed_at_ms)
        held = f"run {state.owner_run} holds it, its last commit was at {at}: it is fenced by this"
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
    """Claim and commit; nothing changes if another run was faster."""
    planned, key = found.report, found.report.key
    row = found.state or never_claimed(key)
    try:
        claim = context.catalog.claim([row], context.run, at_ms=context.clock())[key]
    except (CorruptLog, UnreadableObject) as error:
        return failure_report(planned, str(error))
    if not isinstance(claim.outcome, Committed):
        return claim_report(planned, claim.outcome)
    # A run that was not fenced until now may have written something since the tier was listed.
    if _looked_at(context, key, claim.state).loss != loss:
        proposals = [release_of(claim.state, new_commit_id(), context.clock())]
        settled(context.catalog, proposals, committed(context.catalog, proposals))
        reason = "the tier changed while it was looked at, and nothing was forgotten; run again"
        return replace(planned, outcome=LOST_RACE, reason=reason, bytes_out=0)
    proposals = [_proposal(claim.state, loss.consent, context.clock())]
    outcome = settled(context.catalog, proposals, committed(context.catalog, proposals))[key]
    report = replace(outcome_report(planned, outcome), epoch=claim.state.epoch)
    return replace(report, outcome=FORGOTTEN) if isinstance(outcome, Committed) else report


def _proposal(state: PartitionState, consent: Sequence[str], at_ms: int) -> CommitProposal:
    """The commit under the epoch of the claimed row `state`; it ends the claim."""
    return proposed(
        state,
        ForgetPartition(consent=tuple(consent)),
        ReleaseClaim(run=state.owner_run),
        commit_id=new_commit_id(),
        at_ms=at_ms,
    )


def _refused(key: PartitionKey, refusal: Refusal) -> PartitionReport:
    return PartitionReport(key=key, outcome=REFUSED, reason=refusal.sentence)
