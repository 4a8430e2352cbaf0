"""One look at a cluster: what its brokers have of partitions, and what they say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tierfold.compaction.brokers.broker_view import BrokerView, Naming
from tierfold.compaction.brokers.cluster_facts import MetadataTopic, PartitionOffsets
from tierfold.compaction.model.segments import PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPartition:
    """What brokers have and say of one partition."""

    view: BrokerView
    naming: Mapping[str, Naming]
    """By id, of the tier's segments: whether the metadata topic has named them."""
    offsets: PartitionOffsets | None
    """None: `why_unknown` says why."""
    why_unknown: str = ""
    """Why the cluster does not say the offsets, a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """One look at a cluster."""

    cluster_id: str
    metadata_topic: MetadataTopic
    records: int
    """How many records of the metadata topic were read."""
    partitions: Mapping[PartitionKey, BrokerPartition]
    """Those that were asked for, or else all that the metadata topic names."""
