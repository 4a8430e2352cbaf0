"""The refusal of a partition whose cluster is not set up for compaction."""

from __future__ import annotations

from collections.abc import Sequence

from tierfold.compaction.brokers.broker_versions import KafkaVersion
from tierfold.compaction.brokers.cluster_view import BrokerPartition, ClusterView
from tierfold.compaction.brokers.preconditions import (
    SetupRefusal,
    cluster_preconditions,
    partition_preconditions,
    topic_preconditions,
)
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey


def metadata_refusal(brokers: BrokerPartition | None) -> Refusal | None:
    """The refusal for records of the metadata topic that cannot be followed; None: all can.

    It comes before anything is compared with what brokers have: the view may lack what they say.
    """
    return None if brokers is None else _refusal_of(partition_preconditions(brokers.view))


def setup_refusal(
    look: ClusterView,
    key: PartitionKey,
    rules: Rules,
    *,
    declared: KafkaVersion | None,
    grace_ms: int,
) -> Refusal | None:
    """The refusal for settings of the cluster and of the partition's topic; None: all are right.

    It comes after the comparison with what brokers have: no setting of a wrong cluster is changed.
    Arguments as of `cluster_preconditions`.
    """
    found = cluster_preconditions(look.setup, declared=declared, grace_ms=grace_ms)
    topic = look.topics.get(key.topic)
    if topic is not None:
        found += topic_preconditions(topic, key.topic_id, look.setup, rules)
    return _refusal_of(found)


def _refusal_of(found: Sequence[SetupRefusal]) -> Refusal | None:
    """One refusal for all; each detail ends with its code, a remedy of several is said once."""
    if not found:
        return None
    return Refusal(
        reason=RefusalReason.PRECONDITION,
        detail="; ".join(f"{one.detail} [{one.code}]" for one in found),
        remedy=" ".join(dict.fromkeys(one.remedy for one in found)),
    )
