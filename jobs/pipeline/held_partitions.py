"""Claims, commits, rechecks and releases the partitions that a run changes. Without Spark.

    claim    -> one commit opens the next epoch of many partitions; those that it won are held;
                it also gives up claims on partitions that are done
    commit   -> one commit changes the rows of held partitions
    settle   -> reads back the commits that got no answer, a few times; nothing is written
    recheck  -> reads rows again: what is still held?
    release  -> one commit gives up all claims that are still held, at the latest at the end

Every verb that changes a partition does it here. What the answers mean is decided by
`compaction.commits.held_partition`; whether a partition that another run holds is claimed, by
`compaction.commits.holders`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tierfold.compaction.commits.commit import CommitProposal
from tierfold.compaction.commits.held_partition import HeldPartition
from tierfold.compaction.commits.holders import NotClaimed, Skip, Wait
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
)
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome, Unknown
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.byte_progress import Step
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.sign_of_life import SignOfLife
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.storage.catalog.catalog import new_commit_id
from tierfold.storage.clock import pause

_log: Final = logging.getLogger(__name__)

READ_BACK_AFTER_MS: Final = (0, 500, 1000, 2000, 4000)
"""Waits before each attempt to read back a commit without an answer: enough for a store to restart
or a network to fail over. Then the report asks the user to run again."""


@dataclass(slots=True, kw_only=True)
class HeldPartitions:
    """The partitions that a run has claimed; as a context manager, it releases them at the end.

    From the first claim until then the run gives signs of life. Use it within `deferred`, so that a
    signal does not interrupt the release.
    """

    context: RunContext
    verb: str
    """For the signs of life."""
    by_key: dict[PartitionKey, HeldPartition] = field(default_factory=dict)
    """Each partition whose claim was committed, as it is now; also those lost since."""
    life: SignOfLife = field(init=False)
    _begins: bool = False
    """The next claim is the first one within the context."""

    def __post_init__(self) -> None:
        self.life = SignOfLife(self.context, self.verb)

    def __enter__(self) -> HeldPartitions:
        self._begins = True
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with Step(self.context.progress, "release", None):
                self.release()
        finally:
            self.life.end()

    def claim(
        self, rows: Sequence[PartitionState], done: Iterable[PartitionKey] = ()
    ) -> dict[PartitionKey, NotClaimed]:
        """Open the next epoch of these rows in one commit; return those that are not claimed.

        `rows`: as `Catalog.claim` takes them. One that a live run holds is left to it, unless the
        user insists. An error: the catalog could not be read. A claim without an answer has failed,
        too: the next run's claim opens a newer epoch. The same commit gives up those of `done` that
        are still held; without a row to claim nothing is written.
        """
        left = self.life.not_claimed(rows)
        lost = self._claimed([row for row in rows if row.key not in left], done)
        overtaken = [key for key, one in lost.items() if isinstance(one, LostRace | Fenced)]
        return left | lost | self._overtakers(overtaken)

    def _overtakers(self, keys: Sequence[PartitionKey]) -> dict[PartitionKey, Skip | Wait]:
        """The live runs that claimed these partitions since they were planned."""
        if not keys:
            return {}
        try:
            rows = self.context.catalog.look(keys)
        except TierfoldError:
            return {}
        return self.life.not_claimed(rows.states)

    def _claimed(
        self, rows: Sequence[PartitionState], done: Iterable[PartitionKey]
    ) -> dict[PartitionKey, NotClaimed]:
        """Claim these rows from any run; return the claims that failed."""
        if not rows:
            return {}
        if self._begins:
            self._begins = False
            self.life.begin()
        catalog, run, at_ms = self.context.catalog, self.context.run, self.context.clock()
        releases = self._releases(done, at_ms)
        try:
            if releases:
                claims, released = catalog.exchange(rows, releases, run, at_ms=at_ms)
            else:
                claims, released = catalog.claim(rows, run, at_ms=at_ms), {}
        except (CorruptLog, UnreadableObject) as error:
            # Do not raise: the commits of earlier waves must still be reported.
            return {row.key: error for row in rows}
        for release in releases:
            self._after(release, released[release.key])
        won = {key: one for key, one in claims.items() if isinstance(one.outcome, Committed)}
        if won:
            self.life.holds()
        self.by_key |= won
        return {key: one.outcome for key, one in claims.items() if key not in won}

    def commit(self, proposals: Sequence[CommitProposal]) -> None:
        """Commit changes of held partitions together; `by_key` has the outcomes.

        They are `Unknown` if the catalog cannot be read. Raises InvariantBroken.
        """
        if not proposals:
            return
        try:
            outcomes = self.context.catalog.commit(proposals)
        except (CorruptLog, UnreadableObject) as error:
            outcomes = {
                proposal.key: Unknown(commit_id=proposal.commit_id, cause=str(error))
                for proposal in proposals
            }
        for proposal in proposals:
            self._after(proposal, outcomes[proposal.key])

    def _after(self, proposal: CommitProposal, outcome: Outcome) -> None:
        self.by_key[proposal.key] = self.by_key[proposal.key].after(proposal, outcome)

    def settle(self) -> None:
        """Resolve the commits without an answer by reading the rows, with waits between attempts.

        Nothing is written. An outcome stays `Unknown` if no row shows it or the rows are
        unreadable.
        """
        for wait_ms in READ_BACK_AFTER_MS:
            unanswered = [
                held.unanswered for held in self.by_key.values() if held.unanswered is not None
            ]
            if not unanswered:
                return
            pause(wait_ms)
            with suppress(TierfoldError):
                for key, found in self.context.catalog.resolve(unanswered).items():
                    self.by_key[key] = self.by_key[key].resolved(found)

    def recheck(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, TierfoldError]:
        """Read the rows of these held partitions again; return those that cannot be read, and why.

        `by_key` has the others as their present rows show them.
        """
        try:
            rows = self.context.catalog.look(keys)
        except TierfoldError as error:
            return dict.fromkeys(keys, error)
        refused = {key: rows.refused.get((key.topic_id, key.partition)) for key in keys}
        for key in keys:
            if refused[key] is None:
                self.by_key[key] = self.by_key[key].seen(rows.by_key.get(key))
        return {key: error for key, error in refused.items() if error is not None}

    def release(self) -> None:
        """Give up, in one commit, all claims that are still held.

        The outcome does not matter: the next run takes over a claim that stays.
        """
        with self.context.seconds.timed(TimedStage.COMMIT):
            try:
                self.commit(self._releases(self.by_key, self.context.clock()))
            except BadSettings as error:  # The run's results must still be reported.
                _log.warning("The claims could not be released: %s", error)

    def _releases(self, keys: Iterable[PartitionKey], at_ms: int) -> list[CommitProposal]:
        releases = (self.by_key[key].release(new_commit_id(), at_ms) for key in keys)
        return [release for release in releases if release is not None]
