"""The refusal of partitions whose cluster is not set up for compaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

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
from tierfold.compaction.model.rights import Right
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey

WITHOUT_CANARY: Final = "Or publish with --canary off, which needs no Read and proves less."


def cluster_refusal(
    setup: ClusterSetup, *, declared: KafkaVersion | None, grace_ms: int
) -> Refusal | None:
    """The refusal for how the cluster is set up, whatever its topics are; None: it may be sent to.

    The arguments are as of `cluster_preconditions`.
    """
    return refusal_for(cluster_preconditions(setup, declared=declared, grace_ms=grace_ms))


def metadata_refusal(brokers: BrokerPartition | None) -> Refusal | None:
    """The refusal for records of the metadata topic that cannot be followed; None: all can.

    It comes before anything is compared with what brokers have: the view may lack what they say.
    """
    return None if brokers is None else refusal_for(partition_preconditions(brokers.view))


def rights_refusals(
    look: ClusterView,
    rules: Mapping[str, Rules],
    *,
    publishes: bool = False,
    consumes: bool = False,
) -> dict[str, Refusal]:
    """By topic to be compacted, the refusal for rights that are missing, the same for all of them.

    It comes before the comparison with what brokers have, which they do not say without rights.
    `rules`: by topic. `publishes`: whether the run does, so that Write on the metadata topic is
    needed as well; `consumes`: whether it then reads canaries, so that Read on the topics is.
    """
    missing: dict[str, tuple[Right, ...]] = {}
    for name, found in rules.items():
        if not found.is_compacted or name not in look.topics:
            continue
        setup, is_published = look.topics[name], publishes and found.publish
        is_read = is_published and consumes
        missing[name] = setup.missing_to_consume if is_read else setup.missing_rights
        denied = look.setup.lacks_write if is_published and setup.facts is not None else None
        missing[name] += () if denied is None else denied.rights
    rights = [right for own in missing.values() for right in own]
    if not rights:
        return {}
    part = unanswered(lacking(rights, look.setup.server))
    if any(right.operation == "Read" for right in rights):
        part = replace(part, remedy=f"{part.remedy} {WITHOUT_CANARY}")
    refusal = refusal_for([part])
    return {name: refusal for name, own in missing.items() if own and refusal is not None}


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
            of_topics[name] = refusal_for((*of_cluster, *own))
        if (refusal := of_topics[name]) is not None:
            found[key] = refusal
    return found


def refusal_for(found: Sequence[RefusalPart]) -> Refusal | None:
    """One refusal for all; each detail ends with its code, a remedy of several is said once."""
    if not found:
        return None
    return Refusal(
        reason=RefusalReason.PRECONDITION,
        detail="; ".join(f"{one.detail} [{one.code}]" for one in found),
        remedy=" ".join(dict.fromkeys(one.remedy for one in found)),
        preconditions=tuple(found),
    )
