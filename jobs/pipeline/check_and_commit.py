"""Stages 7 and 8 of rounds whose groups are rewritten: check, and commit. Without Spark.

What is checked is what the workers say and what lies in the tier now. A partition with a fault is
not committed, nothing of it; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tierfold.compaction.commits.commit import CommitProposal, applied
from tierfold.compaction.commits.receipts import GroupReceipt, listing_faults, receipt_violations
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
    """A round after stage 6: what its workers said, or why it stopped on the way."""

    round: Round
    receipts: tuple[GroupReceipt, ...] = ()
    records_scanned: int = 0
    """Records that the scan counted in the round's sources."""
    record_bytes_scanned: int = 0
    """Their bytes, uncompressed."""
    failure: str | None = None
    unindexed: int = 0
    """Aborted transactions that only their marker told of."""
    malformed_versions: int = 0
    """Records whose version header is none, under `compaction.strategy=header`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """How one round ended."""

    round: Round
    receipts: tuple[GroupReceipt, ...] = ()
    outcome: Outcome | None = None
    """None where it failed before the commit."""
    failure: str | None = None
    unindexed: int = 0
    malformed_versions: int = 0
    """Both as in `Rewritten`."""
    proposal: CommitProposal | None = None
    """What the catalog was asked to accept; None where it was asked nothing."""
    state: PartitionState | None = None
    """The row that the commit left; None where none took place."""


def check_and_commit(
    rewritten: Sequence[Rewritten],
    catalog: Catalog,
    tier: LocalTieredStorage,
    clock: Callable[[], int],
) -> list[RoundResult]:
    """Check every round and commit the sound ones at once; one result per round, in their order.

    `clock` tells the time, epoch milliseconds, that the commits bear.
    """
    with ThreadPoolExecutor(READERS) as pool:
        failures = list(pool.map(lambda rewritten: fault_of(rewritten, tier), rewritten))
    proposals = {
        each.round.key: proposal_of(each.round, each.receipts, new_commit_id(), clock())
        for each, failure in zip(rewritten, failures, strict=True)
        if not failure
    }
    outcomes = committed(catalog, [*proposals.values()])
    return [
        _result(each, failure, proposals.get(each.round.key), outcomes.get(each.round.key))
        for each, failure in zip(rewritten, failures, strict=True)
    ]


def read_back(results: Sequence[RoundResult], catalog: Catalog) -> list[RoundResult]:
    """The results, where the answer to the commit was lost, as the rows tell within a few looks.

    Nothing is written. `Unknown` stays what no row settles, or nobody can read.
    """
    proposals = [result.proposal for result in results if result.proposal is not None]
    known = {result.round.key: result.outcome for result in results if result.outcome is not None}
    outcomes = settled(catalog, proposals, known)
    return [
        replace(result, outcome=outcome, state=_left_by(result.proposal, result.round, outcome))
        for result in results
        for outcome in [outcomes.get(result.round.key)]
    ]


def fault_of(rewritten: Rewritten, tier: LocalTieredStorage) -> str:
    """Stage 7: why nothing of the round may be published; empty: it may be.

    What its workers say must add up, and what they wrote must lie in the tier as they wrote it:
    the folder is listed for that, once.
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
        violations = listing_faults(rewritten.receipts, tier.listing(rewritten.round.key))
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
    """The row that the commit wrote, known without reading it; None where it wrote none."""
    if proposal is None or not isinstance(outcome, Committed):
        return None
    return applied(proposal, of_round.state)
