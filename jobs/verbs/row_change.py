"""Claims one partition, commits one change of its row, and reports it: `restore` and `forget`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tierfold.compaction.commits.commit import CommitProposal, MoveTier, NoteConsent
from tierfold.compaction.commits.holders import Skip, Wait
from tierfold.compaction.commits.moved_tier import move_of, place_to_note
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.bindings import Detached
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.model.serving import Consent, ConsentKind
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.sign_of_life import SignOfLife
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import finishing
from tierfold.jobs.context.tier_identity import run_binding
from tierfold.jobs.pipeline.claim_report import claim_report
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.partition_report import (
    LOST_RACE,
    REFUSED,
    PartitionReport,
    failure_report,
    outcome_report,
)


def changed_row(
    context: RunContext,
    row: PartitionState,
    planned: PartitionReport,
    propose: Callable[[PartitionState], CommitProposal | Refusal | None],
    done: str,
    verb: str,
) -> PartitionReport:
    """Claim `row`, commit what `propose` returns for the claimed row, and report it.

    None from `propose`: the tier is not as planned, so nothing is committed; nor after a refusal.
    `done`: the outcome after a commit. If a live run holds the partition, or another one was
    faster, nothing is written.
    """
    seconds = context.seconds
    holding = HeldPartitions(context=context, verb=verb)
    with finishing(f"the change of {row.key} is finished"), holding as held:
        with seconds.timed(TimedStage.COMMIT):
            failed = held.claim([row])
        if failed:
            return claim_report(planned, failed[row.key])
        claimed = held.by_key[row.key].row
        proposal = propose(claimed)
        if proposal is None:
            reason = "the tier changed since it was read, and nothing was done; run again"
            return replace(planned, outcome=LOST_RACE, reason=reason, bytes_out=0)
        if isinstance(proposal, Refusal):
            return replace(failure_report(planned, proposal.sentence), epoch=claimed.epoch)
        with seconds.timed(TimedStage.COMMIT):
            held.commit([proposal])
            held.settle()
        context.progress.ended(1)
        outcome = held.by_key[row.key].outcome
    report = replace(outcome_report(planned, outcome), epoch=claimed.epoch)
    return replace(report, outcome=done) if isinstance(outcome, Committed) else report


def noted_binding(
    context: RunContext, row: PartitionState, at_ms: int
) -> tuple[MoveTier | NoteConsent, ...]:
    """The change that notes what the user says of the tier; `row`: claimed, of a served partition.

    Otherwise the next run would be refused, or this commit, as brokers would not learn of it.
    """
    binding = run_binding(context)
    if isinstance(binding, Detached) and row.is_served:
        consent = Consent(kind=ConsentKind.DETACHED, given_at_ms=at_ms, run=context.run)
        return (NoteConsent(consent=consent),)
    return move_of(place_to_note(row, binding), at_ms=at_ms, run=context.run)


def holder_of(context: RunContext, row: PartitionState, verb: str) -> Skip | Wait | None:
    """The live run that holds the row, before anything is read for its change; None: none does."""
    life = SignOfLife(context, verb)
    try:
        return life.not_claimed([row]).get(row.key)
    finally:
        life.end()


def refused(key: PartitionKey, refusal: Refusal) -> PartitionReport:
    """Report a partition that is left unchanged until a person acts."""
    return PartitionReport(
        key=key, outcome=REFUSED, reason=refusal.sentence, refusals=refusal.parts
    )
