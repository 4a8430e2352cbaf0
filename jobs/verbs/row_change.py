"""Claims one partition, commits one change of its row, and reports it: `restore` and `forget`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tierfold.compaction.commits.commit import CommitProposal
from tierfold.compaction.commits.round_commit import release_of
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.commits import committed, settled
from tierfold.jobs.pipeline.partition_report import (
    LOST_RACE,
    REFUSED,
    PartitionReport,
    claim_report,
    failure_report,
    outcome_report,
)
from tierfold.storage.catalog.catalog import new_commit_id


def changed_row(
    context: RunContext,
    row: PartitionState,
    planned: PartitionReport,
    propose: Callable[[PartitionState], CommitProposal | None],
    done: str,
) -> PartitionReport:
    """Claim `row`, commit what `propose` returns for the claimed row, and report it.

    None from `propose`: the tier is not as planned, so the claim is released. `done`: the outcome
    after a commit. If another run was faster, nothing is written.
    """
    try:
        claim = context.catalog.claim([row], context.run, at_ms=context.clock())[row.key]
    except (CorruptLog, UnreadableObject) as error:
        return failure_report(planned, str(error))
    if not isinstance(claim.outcome, Committed):
        return claim_report(planned, claim.outcome)
    proposal = propose(claim.state)
    proposals = [proposal or release_of(claim.state, new_commit_id(), context.clock())]
    outcomes = settled(context.catalog, proposals, committed(context.catalog, proposals))
    if proposal is None:
        reason = "the tier changed since it was read, and nothing was done; run again"
        return replace(planned, outcome=LOST_RACE, reason=reason, bytes_out=0)
    report = replace(outcome_report(planned, outcomes[row.key]), epoch=claim.state.epoch)
    return replace(report, outcome=done) if isinstance(outcomes[row.key], Committed) else report


def refused(key: PartitionKey, refusal: Refusal) -> PartitionReport:
    """Report a partition that is left unchanged until a person acts."""
    return PartitionReport(key=key, outcome=REFUSED, reason=refusal.sentence)
