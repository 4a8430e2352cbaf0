"""What must hold on a cluster before a tier is compacted for its brokers.

Each precondition that does not hold has a code, says what is wrong, and which command mends it. The
commands of a topic's settings change all that is wrong with it at once: one alone could make local
data stay for ever, or be refused by Kafka's checks between settings.

Rules: SWAP.md 2, 3 and 6, PUBLISHING.md 3.6 and 5.2; docs/kafka.md has them for users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from tierfold.compaction.brokers.broker_versions import OLDEST, KafkaVersion, at_least
from tierfold.compaction.brokers.broker_view import BrokerView, ReadOnlyCause
from tierfold.compaction.brokers.cluster_configs import Configs, number_in
from tierfold.compaction.brokers.cluster_facts import ClusterSetup, TopicFacts, TopicSetup
from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.brokers.topic_retention import (
    FOR_EVER,
    LOCAL_SLACK_MS,
    is_tiered,
    local_time_ms,
    mending,
    retentions,
)
from tierfold.compaction.model.errors import MissingRight, UnreadableObject
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.rights import Resource, Right
from tierfold.compaction.model.rules import LONG_MAX, CompactionStrategy, Rules
from tierfold.compaction.model.wording import duration

SENT_AGO_MAX_MS: Final = 1_800_000
"""The most that is asked for as `message.timestamp.before.max.ms`: half of the shortest grace
period of a served tier, so that one value fits all of them."""


_KEEPS_ALL: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""With another policy, the metadata topic has keyed records (KIP-1266); with retention, it forgets
segments."""


class PreconditionCode(StrEnum):
    """What does not hold; documents have these, so they never change."""

    RETENTION_BYTES = "retention_bytes"
    RETENTION_MS = "retention_ms"
    RETENTION_UNWRITTEN = "retention_unwritten"
    RETENTION_BELOW_LOCAL = "retention_below_local"
    LOCAL_RETENTION = "local_retention"
    NOT_TIERED = "not_tiered"
    RIGHT_MISSING = "right_missing"
    UNANSWERED = "unanswered"
    """Brokers refuse to say how the topic is set up, for another reason than a right."""
    METADATA_SETTINGS = "metadata_settings"
    LATE_SENDS = "late_sends"
    STOPS_BROKERS = "metadata_stops_brokers"
    UNKNOWN_RECORD = "metadata_unknown_record"
    UNKNOWN_FIELDS = "metadata_unknown_fields"
    MISPLACED = "metadata_misplaced"
    KEYED = "metadata_keyed"
    KAFKA_TOO_OLD = "kafka_too_old"
    KAFKA_VERSION_WRONG = "kafka_version_wrong"


def cluster_preconditions(
    setup: ClusterSetup, *, declared: KafkaVersion | None, grace_ms: int
) -> tuple[RefusalPart, ...]:
    """What does not hold for any topic of the cluster.

    `declared`: the version that the user says brokers have; `grace_ms`: how long replaced segments
    stay, milliseconds.
    """
    late = late_sends(setup, grace_ms)
    return (
        *_versions(setup, declared),
        *_metadata_settings(setup),
        *(() if late is None else (late,)),
    )


def cluster_notes(setup: ClusterSetup) -> tuple[str, ...]:
    """What will be needed to publish, and is not yet; sentences."""
    missing = setup.lacks_write
    if missing is None:
        return ()
    return (f"To publish, tierfold will need one more right: {missing.what}. {missing.remedy}",)


