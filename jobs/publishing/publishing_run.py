"""What all partitions share that one run publishes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tierfold.compaction.brokers.preconditions import cluster_preconditions
from tierfold.compaction.deletion.served_grace import least_grace_ms
from tierfold.compaction.discovery.broker_refusals import setup_refusals
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.looks import failed_by
from tierfold.jobs.publishing.service_note import note_service
from tierfold.jobs.publishing.tier_proof import TierProof
from tierfold.jobs.publishing.verified_objects import VerifiedObjects
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.brokers.event_door import EventDoor

AT_ONCE: Final = 100
"""Partitions that share their looks, at most: a look is valid for a minute."""

STAYS: Final = "what brokers were sent stays, and the next run goes on"

_T = TypeVar("_T")


def some_at_a_time(partitions: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield the partitions that share their looks, in order."""
    for first in range(0, len(partitions), AT_ONCE):
        yield partitions[first : first + AT_ONCE]


def publishing_run_of(context: RunContext, settings: Settings) -> PublishingRun:
    """Return what is shared in a run that has looked at its cluster; else raises ValueError."""
    cluster, publishing, look = context.cluster, context.publishing, context.cluster_view
    if cluster is None or publishing is None or look is None:
        raise ValueError("no brokers are named, or no look at them was taken")
    door = EventDoor(
        cluster.connection,
        look.metadata_topic,
        message_timeout_ms=publishing.message_timeout_ms,
        events_per_second_max=publishing.max_events_per_second,
    )
    return PublishingRun(
        context=context,
        cluster=cluster,
        settings=settings,
        door=door,
        message_timeout_ms=publishing.message_timeout_ms,
        grace_ms=least_grace_ms(publishing.message_timeout_ms),
        proof=TierProof(context=context, cluster=cluster, mode=publishing.canary),
    )


@dataclass(slots=True, kw_only=True)
class PublishingRun:
    """The run, its cluster and the one door to it."""

    context: RunContext
    cluster: RunCluster
    settings: Settings
    door: EventDoor
    message_timeout_ms: int
    """How long a look is valid."""
    grace_ms: int
    """How long segments stay that are listed for deletion."""
    proof: TierProof
    """Whether the tier is the one that brokers read."""
    verified: VerifiedObjects = field(init=False)
    is_noted: bool = False
    """Whether the tier's note says who publishes."""
    stopped_by: str = ""
    """Why nothing more is sent in this run, a sentence; empty: nothing forbids it."""

    def __post_init__(self) -> None:
        self.verified = VerifiedObjects(context=self.context)

    def may_send(self) -> bool:
        """Whether anything may be sent; before the first send the tier notes who publishes."""
        if not self.is_noted and not self.stopped_by:
            refusal = note_service(self.context)
            self.is_noted = refusal is None
            self.stopped_by = "" if refusal is None else refusal.sentence
        return self.is_noted and not self.stopped_by

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
        if cluster_preconditions(look.setup, declared=declared, grace_ms=self.grace_ms):
            self.stopped_by = next((one.why for one in ended.values()), "")
        if look.setup.lacks_write is not None:
            self.stopped_by = str(look.setup.lacks_write)
            denied = Publication(state=PublicationState.FAILED, why=self.stopped_by)
            ended |= dict.fromkeys((key for key in keys if key not in ended), denied)
        return ended
