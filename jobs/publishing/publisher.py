"""Publishes the partitions that a run has claimed, some at a time.

`joint_publication` has the loop; `compaction.publishing.next_step` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import Stopped, check, finishing
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.joint_publication import JointPublication
from tierfold.jobs.publishing.publishing_run import (
    STAYS,
    PublishingRun,
    publishing_run_of,
    some_at_a_time,
)
from tierfold.jobs.publishing.tier_proof import ALONE, alone_first
from tierfold.jobs.settings.resolution import Settings


def publisher_of(context: RunContext, settings: Settings) -> Publisher:
    """Return what publishes for a run; raises as `publishing_run_of`."""
    return Publisher(run=publishing_run_of(context, settings))


@dataclass(slots=True, kw_only=True)
class Publisher:
    """Publishes for one run; see `pipeline.publication.PublishesPartitions`."""

    run: PublishingRun

    @property
    def stopped_by(self) -> str:
        """As of `PublishesPartitions`."""
        return self.run.stopped_by

    def begin(self, plans: Sequence[PartitionPlan]) -> None:
        """Read what earlier runs have published, until the tier is proven; raises TierfoldError.

        `plans`: of all partitions in scope.
        """
        self.run.proof.read(plans)

    def publish(
        self, held: HeldPartitions, plans: Sequence[PartitionPlan]
    ) -> dict[PartitionKey, Publication]:
        """Publish these partitions, which `held` has claimed; return what became of each.

        After a signal nothing more is sent.
        """
        ended: dict[PartitionKey, Publication] = {}
        left = [*plans]
        with finishing(STAYS):
            while left:
                rows = [held.by_key[plan.key].row for plan in left]
                first, left = alone_first(self.run.proof, left, rows)
                if not first:
                    break
                for some in some_at_a_time(first):
                    ended |= self._published(held, some)
        why = f"{ALONE}; {self.run.proof.awaited or 'no record was dropped of the others'}"
        waits = Publication(state=PublicationState.WAITS, why=why)
        return ended | {plan.key: waits for plan in left}

    def _published(
        self, held: HeldPartitions, plans: Sequence[PartitionPlan]
    ) -> dict[PartitionKey, Publication]:
        joint = JointPublication.of(self.run, held, {plan.key: plan.rules for plan in plans})
        try:
            denied = self.run.proof.lacks_read(plan.key.topic for plan in plans)
            joint.leave_denied(denied)
            joint.run()
            return joint.ended | self._with_canaries(joint.ended)
        except Stopped as stopped:
            joint.leave_all(PublicationState.LEFT, f"stopped by {stopped.by}")
        except TierfoldError as error:
            self.run.stopped_by = str(error)
            joint.leave_all(PublicationState.FAILED, str(error))
        return joint.ended

    def _with_canaries(
        self, ended: Mapping[PartitionKey, Publication]
    ) -> dict[PartitionKey, Publication]:
        """Read the canary of each partition that was swapped; those of which it says something.

        After one that failed nothing more is sent: the next swap may do the same to its consumers.
        """
        changed: dict[PartitionKey, Publication] = {}
        for key, publication in ended.items():
            is_done = publication.state is PublicationState.PUBLISHED
            if not (is_done and publication.events) or publication.row is None:
                continue
            check()
            error = self.run.proof.why_failed(publication.row)
            if error is not None:
                changed[key] = replace(
                    publication, state=PublicationState.FAILED, why=str(error)
                )
                self.run.stopped_by = str(error)
            elif awaited := self.run.proof.awaited:
                changed[key] = replace(publication, why=f"nothing else is published yet: {awaited}")
        return changed