def late_sends(setup: ClusterSetup, grace_ms: int) -> RefusalPart | None:
    """What lets brokers take an event that was sent long ago, if anything does (PUBLISHING.md 3.6).

    Only with times of producers do brokers compare a record's timestamp with their clock.
    """
    found = setup.metadata_configs
    kind = found.get("message.timestamp.type")
    limit_ms = number_in(found, "message.timestamp.before.max.ms")
    limit_ms = LONG_MAX if limit_ms is None else limit_ms
    wanted = {}
    details = []
    if kind is not None and kind.text != "CreateTime":
        wanted["message.timestamp.type"] = "CreateTime"
        details.append(f"message.timestamp.type is {kind.text}")
    if limit_ms > grace_ms // 2:
        wanted["message.timestamp.before.max.ms"] = str(min(grace_ms // 2, SENT_AGO_MAX_MS))
        said = "not set" if limit_ms == LONG_MAX else f"{limit_ms}"
        details.append(f"message.timestamp.before.max.ms is {said}")
    if not wanted:
        return None
    return RefusalPart(
        code=PreconditionCode.LATE_SENDS,
        detail=f"{' and '.join(details)} on {METADATA_TOPIC}, so brokers would take an event that"
        " a suspended run sends after the grace period, and readers would lose segments",
        remedy=f"Set it with `{alter_topic(setup.server, METADATA_TOPIC, wanted)}`.",
    )


def topic_preconditions(
    topic: TopicSetup, setup: ClusterSetup, rules: Rules
) -> tuple[RefusalPart, ...]:
    """What does not hold for a topic that is to be compacted; nothing for any other.

    Partitions of a topic that the cluster lacks never come to this: they are left alone
    (`discovery.identity`).
    """
    if not rules.is_compacted:
        return ()
    if topic.missing_rights:
        return (unanswered(lacking(topic.missing_rights, setup.server)),)
    if isinstance(topic.facts, UnreadableObject):
        return (unanswered(topic.facts),)
    configs = topic.configs
    if configs is None:  # It was deleted between two questions.
        configs = UnreadableObject(
            "brokers have no settings of it",
            where=f"topic {topic.name}",
            remedy="Run again; if it persists, ask the cluster's operator.",
        )
    if isinstance(configs, UnreadableObject):
        return (unanswered(configs),)
    own = tuple(_own_retention(topic.name, configs, setup, rules))
    found = tuple(_broken(configs, setup, rules))
    if not found:
        return own
    changes = mending(configs, setup.brokers, rules)
    remedy = f"Set it with `{alter_topic(setup.server, topic.name, changes)}`."
    if "local.retention.ms" in changes:
        remedy += (
            " Another finite local.retention.ms will do, and a shorter one is better: consumers see"
            " what is compacted once brokers' local copies are gone. Without one, brokers keep them"
            " for ever."
        )
    if "remote.log.copy.disable" in changes:
        remedy += " It turns copying to the tier on again: without it, Kafka takes no such value."
    return (
        *own,
        *(RefusalPart(code=code, detail=detail, remedy=remedy) for code, detail in found),
    )


def deletion_right(topic: TopicSetup, setup: ClusterSetup, rules: Rules) -> RefusalPart | None:
    """The right to move the log start, if tierfold's own retention needs it and it is missing."""
    if not (rules.limits_log and isinstance(topic.facts, TopicFacts) and topic.facts.lacks_delete):
        return None
    right = Right(operation="Delete", resource=Resource.TOPIC, name=topic.name)
    return unanswered(lacking([right], setup.server))


def topic_notes(topic: TopicSetup, setup: ClusterSetup, rules: Rules) -> tuple[str, ...]:
    """What is allowed, and has consequences; sentences."""
    if not rules.is_compacted or not isinstance(topic.configs, Mapping):
        return ()
    found = retentions(topic.configs, setup.brokers)
    notes = []
    if any(not one.is_local_time_finite and one.is_local_finite for one in found):
        notes.append(
            f"Topic {topic.name}: only local.retention.bytes limits local data, so nothing says"
            " when readers see a compacted range, and tombstones and transaction markers stay."
            " They can go with a finite local.retention.ms."
        )
    limits = [one.retention_ms for one in found if one.retention_ms.value != FOR_EVER]
    if limits:
        notes.append(
            f"Topic {topic.name}: retention.ms is {limits[0]}. Once it passes replaced segments,"
            " brokers delete them themselves, before the grace period is over. That is no error."
        )
    if (missing := deletion_right(topic, setup, rules)) is not None:
        notes.append(
            f"Topic {topic.name}: to delete what is past retention here, `tierfold vacuum` will"
            f" need one more right: {missing.detail}. {missing.remedy}"
        )
    notes += _late_records(topic.name, local_time_ms(topic.configs, setup.brokers), rules)
    return tuple(notes)


def _late_records(topic: str, local_ms: int | None, rules: Rules) -> Iterator[str]:
    """The sentence, if a late record can outlive on a broker's disk the tombstone that hides it.

    By offset what a tombstone hides lies below it, and is gone locally before it. `local_ms`: how
    long local data may stay; None: no time limits it, and no tombstone goes.
    """
    if rules.compaction_strategy is CompactionStrategy.OFFSET or not local_ms:
        return
    if rules.delete_retention_ms <= local_ms + LOCAL_SLACK_MS:
        yield (
            f"Topic {topic}: brokers keep records locally for {duration(local_ms)} and up to an"
            f" hour, and delete.retention.ms is {duration(rules.delete_retention_ms)}. Once a"
            " tombstone is gone, a record that came after it with a lower version may still be"
            " read from there. Set delete.retention.ms above the longest lateness plus"
            " local.retention.ms plus an hour (docs/strategies.md)."
        )


def partition_preconditions(view: BrokerView) -> tuple[RefusalPart, ...]:
    """What in the metadata topic itself is in the way of a partition."""
    return tuple(
        RefusalPart(code=_CODES[one.cause], detail=one.finding, remedy=one.meaning)
        for one in view.read_only
    )


_CODES: Final = {
    ReadOnlyCause.STOPS_BROKERS: PreconditionCode.STOPS_BROKERS,
    ReadOnlyCause.UNKNOWN_RECORD: PreconditionCode.UNKNOWN_RECORD,
    ReadOnlyCause.UNKNOWN_FIELDS: PreconditionCode.UNKNOWN_FIELDS,
    ReadOnlyCause.MISPLACED: PreconditionCode.MISPLACED,
    ReadOnlyCause.KEYED: PreconditionCode.KEYED,
}


def alter_topic(server: str, topic: str, changes: Mapping[str, str]) -> str:
    """The command that changes these settings of a topic in one request, in their order."""
    joined = ",".join(f"{name}={text}" for name, text in changes.items())
    return (
        f"kafka-configs.sh --bootstrap-server {server} --alter --entity-type topics"
        f" --entity-name {topic} --add-config {joined}"
    )


def unanswered(error: UnreadableObject) -> RefusalPart:
    """What brokers do not say about topics that are to be compacted."""
    is_right = isinstance(error, MissingRight)
    return RefusalPart(
        code=PreconditionCode.RIGHT_MISSING if is_right else PreconditionCode.UNANSWERED,
        detail=f"{error.where}: {error.what}",
        remedy=error.remedy,
    )


def _broken(
    configs: Configs, setup: ClusterSetup, rules: Rules
) -> Iterator[tuple[PreconditionCode, str]]:
    """By code, what is wrong with the settings of a topic, each code once."""
    if not is_tiered(configs):
        yield (
            PreconditionCode.NOT_TIERED,
            "remote.storage.enable is false: brokers do not read the topic's objects in the tier,"
            " and with remote.log.delete.on.disable=true they have deleted them",
        )
    found = retentions(configs, setup.brokers)
    bytes_limits = [one.retention_bytes for one in found if one.retention_bytes.value != FOR_EVER]
    if bytes_limits:
        yield (
            PreconditionCode.RETENTION_BYTES,
            f"retention.bytes is {bytes_limits[0]}: while brokers have a replaced segment and its"
            " replacement, both count, and they would delete live segments",
        )
    time_limits = [one.retention_ms for one in found if one.retention_ms.value != FOR_EVER]
    if time_limits and not rules.is_deleted:
        yield (
            PreconditionCode.RETENTION_MS,
            f"retention.ms is {time_limits[0]}, and the topic's policy in tierfold has no delete:"
            " brokers would delete the latest records of keys, whatever their"
            " cleanup.policy is",
        )
    lasting = [one.local_ms for one in found if not one.is_local_finite]
    if lasting:
        yield (
            PreconditionCode.LOCAL_RETENTION,
            f"local.retention.ms is {lasting[0]}, and nothing else limits local data: brokers keep"
            " them for ever, disks fill, and readers never see a compacted range",
        )


def _own_retention(
    topic: str, configs: Configs, setup: ClusterSetup, rules: Rules
) -> Iterator[RefusalPart]:
    """What is wrong with the retention that tierfold has for a topic, beside that of brokers."""
    if not rules.is_deleted:
        return
    found, own_ms = retentions(configs, setup.brokers), rules.beside_brokers.retention_ms
    keep_all = any(one.retention_ms.value == FOR_EVER for one in found)
    if keep_all and not rules.retention_written:
        yield RefusalPart(
            code=PreconditionCode.RETENTION_UNWRITTEN,
            detail=f"the cleanup.policy that tierfold has for topic {topic} has delete, and no"
            " retention.ms is written for it, while brokers keep everything (retention.ms is -1)",
            remedy=f'Write "retention.ms" under [topics."{topic}"]: what is older is then deleted'
            " for good; -1 keeps everything.",
        )
    local_ms = local_time_ms(configs, setup.brokers)
    if local_ms is not None and 0 <= own_ms < local_ms:
        yield RefusalPart(
            code=PreconditionCode.RETENTION_BELOW_LOCAL,
            detail=f"the retention.ms that tierfold has for topic {topic} is {own_ms}, less than"
            f" the {local_ms} ms for which brokers keep local data",
            remedy="Check its unit: it is milliseconds. Kafka takes no retention.ms below"
            " local.retention.ms either; change one of them.",
        )


def _metadata_settings(setup: ClusterSetup) -> Iterator[RefusalPart]:
    found = {name: setup.metadata_configs.get(name) for name in _KEEPS_ALL}
    wrong = {
        name: value
        for name, value in found.items()
        if value is None or value.text != _KEEPS_ALL[name]
    }
    if not wrong:
        return
    shown = " and ".join(
        f"{name} is {'not known' if value is None else value.text or 'empty'}"
        for name, value in wrong.items()
    )
    changes = {name: _KEEPS_ALL[name] for name in wrong}
    yield RefusalPart(
        code=PreconditionCode.METADATA_SETTINGS,
        detail=f"{shown} on {METADATA_TOPIC}, so it forgets what is in the tier, and brokers with"
        " it",
        remedy=f"Set it back: `{alter_topic(setup.server, METADATA_TOPIC, changes)}`. What is"
        " forgotten by then stays lost. Find out who changed it.",
    )


def _versions(
    setup: ClusterSetup, declared: KafkaVersion | None
) -> Iterator[RefusalPart]:
    if declared is not None and declared < OLDEST:
        yield _too_old(f"[cluster] says that brokers have Kafka {declared}")
        return
    for broker, configs in setup.brokers.items():
        bound = at_least(configs)
        if declared is None and bound is None:
            yield _too_old(f"broker {broker} does not know compression.zstd.level, which Kafka has"
                           f" since {OLDEST}")
            return
        if declared is not None and bound is not None and bound.version > declared:
            yield RefusalPart(
                code=PreconditionCode.KAFKA_VERSION_WRONG,
                detail=f"[cluster] says that brokers have Kafka {declared}, but broker {broker}"
                f" knows {bound.name}, which came with {bound.version}",
                remedy=f'Write "kafka.version" = "{bound.version}" under [cluster], or leave it'
                " out.",
            )
            return


def _too_old(what: str) -> RefusalPart:
    return RefusalPart(
        code=PreconditionCode.KAFKA_TOO_OLD,
        detail=f"{what}: brokers before {OLDEST} cannot read across offsets that compaction took"
        " out (KAFKA-15388)",
        remedy=f"Update the brokers to Kafka {OLDEST} or newer. If they are, say so with"
        ' "kafka.version" under [cluster].',
    )
