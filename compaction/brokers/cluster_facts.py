"""What a cluster answers when it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tierfold.compaction.brokers.cluster_configs import Configs
from tierfold.compaction.model.errors import MissingRight, UnreadableObject
from tierfold.compaction.model.rights import Resource, Right


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as brokers know it."""

    name: str
    topic_id: str
    """22 characters of url-safe base64, as Kafka prints a `Uuid`."""
    partitions: int
    lacks_read: bool = False
    """Whether brokers say that the user may not consume it."""
    lacks_delete: bool = False
    """Whether brokers say that the user may not delete records of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """The offsets of a partition that brokers decide."""

    log_start: int
    """The first offset that consumers can read."""
    high_watermark: int
    """One more than the last offset that all replicas in sync have."""
    last_stable: int
    """Below it no transaction is open (Kafka's last stable offset)."""


class Absence(StrEnum):
    """Why a cluster does not say the offsets of a partition."""

    NO_TOPIC = "no topic"
    """It has no topic of this id, perhaps one of this name."""
    NO_PARTITION = "no partition"
    NO_RIGHT = "no right"
    """The right to ask is missing."""
    NO_ANSWER = "no answer"
    """Such as without a leader."""


class UnknownOffsets(NamedTuple):
    """The offsets of a partition are not known."""

    absence: Absence
    why: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopic:
    """The topic in which brokers say what they have in the tier."""

    topic_id: str
    """22 characters of url-safe base64."""
    partitions: int
    """The number that decides where a user partition's events are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSetup:
    """How a cluster is set up."""

    server: str
    """The broker that commands name, as `HOST:PORT`."""
    metadata_topic: MetadataTopic
    metadata_configs: Configs
    """Of the metadata topic."""
    brokers: Mapping[int, Configs]
    """By broker that runs: its settings, those of plugins masked."""
    lacks_write: MissingRight | None = None
    """The right that publishing will need, if it is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetup:
    """How a topic is set up."""

    name: str
    facts: TopicFacts | UnreadableObject | None
    """None: the cluster has no topic of that name; an error: why it is not known."""
    configs: Configs | UnreadableObject | None

    @property
    def missing_rights(self) -> tuple[Right, ...]:
        """The rights without which brokers do not say all of it."""
        errors = (one for one in (self.facts, self.configs) if isinstance(one, MissingRight))
        return tuple(right for error in errors for right in error.rights)

    @property
    def missing_to_consume(self) -> tuple[Right, ...]:
        """The same, and Read, which includes Describe."""
        is_denied = isinstance(self.facts, TopicFacts) and self.facts.lacks_read
        if not (is_denied or isinstance(self.facts, MissingRight)):
            return self.missing_rights
        read = Right(operation="Read", resource=Resource.TOPIC, name=self.name)
        return (read, *(one for one in self.missing_rights if one.operation != "Describe"))
