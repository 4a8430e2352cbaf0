"""Stages 7 and 8 of rewritten rounds: check and commit.

The check compares the workers' receipts with each other and with the objects in the tier. A
partition that fails it is not committed; the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tierfold.compaction.commits.commit import CommitProposal, applied
from tierfold.compaction.commits.receipts import listing_violations, receipt_violations
from tierfold.compaction.commits.round_commit import proposal_of
from tierfold.compaction.commits.spared import UnreadSegments
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Committed, Outcome
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.engines.rows import REPORT_BUG
from tierfold.jobs.pipeline.commits import committed, settled
from tierfold.jobs.pipeline.round_execution import RoundResult
from tierfold.jobs.pipeline.survey import READERS
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.tiers.remote_tier import RemoteTier


def check_and_commit(context: RunContext, rewritten: Sequence[RoundResult]) -> list[RoundResult]:
    """Check every round, and commit the valid ones together; return their results, in order."""
    with context.seconds.timed(TimedStage.CHECK), ThreadPoolExecutor(READERS) as pool:
        failures = list(pool.map(lambda result: violation_of(result, context.tier), rewritten))
    proposed = [
        replace(
            result,
            failure=failure,
            proposal=_proposal(result, context.clock()) if failure is None else None,
        )
        for result, failure in zip(rewritten, failures, strict=True)
    ]
    with context.seconds.timed(TimedStage.COMMIT):
        proposals = [one.proposal for one in proposed if one.proposal is not None]
        outcomes = committed(context.catalog, proposals)
    return [_ended(result, outcomes.get(result.round.key)) for result in proposed]


def _proposal(result: RoundResult, at_ms: int) -> CommitProposal:
    spared = dict(result.scan.spared)
    unread = UnreadSegments(ids=frozenset(spared), spared_bytes=spared)
    return proposal_of(result.round, result.receipts, new_commit_id(), at_ms, unread)


def read_back(results: Sequence[RoundResult], catalog: Catalog) -> list[RoundResult]:
    """Resolve the results whose commit got no answer by reading the rows a few times.

    Nothing is written. The outcome stays `Unknown` if no row shows it or the rows are unreadable.
    """
    proposals = [result.proposal for result in results if result.proposal is not None]
    known = {result.round.key: result.outcome for result in results if result.outcome is not None}
    outcomes = settled(catalog, proposals, known)
    return [_ended(result, outcomes.get(result.round.key)) for result in results]


def violation_of(rewritten: RoundResult, tier: RemoteTier) -> str | None:
    """Return why the round must not be committed; None: it may be.

    The receipts must be consistent, and the tier must hold the new objects as they were written.
    Lists the partition's folder once.
    """
    if rewritten.failure is not None:
        return rewritten.failure
    violations = receipt_violations(
        rewritten.round.groups,
        rewritten.receipts,
        records_scanned=rewritten.scan.records,
        record_bytes_scanned=rewritten.scan.record_bytes,
    )
    if violations:
        return (
            f"{rewritten.round.key}: the results contradict each other, nothing was committed:"
            f" {'; '.join(violations)}. {REPORT_BUG}"
        )
    if not any(receipt.staged for receipt in rewritten.receipts):
        return None
    try:
        violations = listing_violations(rewritten.receipts, tier.listing(rewritten.round.key))
    except TierfoldError as error:
        return str(error)
    if violations:
        return (
            f"{rewritten.round.key}: new objects changed after they were written,"
            f" nothing was committed: {'; '.join(violations)}."
            " Look for what else changes the tier, then run again."
        )
    return None


def _ended(result: RoundResult, outcome: Outcome | None) -> RoundResult:
    proposal = result.proposal
    if proposal is None or not isinstance(outcome, Committed):
        return replace(result, outcome=outcome)
    return replace(result, outcome=outcome, state=applied(proposal, result.round.state))
