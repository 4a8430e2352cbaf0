"""Stages 7 and 8 of rewritten rounds: check and commit.

The check compares the workers' receipts with each other and with the objects in the tier. A
partition that fails it is not committed; the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from tierfold.compaction.commits.commit import CommitProposal
from tierfold.compaction.commits.receipts import listing_violations, receipt_violations
from tierfold.compaction.commits.round_commit import proposal_of
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Committed
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import finishing
from tierfold.jobs.engines.rows import REPORT_BUG
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.round_execution import RoundResult
from tierfold.jobs.pipeline.survey import READERS
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.tiers.remote_tier import RemoteTier

COMMITS: Final = "what is rewritten is checked and committed, and the claims are released"


def check_and_commit(held: HeldPartitions, rewritten: Sequence[RoundResult]) -> list[RoundResult]:
    """Check every round, and commit the valid ones together; return their results, in order."""
    with finishing(COMMITS):
        return _checked_and_committed(held, rewritten)


def _checked_and_committed(
    held: HeldPartitions, rewritten: Sequence[RoundResult]
) -> list[RoundResult]:
    context = held.context
    with context.seconds.timed(TimedStage.CHECK), ThreadPoolExecutor(READERS) as pool:
        failures = list(pool.map(lambda result: violation_of(result, context.tier), rewritten))
    checked = [
        replace(result, failure=failure)
        for result, failure in zip(rewritten, failures, strict=True)
    ]
    valid = [result for result in checked if result.failure is None]
    proposals = [_proposal(result, context.clock()) for result in valid]
    with context.seconds.timed(TimedStage.COMMIT):
        held.commit(proposals)
    return [with_outcome(result, held) if result.failure is None else result for result in checked]


def _proposal(result: RoundResult, at_ms: int) -> CommitProposal:
    unread = dict(result.scan.spared)
    return proposal_of(result.round, result.receipts, new_commit_id(), at_ms, unread)


def with_outcome(result: RoundResult, held: HeldPartitions) -> RoundResult:
    """Return the result with the outcome of its commit, as far as it is known by now."""
    now = held.by_key[result.round.key]
    state = now.row if isinstance(now.outcome, Committed) else None
    return replace(result, outcome=now.outcome, state=state)


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
    if not any(receipt.written for receipt in rewritten.receipts):
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
