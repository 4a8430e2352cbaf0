"""Publishes the partitions of one run: what all of them share.

`joint_publication` has the loop; `compaction.publishing.next_step` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tierfold.compaction.discovery.broker_refusals import setup_refusals
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.publishing.look import PUBLISHING_GRACE_MS
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import Stopped, finishing
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.joint_publication import JointPublication
from tierfold.jobs.publishing.looks import failed_by
from tierfold.jobs.publishing.service_note import note_service
from tierfold.jobs.publishing.verified_objects import VerifiedObjects
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
    return Publisher(context=context, cluster=cluster, settings=settings, door=door)


@dataclass(slots=True, kw_only=True)
class Publisher:
    """Publishes for one run; see `pipeline.publication.PublishesPartitions`."""

    context: RunContext
    cluster: RunCluster
    settings: Settings
    door: EventDoor
    grace_ms: int = PUBLISHING_GRACE_MS
    verified: VerifiedObjects = field(init=False)
    is_noted: bool = False
    """Whether the tier's note says who publishes."""
    stopped_by: str = ""
    """Why nothing more is sent in this run, a sentence; empty: nothing forbids it."""

    def __post_init__(self) -> None:
        self.verified = VerifiedObjects(context=self.context)

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
                joint = JointPublication.of(self, held, rules)
                try:
                    joint.run()
                except Stopped as stopped:
                    joint.leave_all(PublicationState.LEFT, f"stopped by {stopped.by}")
                except TierfoldError as error:
                    joint.leave_all(PublicationState.FAILED, str(error))
                ended |= joint.ended
        return ended

    def may_send(self) -> bool:
        """Whether anything may be sent; before the first send the tier notes who publishes."""
        if not self.is_noted and not self.stopped_by:
            refusal = note_service(self.context)
            self.is_noted = refusal is None
            self.stopped_by = "" if refusal is None else refusal.sentence
        return self.is_noted

    def refused_setup(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Publication]:
        """What settings of the cluster and of topics forbid, as the newest look has read them."""
        look = self.context.cluster_view
        if look is None:
            return {}
        keys = list(keys)
        rules = {key.topic: self.settings.rules_for(key.topic) for key in keys}
        declared = self.settings.cluster.kafka_version
        refusals = setup_refusals(look, keys, rules, declared=declared, grace_ms=self.grace_ms)
        ended = {key: failed_by(refusal) for key, refusal in refusals.items()}
        if look.setup.lacks_write is not None:
            why = str(look.setup.lacks_write)
            denied = Publication(state=PublicationState.FAILED, why=why)
            ended |= dict.fromkeys((key for key in keys if key not in ended), denied)
        return ended
