"""Publishes the partitions that a run has claimed, some at a time.

`joint_publication` has the loop; `compaction.publishing.next_step` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.deletion.served_grace import least_grace_ms
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import Stopped, finishing
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.joint_publication import JointPublication
from tierfold.jobs.publishing.publishing_run import PublishingRun
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.brokers.event_door import EventDoor

AT_ONCE: Final = 100
"""Partitions that share their looks, at most: a look is valid for a minute."""

STAYS: Final = "what brokers were sent stays, and the next run goes on"


def publisher_of(context: RunContext, settings: Settings) -> Publisher:
    """Return what publishes for a run that has looked at its cluster; else raises ValueError."""
    cluster, publishing, look = context.cluster, context.publishing, context.cluster_view
    if cluster is None or publishing is None or look is None:
        raise ValueError("no brokers are named, or no look at them was taken")
    door = EventDoor(
        cluster.connection,
        look.metadata_topic,
        message_timeout_ms=publishing.message_timeout_ms,
        events_per_second_max=publishing.max_events_per_second,
    )
    run = PublishingRun(
        context=context,
        cluster=cluster,
        settings=settings,
        door=door,
        grace_ms=least_grace_ms(publishing.message_timeout_ms),
    )
    return Publisher(run=run)


@dataclass(slots=True, kw_only=True)
class Publisher:
    """Publishes for one run; see `pipeline.publication.PublishesPartitions`."""

    run: PublishingRun

    def publish(
        self, held: HeldPartitions, plans: Sequence[PartitionPlan]
    ) -> dict[PartitionKey, Publication]:
        """Publish these partitions, which `held` has claimed; return what became of each.

        After a signal nothing more is sent.
        """
        ended: dict[PartitionKey, Publication] = {}
        with finishing(STAYS):
            for first in range(0, len(plans), AT_ONCE):
                rules = {plan.key: plan.rules for plan in plans[first : first + AT_ONCE]}
                joint = JointPublication.of(self.run, held, rules)
                try:
                    joint.run()
                except Stopped as stopped:
                    joint.leave_all(PublicationState.LEFT, f"stopped by {stopped.by}")
                except TierfoldError as error:
                    joint.leave_all(PublicationState.FAILED, str(error))
                ended |= joint.ended
        return ended
