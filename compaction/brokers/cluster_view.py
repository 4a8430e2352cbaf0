"""One look at a cluster: what its brokers have of partitions, and what they say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tierfold.compaction.brokers.broker_view import BrokerView, Naming
from tierfold.compaction.brokers.cluster_facts import (
    Absence,
    ClusterSetup,
    MetadataTopic,
    PartitionOffsets,
    TopicSetup,
    UnknownOffsets,
)
from tierfold.compaction.brokers.epoch_ends import EpochAnswer
from tierfold.compaction.brokers.metadata_size import MetadataSize
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.serving import ServingCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPartition:
    """What brokers have and say of one partition."""

    view: BrokerView
    naming: Mapping[str, Naming]
    """By id, of the tier's segments: whether the metadata topic has named them."""
    offsets: PartitionOffsets | UnknownOffsets
    epoch_answers: Mapping[int, EpochAnswer] = field(default_factory=dict)
    """By leader epoch of its segments, where the brokers' log has its end."""
    asked_by: int | None = None
    """The fingerprint of the catalog that asks, which the ids of its segments bear; None: there is
    no catalog yet."""
    local_retention_ms: int | None = None
    """How long brokers keep local copies, by time alone: the longest of all; None: for ever, or it
    is not known."""
    metadata_start: int = 0
    """The first offset of the metadata partition that holds its events; above 0, earlier ones are
    lost."""

    @property
    def known_offsets(self) -> PartitionOffsets | None:
        """The offsets; None: the cluster does not say them."""
        return self.offsets if isinstance(self.offsets, PartitionOffsets) else None

    @property
    def why_unknown(self) -> str:
        """Why the cluster does not say the offsets, a sentence; empty: it does."""
        return self.offsets.why if isinstance(self.offsets, UnknownOffsets) else ""

    @property
    def has_topic(self) -> bool:
        """Whether the cluster has the topic of this id, as far as it is known."""
        return not (
            isinstance(self.offsets, UnknownOffsets) and self.offsets.absence is Absence.NO_TOPIC
        )

    @property
    def log_start(self) -> int:
        """The first offset that consumers can read; 0 if the cluster does not say it."""
        return 0 if self.known_offsets is None else self.known_offsets.log_start


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """One look at a cluster."""

    cluster_id: str
    setup: ClusterSetup
    records: int
    """How many records of the metadata topic were read."""
    partitions: Mapping[PartitionKey, BrokerPartition]
    """Those that were asked for, or else all that the metadata topic names."""
    topics: Mapping[str, TopicSetup]
    """By name, how their topics are set up now, which may have other ids."""
    metadata_size: MetadataSize = field(default_factory=MetadataSize)
    """Of the records of the metadata topic that were read."""

    @property
    def metadata_topic(self) -> MetadataTopic:
        """The topic that was replayed."""
        return self.setup.metadata_topic

    def serving(self, place: str) -> ServingCluster:
        """The cluster as a row notes it; `place`: where the tier stands."""
        topic = self.setup.metadata_topic
        return ServingCluster(
            cluster_id=self.cluster_id,
            metadata_topic_id=topic.topic_id,
            metadata_partitions=topic.partitions,
            place=place,
        )
