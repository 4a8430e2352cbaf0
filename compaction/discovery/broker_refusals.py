"""The refusal of partitions whose cluster is not set up for compaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tierfold.compaction.brokers.broker_versions import KafkaVersion
from tierfold.compaction.brokers.cluster_facts import ClusterSetup
from tierfold.compaction.brokers.cluster_view import BrokerPartition, ClusterView
from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.brokers.preconditions import (
    cluster_preconditions,
    partition_preconditions,
    topic_preconditions,
    unanswered,
)
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey


def cluster_refusal(
    setup: ClusterSetup, *, declared: KafkaVersion | None, grace_ms: int
) -> Refusal | None:
    """The refusal for how the cluster is set up, whatever its topics are; None: it may be sent to.

    The arguments are as of `cluster_preconditions`.
    """
    return _refusal_of(cluster_preconditions(setup, declared=declared, grace_ms=grace_ms))


def metadata_refusal(brokers: BrokerPartition | None) -> Refusal | None:
    """The refusal for records of the metadata topic that cannot be followed; None: all can.

    It comes before anything is compared with what brokers have: the view may lack what they say.
    """
    return None if brokers is None else _refusal_of(partition_preconditions(brokers.view))


def rights_refusals(look: ClusterView, rules: Mapping[str, Rules]) -> dict[str, Refusal]:
    """By topic to be compacted, the refusal for rights that are missing, the same for all of them.

    It comes before the comparison with what brokers have, which they do not say without rights.
    `rules`: by topic.
    """
    compacted = [name for name, found in rules.items() if found.is_compacted]
    asked = (look.topics[name] for name in compacted if name in look.topics)
    denied = [one for one in asked if one.missing_rights]
    if not denied:
        return {}
    error = lacking((right for one in denied for right in one.missing_rights), look.setup.server)
    refusal = _refusal_of([unanswered(error)])
    return {one.name: refusal for one in denied if refusal is not None}


def setup_refusals(
    look: ClusterView,
    keys: Iterable[PartitionKey],
    rules: Mapping[str, Rules],
    *,
    declared: KafkaVersion | None,
    grace_ms: int,
) -> dict[PartitionKey, Refusal]:
    """The refusals for settings of the cluster and of topics; none for what is set up right.

    Partitions of one topic share theirs. They come after the comparison with what brokers have: no
    setting of a wrong cluster is changed. `rules`: by topic; the rest as of
    `cluster_preconditions`.
    """
    of_cluster = cluster_preconditions(look.setup, declared=declared, grace_ms=grace_ms)
    of_topics: dict[str, Refusal | None] = {}
    found: dict[PartitionKey, Refusal] = {}
    for key in keys:
        name = key.topic
        if name not in of_topics:
            setup = look.topics.get(name)
            own = () if setup is None else topic_preconditions(setup, look.setup, rules[name])
            of_topics[name] = _refusal_of((*of_cluster, *own))
        if (refusal := of_topics[name]) is not None:
            found[key] = refusal
    return found


def _refusal_of(found: Sequence[RefusalPart]) -> Refusal | None:
    """One refusal for all; each detail ends with its code, a remedy of several is said once."""
    if not found:
        return None
    return Refusal(
        reason=RefusalReason.PRECONDITION,
        detail="; ".join(f"{one.detail} [{one.code}]" for one in found),
        remedy=" ".join(dict.fromkeys(one.remedy for one in found)),
        preconditions=tuple(found),
    )
