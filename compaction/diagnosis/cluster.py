"""How a cluster and its topics are set up, and how large its metadata topic is.

Rule: SWAP.md 3; KAFKA-20732; `compaction.brokers.preconditions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tierfold.compaction.brokers.broker_versions import OLDEST, KafkaVersion, at_least
from tierfold.compaction.brokers.cluster_configs import Configs
from tierfold.compaction.brokers.cluster_facts import ClusterSetup, TopicSetup
from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.brokers.preconditions import (
    PreconditionCode,
    alter_topic,
    cluster_preconditions,
    topic_preconditions,
    unanswered,
)
from tierfold.compaction.brokers.topic_retention import FOR_EVER, is_tiered, mending, retentions
from tierfold.compaction.diagnosis.findings import Finding, FindingCode, Severity, finding_of
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.wording import spaced

METADATA_RECORDS_MAX: Final = 1_000_000
"""More of them take a broker seconds to read at each start."""

_FIXED_IN: Final = KafkaVersion(4, 4)
"""KAFKA-20732; Kafka 4.3.2 has it, too."""
_PERHAPS_FIXED: Final = KafkaVersion(4, 3)
_EXPIRES: Final = Rules(cleanup_policy=frozenset({"compact", "delete"}))
"""With these, only local data that stay for ever are wrong with a topic that may expire."""
_KEPT: Final = Rules(cleanup_policy=frozenset({"compact"}))


def cluster_findings(
    look: ClusterView, *, declared: KafkaVersion | None, grace_ms: int, compacts: bool
) -> Iterator[Finding]:
    """What is wrong for every topic.

    `declared` and `grace_ms`: as of `cluster_preconditions`. `compacts`: whether tierfold is to
    compact a topic: only then late sends matter.
    """
    for part in cluster_preconditions(look.setup, declared=declared, grace_ms=grace_ms):
        if compacts or part.code != PreconditionCode.LATE_SENDS:
            yield finding_of(part)
    size = look.metadata_size
    if size.records > METADATA_RECORDS_MAX:
        yield Finding(
            code=str(FindingCode.METADATA_LARGE),
            severity=Severity.NOTE,
            detail=f"{METADATA_TOPIC} has {spaced(size.records)} records and gets"
            f" {spaced(size.records_a_day)} more a day; a broker reads all of them each time it"
            " starts, so that starts get slower",
            remedy="Let brokers upload fewer and larger segments: raise segment.ms and"
            " segment.bytes of the topics with most segments. Each segment adds four records, and a"
            " Kafka without KIP-1266 never removes them.",
        )


def topic_findings(
    topic: TopicSetup, setup: ClusterSetup, rules: Rules, declared: KafkaVersion | None
) -> Iterator[Finding]:
    """What is wrong with a topic's settings, compacted or not."""
    for part in _preconditions(topic, setup, rules):
        yield finding_of(part, topic=topic.name)
    configs = topic.configs
    if isinstance(configs, Mapping) and is_tiered(configs):
        yield from _empty_policy(topic.name, configs, setup)
        yield from _lost_by_size(topic.name, configs, setup, declared)


def in_the_way(
    topic: TopicSetup, setup: ClusterSetup, rules: Rules, of_cluster: Iterable[RefusalPart]
) -> tuple[str, ...]:
    """The codes of what keeps a topic from being compacted, also if its policy has no compact.

    `of_cluster`: `cluster_preconditions`.
    """
    if not rules.is_compacted:
        rules = replace(rules, cleanup_policy=_KEPT.cleanup_policy)
    found = (*of_cluster, *topic_preconditions(topic, setup, rules))
    return tuple(dict.fromkeys(str(part.code) for part in found))


def _preconditions(
    topic: TopicSetup, setup: ClusterSetup, rules: Rules
) -> tuple[RefusalPart, ...]:
    """Of a topic that tierfold does not compact, what holds all the same."""
    if rules.is_compacted:
        return topic_preconditions(topic, setup, rules)
    if topic.missing_rights:
        return (unanswered(lacking(topic.missing_rights, setup.server)),)
    if not isinstance(topic.configs, Mapping) or not is_tiered(topic.configs):
        return ()
    found = topic_preconditions(topic, setup, _EXPIRES)
    return tuple(part for part in found if part.code == PreconditionCode.LOCAL_RETENTION)


def _empty_policy(topic: str, configs: Configs, setup: ClusterSetup) -> Iterator[Finding]:
    """An empty policy reads like "kept for ever", and brokers expire by the numbers alone."""
    policy = configs.get("cleanup.policy")
    limits = [one.retention_ms for one in retentions(configs, setup.brokers)]
    finite = [limit for limit in limits if limit.value != FOR_EVER]
    if policy is None or policy.text or not finite:
        return
    command = alter_topic(setup.server, topic, mending(configs, setup.brokers, _KEPT))
    yield Finding(
        code=str(FindingCode.EMPTY_POLICY),
        severity=Severity.LOSES_DATA,
        detail=f"cleanup.policy is empty, which should keep everything, and retention.ms is"
        f" {finite[0]}: brokers delete what is older from the tier all the same",
        remedy=f"To keep everything: `{command}`. If it may expire, set cleanup.policy=delete,"
        " which says so.",
        topic=topic,
    )


def _lost_by_size(
    topic: str, configs: Configs, setup: ClusterSetup, declared: KafkaVersion | None
) -> Iterator[Finding]:
    """With retention by size, a new leader deletes data inside the limit (KAFKA-20732)."""
    limits = [one.retention_bytes for one in retentions(configs, setup.brokers)]
    finite = [limit for limit in limits if limit.value != FOR_EVER]
    oldest = _oldest(setup, declared)
    if not finite or oldest >= _FIXED_IN:
        return
    is_unsure = oldest == _PERHAPS_FIXED
    version = f"{oldest} (4.3.2 has the fix, and brokers do not tell)" if is_unsure else f"{oldest}"
    command = alter_topic(setup.server, topic, {"retention.bytes": str(FOR_EVER)})
    yield Finding(
        code=str(FindingCode.KAFKA_20732),
        severity=Severity.HINDERS if is_unsure else Severity.LOSES_DATA,
        detail=f"retention.bytes is {finite[0]}, and a broker has Kafka {version}: a new leader"
        " deletes segments that are within the limit (KAFKA-20732)",
        remedy="Note the value, and lift the limit until the brokers have Kafka 4.3.2, 4.4.0 or"
        f" newer: `{command}`.",
        topic=topic,
    )


def _oldest(setup: ClusterSetup, declared: KafkaVersion | None) -> KafkaVersion:
    """The oldest version of a broker, as far as its settings or the user say it."""
    bounds = [at_least(configs) for configs in setup.brokers.values()]
    versions = [OLDEST if bound is None else bound.version for bound in bounds]
    return max(min(versions, default=OLDEST), declared or OLDEST)
