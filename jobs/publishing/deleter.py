"""Sends what follows from the deletions of one run, some partitions at a time.

`joint_deletion` has the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import Stopped, finishing
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.joint_deletion import JointDeletion, LastLook
from tierfold.jobs.publishing.publishing_run import (
    STAYS,
    PublishingRun,
    publishing_run_of,
    some_at_a_time,
)
from tierfold.jobs.settings.resolution import Settings


def deleter_of(context: RunContext, settings: Settings, times: VacuumLimits) -> Deleter:
    """Return what sends for a run that has looked at its cluster; else raises ValueError."""
    run = publishing_run_of(context, settings)
    run.grace_ms = max(run.grace_ms, times.listed_grace_ms)
    return Deleter(run=run)


@dataclass(slots=True, kw_only=True)
class Deleter:
    """Sends for one run."""

    run: PublishingRun

    def send(
        self, held: HeldPartitions, rules: Mapping[PartitionKey, Rules]
    ) -> tuple[dict[PartitionKey, Publication], dict[PartitionKey, LastLook]]:
        """Send what follows from what is deleted of these partitions, which `held` has claimed.

        Returns what became of each, and of those that ended well the last look. After a signal or
        an error of the cluster nothing more is sent.
        """
        ended: dict[PartitionKey, Publication] = {}
        last: dict[PartitionKey, LastLook] = {}
        with finishing(STAYS):
            for keys in some_at_a_time([*rules]):
                joint = JointDeletion.of(self.run, held, {key: rules[key] for key in keys})
                try:
                    joint.run()
                except Stopped as stopped:
                    joint.leave_all(PublicationState.LEFT, f"stopped by {stopped.by}")
                except TierfoldError as error:
                    self.run.stopped_by = str(error)
                    joint.leave_all(PublicationState.FAILED, str(error))
                ended |= joint.ended
                last |= joint.last
        return ended, last
