"""Commits proposals and resolves commits that got no answer. Without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tierfold.compaction.commits.commit import CommitProposal
from tierfold.compaction.model.errors import CorruptLog, TierfoldError, UnreadableObject
from tierfold.compaction.model.outcomes import Outcome, Unknown
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.clock import pause

READ_BACK_AFTER_MS: Final = (0, 500, 1000, 2000, 4000)
"""Waits before each attempt to read back a commit without an answer: enough for a store to restart
or a network to fail over. Then the report asks the user to run again."""


def committed(catalog: Catalog, proposals: Sequence[CommitProposal]) -> dict[PartitionKey, Outcome]:
    """Commit; return the outcomes, which are all `Unknown` if the catalog cannot be read."""
    try:
        return catalog.commit(proposals)
    except (CorruptLog, UnreadableObject) as error:
        return {
            proposal.key: Unknown(commit_id=proposal.commit_id, cause=str(error))
            for proposal in proposals
        }


def settled(
    catalog: Catalog,
    proposals: Sequence[CommitProposal],
    outcomes: Mapping[PartitionKey, Outcome],
) -> dict[PartitionKey, Outcome]:
    """Resolve the unknown outcomes by reading the rows, with waits between the attempts.

    Nothing is written. An outcome stays `Unknown` if no row shows it or the rows are unreadable.
    """
    found = dict(outcomes)
    for wait_ms in READ_BACK_AFTER_MS:
        unanswered = [
            proposal for proposal in proposals if isinstance(found.get(proposal.key), Unknown)
        ]
        if not unanswered:
            break
        pause(wait_ms)
        found |= _looked_up(catalog, unanswered, found)
    return found


def _looked_up(
    catalog: Catalog,
    unanswered: Sequence[CommitProposal],
    outcomes: Mapping[PartitionKey, Outcome],
) -> dict[PartitionKey, Outcome]:
    try:
        by_key = catalog.resolve(unanswered)
    except TierfoldError:
        return {}
    untraced = {
        key: replace(outcome, is_untraced=True)
        for key, outcome in outcomes.items()
        if key in by_key and isinstance(outcome, Unknown)
    }
    return {**untraced, **{key: outcome for key, outcome in by_key.items() if outcome is not None}}
