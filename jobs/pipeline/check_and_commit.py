"""Stages 7 and 8 of rewritten rounds: check and commit. Without Spark.

The check compares the workers' receipts with each other and with the objects in the tier. A
partition that fails the check is not committed; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tierfold.compaction.commits.commit import CommitProposal, applied
from tierfold.compaction.commits.receipts import (
    GroupReceipt,
    listing_violations,
    receipt_violations,
)
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Committed, Outcome
from tierfold.compaction.model.segments import PartitionState
from tierfold.jobs.pipeline.commits import committed, settled
from tierfold.jobs.pipeline.proposals import proposal_of
from tierfold.jobs.pipeline.survey import READERS
from tierfold.jobs.pipeline.task_assignment import Round
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A round after stage 6: the receipts of its workers, or why it stopped."""

    round: Round
    receipts: tuple[GroupReceipt, ...] = ()
    records_scanned: int = 0
    """Records that the scan counted in the round's sources."""
    record_bytes_scanned: int = 0
    """Their bytes, uncompressed."""
    failure: str | None = None
    unindexed: int = 0
    """Aborted transactions that have a marker but no index entry."""
    malformed_versions: int = 0
    """Records whose version header is malformed, under `compaction.strategy=header`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """How one round ended."""

    round: Round
    receipts: tuple[GroupReceipt, ...] = ()
    outcome: Outcome | None = None
    """None if the round failed before the commit."""
    failure: str | None = None
    unindexed: int = 0
    malformed_versions: int = 0
    """Both as in `Rewritten`."""
    proposal: CommitProposal | None = None
    """The proposal sent to the catalog; None if none was sent."""
    state: PartitionState | None = None
    """The row that the commit wrote; None if there was no commit."""


def check_and_commit(
    rewritten: Sequence[Rewritten],
    catalog: Catalog,
    tier: LocalTieredStorage,
    clock: Callable[[], int],
) -> list[RoundResult]:
    """Check every round, commit the valid ones together; return one result per round, in order.

    `clock` returns the time of the commits in epoch milliseconds.
    """
    with ThreadPoolExecutor(READERS) as pool:
        failures = list(pool.map(lambda rewritten: violation_of(rewritten, tier), rewritten))
    proposals = {
        done.round.key: proposal_of(done.round, done.receipts, new_commit_id(), clock())
        for done, failure in zip(rewritten, failures, strict=True)
        if not failure
    }
    outcomes = committed(catalog, [*proposals.values()])
    return [
        _result(done, failure, proposals.get(done.round.key), outcomes.get(done.round.key))
        for done, failure in zip(rewritten, failures, strict=True)
    ]


def read_back(results: Sequence[RoundResult], catalog: Catalog) -> list[RoundResult]:
    """Resolve the results whose commit got no answer by reading the rows a few times.

    Nothing is written. The outcome stays `Unknown` if no row shows it or the rows are unreadable.
    """
    proposals = [result.proposal for result in results if result.proposal is not None]
    known = {result.round.key: result.outcome for result in results if result.outcome is not None}
    outcomes = settled(catalog, proposals, known)
    return [
        replace(result, outcome=outcome, state=_left_by(result.proposal, result.round, outcome))
        for result in results
        for outcome in [outcomes.get(result.round.key)]
    ]


def violation_of(rewritten: Rewritten, tier: LocalTieredStorage) -> str:
    """Stage 7: why the round must not be committed; empty: it may be.

    The receipts must be consistent, and the tier must hold the new objects as they were written.
    The partition's folder is listed once.
    """
    if rewritten.failure is not None:
        return rewritten.failure
    violations = receipt_violations(
        rewritten.round.groups,
        rewritten.receipts,
        records_scanned=rewritten.records_scanned,
        record_bytes_scanned=rewritten.record_bytes_scanned,
    )
    if violations:
        return (
            f"{rewritten.round.key}: the results contradict each other, nothing was committed: "
            f"{'; '.join(violations)}. This is a bug; please report it."
        )
    if not any(receipt.staged for receipt in rewritten.receipts):
        return ""
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
    return ""


def _result(
    rewritten: Rewritten, failure: str, proposal: CommitProposal | None, outcome: Outcome | None
) -> RoundResult:
    return RoundResult(
        round=rewritten.round,
        receipts=rewritten.receipts,
        outcome=outcome,
        failure=failure or None,
        unindexed=rewritten.unindexed,
        malformed_versions=rewritten.malformed_versions,
        proposal=proposal,
        state=_left_by(proposal, rewritten.round, outcome),
    )


def _left_by(
    proposal: CommitProposal | None, of_round: Round, outcome: Outcome | None
) -> PartitionState | None:
    """The row that the commit wrote, computed without reading it; None if it wrote none."""
    if proposal is None or not isinstance(outcome, Committed):
        return None
    return applied(proposal, of_round.state)
