"""What is wrong with a cluster's settings is refused, and the printed command leads out."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

from tests.compaction.broker_events import added, records
from tests.compaction.builders import KEY
from tests.compaction.topic_settings import drawn, kafka_takes
from tierfold.compaction.brokers.broker_versions import KafkaVersion, at_least, kafka_version
from tierfold.compaction.brokers.broker_view import ReadOnly, ReadOnlyCause
from tierfold.compaction.brokers.cluster_configs import Configs, ConfigSource, ConfigValue
from tierfold.compaction.brokers.cluster_facts import (
    ClusterSetup,
    MetadataTopic,
    PartitionOffsets,
    TopicFacts,
    TopicSetup,
)
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.brokers.preconditions import (
    PreconditionCode,
    cluster_preconditions,
    late_sends,
    partition_preconditions,
    topic_notes,
    topic_preconditions,
)
from tierfold.compaction.discovery.broker_refusals import (
    metadata_refusal,
)
from tierfold.compaction.model.errors import MissingRight, UnreadableObject
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.rights import Resource, Right
from tierfold.compaction.model.rules import DAY_MS, CompactionStrategy, Rules

COMPACT = Rules(cleanup_policy=frozenset({"compact"}))
COMPACT_DELETE = Rules(
    cleanup_policy=frozenset({"compact", "delete"}),
    retention_ms=-1,
    retention_written=frozenset({"retention_ms"}),
)
ID = "t" * 22
METADATA = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "1800000",
}
GOOD = {
    "remote.storage.enable": "true",
    "remote.log.copy.disable": "false",
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "local.retention.ms": "3600000",
    "local.retention.bytes": "-2",
}


def configs(values: dict[str, str], source: ConfigSource = ConfigSource.TOPIC) -> Configs:
    return {name: ConfigValue(text, source) for name, text in values.items()}


def cluster(
    metadata: dict[str, str] | None = None, brokers: dict[int, dict[str, str]] | None = None
) -> ClusterSetup:
    return ClusterSetup(
        server="b:9092",
        metadata_topic=MetadataTopic(topic_id="m" * 22, partitions=5),
        metadata_configs=configs(METADATA | (metadata or {})),
        brokers={
            number: configs(values, ConfigSource.STATIC_BROKER)
            for number, values in (brokers or {}).items()
        },
    )


def topic(values: Configs | UnreadableObject) -> TopicSetup:
    facts = TopicFacts(name="orders", topic_id=ID, partitions=1)
    return TopicSetup(name="orders", facts=facts, configs=values)


def refusals(
    values: Configs, rules: Rules = COMPACT, setup: ClusterSetup | None = None
) -> tuple[RefusalPart, ...]:
    return topic_preconditions(topic(values), setup or cluster(), rules)


def changes_of(command: str) -> dict[str, str]:
    """The settings that a command sets, in its order."""
    found = re.search(r"--entity-name \S+ --add-config (\S+)$", command)
    assert found is not None, command
    return dict(pair.split("=", 1) for pair in found[1].split(","))


def test_one_command_leads_out_of_whatever_is_wrong_with_a_topic() -> None:
    rng = Random(53)
    refused = 0
    for _ in range(5000):
        values, rules = drawn(rng), rng.choice((COMPACT, COMPACT_DELETE))
        found = refusals(configs(values), rules)
        if not kafka_takes(values) or not found:
            continue
        refused += 1
        (command,) = {one.command for one in found}
        after = values | changes_of(command)
        assert kafka_takes(after), (values, command)
        assert refusals(configs(after), rules) == (), (values, command)
        # Local data stay as long as before, or a day if there was no end.
        old, new = int(values["local.retention.ms"]), int(after["local.retention.ms"])
        if new != old:
            kept = int(values["retention.ms"]) if old == -2 else old
            total = int(after["retention.ms"])
            assert new == min(DAY_MS if kept < 0 else kept, total if total >= 0 else 2**63)
    assert refused > 1000


def test_each_code_of_a_topic_has_its_reason() -> None:
    for changes, rules, code, words in (
        ({"retention.bytes": "0"}, COMPACT_DELETE, "retention_bytes", "retention.bytes is 0"),
        ({"retention.ms": "0"}, COMPACT, "retention_ms", "no delete"),
        ({"retention.ms": "7", "cleanup.policy": ""}, COMPACT, "retention_ms", "is 7 (topic)"),
        ({"local.retention.ms": "-2"}, COMPACT, "local_retention", "is -2 (topic)"),
        ({"local.retention.ms": "-1"}, COMPACT_DELETE, "local_retention", "disks fill"),
        ({"remote.storage.enable": "false"}, COMPACT, "not_tiered", "is false"),
    ):
        (found,) = refusals(configs(GOOD | changes), rules)
        assert (found.code, words in found.detail) == (code, True), found
        assert found.command in found.remedy
    assert refusals(configs(GOOD)) == ()
    assert refusals(configs(GOOD | {"retention.ms": "7"}), COMPACT_DELETE) == ()
    assert refusals(configs(GOOD | {"retention.ms": "7"}), Rules()) == ()
    by_size = GOOD | {"local.retention.ms": "-2", "local.retention.bytes": "1"}
    assert refusals(configs(by_size)) == ()


def test_a_finite_retention_is_allowed_and_its_consequence_is_said() -> None:
    def notes(values: dict[str, str], rules: Rules = COMPACT_DELETE) -> tuple[str, ...]:
        return topic_notes(topic(configs(GOOD | values)), cluster(), rules)

    (note,) = notes({"retention.ms": "7"})
    assert note.startswith("Topic orders: retention.ms is 7 (topic). Once it passes replaced")
    assert notes({}) == notes({"retention.ms": "7"}, Rules()) == ()
    by_size = {"local.retention.ms": "-1", "local.retention.bytes": "1"}
    assert notes(by_size | {"retention.ms": "7"}) == (*notes(by_size), note)


@pytest.mark.parametrize("strategy", CompactionStrategy)
def test_where_a_late_record_may_outlive_its_tombstone_it_is_said(
    strategy: CompactionStrategy,
) -> None:
    def notes(delete_retention_ms: int, **values: str) -> tuple[str, ...]:
        rules = replace(
            COMPACT, compaction_strategy=strategy, delete_retention_ms=delete_retention_ms
        )
        named = {name.replace("_", "."): text for name, text in values.items()}
        return topic_notes(topic(configs(GOOD | named)), cluster(), rules)

    day_ms, hour_ms = str(DAY_MS), DAY_MS // 24
    assert notes(DAY_MS + hour_ms + 1, local_retention_ms=day_ms) == ()
    found = notes(DAY_MS + hour_ms, local_retention_ms=day_ms)
    if strategy is CompactionStrategy.OFFSET:
        assert found == ()
    else:
        (note,) = found
        assert "locally for 1 d and up to an hour, and delete.retention.ms is 1 d." in note
    # Where one broker keeps local data for ever, or size alone limits them, no tombstone goes.
    theirs = configs({"local.retention.ms": day_ms}, ConfigSource.STATIC_BROKER)
    setup = cluster(brokers={2: {"log.local.retention.ms": "-1"}})
    rules = replace(COMPACT, compaction_strategy=strategy)
    assert topic_notes(topic(configs(GOOD) | theirs), setup, rules) == ()
    by_size = notes(DAY_MS, local_retention_ms="-1", local_retention_bytes="1")
    assert ["tombstones" in one for one in by_size] == [True]


def test_local_retention_is_set_before_retention_in_the_same_command() -> None:
    found = refusals(configs(GOOD | {"retention.ms": "604800000", "local.retention.ms": "-2"}))
    assert [one.code for one in found] == [PreconditionCode.RETENTION_MS]
    assert list(changes_of(found[0].command).items()) == [
        ("local.retention.ms", "604800000"),
        ("retention.ms", "-1"),
    ]


@pytest.mark.parametrize(
    ("own", "code", "where"),
    [
        ({"log.retention.bytes": "9"}, "retention_bytes", "9 (broker 2)"),
        ({"log.retention.ms": "7"}, "retention_ms", "7 (broker 2)"),
        ({"log.retention.minutes": "2"}, "retention_ms", "120000 (broker 2)"),
        ({"log.retention.hours": "2"}, "retention_ms", "7200000 (broker 2)"),
        ({"log.local.retention.ms": "-1"}, "local_retention", "-1 (broker 2)"),
    ],
)
def test_a_broker_that_differs_counts_unless_the_topic_has_its_own_value(
    own: dict[str, str], code: str, where: str
) -> None:
    setup = cluster(brokers={1: {}, 2: own})
    by_default = configs(GOOD, ConfigSource.STATIC_BROKER)
    (found,) = refusals(by_default, setup=setup)
    assert (found.code, where in found.detail) == (code, True), found
    after = by_default | configs(changes_of(found.command))
    assert refusals(after, setup=setup) == ()
    assert refusals(configs(GOOD), setup=setup) == ()


def test_an_answer_that_is_no_number_is_one_clear_error() -> None:
    with pytest.raises(UnreadableObject, match=r"'a week' for retention\.ms, which is no whole"):
        refusals(configs(GOOD | {"retention.ms": "a week"}))


def test_the_first_name_that_a_broker_has_counts() -> None:
    by_default = configs(GOOD, ConfigSource.KAFKA_DEFAULT)
    own = {"log.retention.ms": "-1", "log.retention.minutes": "", "log.retention.hours": "168"}
    assert refusals(by_default, setup=cluster(brokers={1: own})) == ()
    (found,) = refusals(by_default, setup=cluster(brokers={1: own | {"log.retention.ms": ""}}))
    assert "604800000 (broker 1)" in found.detail


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", ""),
        ("retention.ms", "604800000"),
        ("retention.bytes", "1073741824"),
    ],
)
def test_a_metadata_topic_that_may_lose_records_is_refused(name: str, text: str) -> None:
    assert cluster_preconditions(cluster(), declared=None, grace_ms=DAY_MS)[1:] == ()
    (found,) = cluster_preconditions(
        cluster({name: text}), declared=KafkaVersion(4, 4), grace_ms=DAY_MS
    )
    assert found.code == PreconditionCode.METADATA_SETTINGS
    assert f"{name} is {text or 'empty'} on __remote_log_metadata" in found.detail
    assert changes_of(found.command) == {name: METADATA[name]}


def test_a_late_send_is_prevented_within_half_the_grace_period() -> None:
    for before_ms, grace_ms, wanted in (
        ("9223372036854775807", DAY_MS, "1800000"),
        ("9223372036854775807", 3_600_000, "1800000"),
        ("1800001", 3_600_000, "1800000"),
        ("1800000", 3_600_000, None),
        ("1800000", 3_599_999, "1799999"),
        ("43200000", DAY_MS, None),
    ):
        setup = cluster({"message.timestamp.before.max.ms": before_ms})
        found = late_sends(setup, grace_ms)
        changes = None if found is None else changes_of(found.command)
        assert changes == (wanted and {"message.timestamp.before.max.ms": wanted})
    found = late_sends(cluster({"message.timestamp.type": "LogAppendTime"}), DAY_MS)
    assert found is not None
    assert changes_of(found.command) == {"message.timestamp.type": "CreateTime"}


def named(version: KafkaVersion) -> dict[str, str]:
    """Settings of a broker of that version, in the order of the versions that brought them."""
    names = (
        *("compression.zstd.level", "remote.log.manager.copier.thread.pool.size"),
        "remote.list.offsets.request.timeout.ms",
        "group.streams.session.timeout.ms",
        "remote.log.manager.follower.thread.pool.size",
        "follower.fetch.last.tiered.offset.enable",
        "max.decompressed.message.bytes",
    )
    versions = ((3, 8), (3, 9), (4, 0), (4, 1), (4, 2), (4, 3), (4, 4))
    return {name: "1" for name, one in zip(names, versions, strict=True) if one <= version}


def test_names_of_settings_bound_the_version() -> None:
    for version in ((3, 8), (3, 9), (4, 0), (4, 1), (4, 2), (4, 3), (4, 4)):
        found = at_least(named(KafkaVersion(*version)))
        assert found is not None
        assert found.version == version
    assert at_least({"log.retention.hours"}) is None
    assert kafka_version("4.4.0") == kafka_version("4.4") == (4, 4)
    for text in ("", "4", "4.x", "4.4.0.1", "v4.4", "4..0", "\u0664.4"):
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            kafka_version(text)


@pytest.mark.parametrize(
    ("has", "declared", "code"),
    [
        ((3, 7), None, PreconditionCode.KAFKA_TOO_OLD),
        ((3, 7), (3, 7), PreconditionCode.KAFKA_TOO_OLD),
        ((3, 9), (3, 7), PreconditionCode.KAFKA_TOO_OLD),
        ((4, 3), (4, 2), PreconditionCode.KAFKA_VERSION_WRONG),
        ((3, 7), (3, 8), None),
        ((4, 3), (4, 3), None),
        ((4, 3), (4, 4), None),
        ((3, 8), None, None),
    ],
)
def test_a_version_is_refused_that_is_too_old_or_cannot_be(
    has: tuple[int, int], declared: tuple[int, int] | None, code: PreconditionCode | None
) -> None:
    older, newer = named(KafkaVersion(3, 8)), named(KafkaVersion(*has))
    if declared is None:  # One is enough.
        older = named(KafkaVersion(9, 9))
    setup = cluster(brokers={1: older, 2: newer})
    given = None if declared is None else KafkaVersion(*declared)
    found = cluster_preconditions(setup, declared=given, grace_ms=DAY_MS)
    assert [one.code for one in found] == ([] if code is None else [code])


def denied(operation: str, name: str = "orders") -> MissingRight:
    right = Right(operation=operation, resource=Resource.TOPIC, name=name)
    return lacking([right], "b:9092")


def test_a_topic_that_is_not_answered_is_refused_as_the_brokers_say() -> None:
    (found,) = topic_preconditions(topic(denied("DescribeConfigs")), cluster(), COMPACT)
    assert found.code == "right_missing"
    assert found.command.endswith("--operation DescribeConfigs --topic orders")
    neither = TopicSetup(
        name="orders", facts=denied("Describe"), configs=denied("DescribeConfigs")
    )
    (found,) = topic_preconditions(neither, cluster(), COMPACT)
    assert found.command.endswith(
        "--operation Describe --operation DescribeConfigs --topic orders"
    )
    other = UnreadableObject("it refuses (X)", where="broker b:9092", remedy="Run again.")
    for one in (
        topic(other),
        TopicSetup(name="orders", facts=other, configs=configs(GOOD)),
    ):
        (found,) = topic_preconditions(one, cluster(), COMPACT)
        assert (found.code, found.command) == ("unanswered", "")
    deleted = replace(topic(configs(GOOD)), configs=None)
    (found,) = topic_preconditions(deleted, cluster(), COMPACT)
    assert (found.code, found.detail) == (
        "unanswered", "topic orders: brokers have no settings of it"
    )


def test_what_the_metadata_topic_has_is_in_the_way_of_a_partition() -> None:
    fold = MetadataFold(1)
    (first, second) = records(added("a", 0, 9), added("b", 10, 19))
    fold.apply([first._replace(key=b"k"), second])
    view = fold.view(KEY)
    (found,) = partition_preconditions(view)
    assert found.code == "metadata_keyed"
    assert found.detail == "The record at offset 0 of __remote_log_metadata-0 has a key"
    assert "Update tierfold" in found.remedy
    brokers = BrokerPartition(
        view=view,
        naming={},
        offsets=PartitionOffsets(log_start=0, high_watermark=20, last_stable=20),
    )
    refusal = metadata_refusal(brokers)
    assert refusal is not None
    assert refusal.detail == f"{found.detail} [metadata_keyed]"
    untouched = replace(brokers, view=replace(view, read_only=()))
    assert metadata_refusal(untouched) is metadata_refusal(None) is None


@pytest.mark.parametrize("cause", ReadOnlyCause)
def test_each_cause_has_a_code_of_its_own(cause: ReadOnlyCause) -> None:
    reason = ReadOnly(cause=cause, metadata_partition=0, offset=7, why="is odd")
    view = replace(MetadataFold(1).view(KEY), read_only=(reason,))
    (found,) = partition_preconditions(view)
    assert found.code == f"metadata_{cause}".replace(" ", "_")
