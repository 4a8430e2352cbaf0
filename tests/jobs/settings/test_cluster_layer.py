"""What a cluster says of a topic is followed, unless the user writes otherwise for the topic."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tierfold.compaction.brokers.cluster_configs import Configs, ConfigSource, ConfigValue
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.jobs.settings.beside_cluster import ClusterUse, beside_cluster
from tierfold.jobs.settings.cluster_layer import FROM_USER
from tierfold.jobs.settings.definitions import BY_TOPIC_NAME, KAFKA, KAFKA_4_4, KIP_280
from tierfold.jobs.settings.layers import config_of_toml
from tierfold.jobs.settings.remarks import notes_on_cluster
from tierfold.jobs.settings.resolution import Settings, resolve

OF_BROKERS = {
    ConfigSource.KAFKA_DEFAULT,
    ConfigSource.STATIC_BROKER,
    ConfigSource.DEFAULT_BROKER,
    ConfigSource.BROKER,
    ConfigSource.UNKNOWN,
}


def configs(source: ConfigSource, **values: str) -> Configs:
    """Settings by name; `a_b` stands for `a.b`."""
    return {
        name.replace("_", "."): ConfigValue(text, source) for name, text in values.items()
    }


def segment_bytes(settings: Settings, topic: str = "orders") -> tuple[str, str]:
    (found,) = (one for one in settings.effective(topic) if one.setting.name == "segment.bytes")
    return found.text, found.source


@pytest.mark.parametrize("source", ConfigSource)
def test_the_clusters_value_is_stronger_than_the_shipped_default(source: ConfigSource) -> None:
    said = {"orders": configs(source, segment_bytes="7")}
    settings = resolve(()).of_cluster(said, {})
    assert segment_bytes(settings) == ("7", f"cluster: {source}")
    assert settings.rules_for("orders").segment_bytes == 7
    assert segment_bytes(settings, "others") == ("1073741824", "default")


@pytest.mark.parametrize("source", ConfigSource)
@pytest.mark.parametrize(
    ("toml", "line", "is_for_topic"),
    [
        ('[broker]\n"log.segment.bytes" = 9', [], False),
        ("", ["log.segment.bytes=9"], False),
        ('[topics."o*"]\n"segment.bytes" = 9', [], True),
        ('[topics.orders]\n"segment.bytes" = 9', [], True),
        ("", ["segment.bytes=9"], True),
    ],
    ids=["broker table", "broker name", "pattern", "table", "name"],
)
def test_what_the_user_writes_for_the_topic_prevails_and_for_brokers_only_over_them(
    tmp_path: Path, source: ConfigSource, toml: str, line: list[str], is_for_topic: bool
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(toml)
    said = {"orders": configs(source, segment_bytes="7")}
    text, _ = segment_bytes(resolve(line, file).of_cluster(said, {}))
    assert text == ("9" if is_for_topic or source in OF_BROKERS else "7")


def test_each_setting_of_brokers_is_shown_once() -> None:
    values = {"local_retention_ms": "5", "segment_bytes": "7", "max_message_bytes": "9"}
    settings = resolve(()).of_cluster({"orders": configs(ConfigSource.TOPIC, **values)}, {})
    shown = [(one.name, one.use) for one in beside_cluster(settings, "orders")]
    assert shown == [
        ("local.retention.ms", ClusterUse.FOLLOWED),
        ("segment.bytes", ClusterUse.FOLLOWED),
        ("max.message.bytes", ClusterUse.BROKERS),
    ]


def test_policy_strategy_and_retention_come_from_the_user_alone() -> None:
    said = configs(
        ConfigSource.TOPIC,
        cleanup_policy="compact",
        compaction_strategy="timestamp",
        compaction_strategy_header="version",
        retention_ms="-1",
        retention_bytes="1",
    )
    assert {*said} == FROM_USER
    untouched = resolve(())
    settings = untouched.of_cluster({"orders": said}, {})
    assert settings.rules_for("orders") == untouched.rules_for("orders")
    assert not settings.rules_for("orders").is_compacted
    line = ["cleanup.policy=compact", "retention.ms=7"]
    mine = resolve(line).of_cluster({"orders": said}, {}).rules_for("orders")
    assert (mine.is_compacted, mine.retention_ms) == (True, 7)
    assert mine.compaction_strategy is CompactionStrategy.OFFSET


def test_each_other_setting_of_kafkas_topics_follows_the_cluster() -> None:
    """Whatever tierfold knows by Kafka's name, in the text that brokers answer."""
    texts = {"min.cleanable.dirty.ratio": "0.25"}
    for name, spelling in BY_TOPIC_NAME.items():
        if name in FROM_USER or spelling.setting.source not in {KAFKA, KAFKA_4_4, KIP_280}:
            continue
        said = {name: ConfigValue(texts.get(name, "11"), ConfigSource.TOPIC)}
        rules = resolve(()).of_cluster({"orders": said}, {}).rules_for("orders")
        expected = Fraction(1, 4) if name in texts else 11
        assert getattr(rules, spelling.setting.field) == expected, name


def test_a_producer_is_remembered_as_long_as_any_broker_does() -> None:
    brokers = {
        1: configs(ConfigSource.STATIC_BROKER, producer_id_expiration_ms="5"),
        2: configs(ConfigSource.DEFAULT_BROKER, producer_id_expiration_ms="9"),
        3: {},
    }
    settings = resolve(()).of_cluster({"orders": {}}, brokers)
    (found,) = (
        one
        for one in settings.effective("orders")
        if one.setting.name == "producer.id.expiration.ms"
    )
    assert (found.value, found.source) == (9, "cluster: default broker")


def test_settings_of_user_and_cluster_that_conflict_are_refused_with_their_sources() -> None:
    said = {"orders": configs(ConfigSource.TOPIC, max_compaction_lag_ms="10")}
    line = ["cleanup.policy=compact", "min.compaction.lag.ms=20"]
    settings = resolve(line).of_cluster(said, {})
    with pytest.raises(BadSettings, match=r"10 \(cluster: topic\) is below .*20 \(--set"):
        settings.rules_for("orders")


def test_a_value_that_cannot_be_followed_is_refused() -> None:
    said = {"orders": configs(ConfigSource.TOPIC, segment_bytes="many")}
    with pytest.raises(BadSettings, match=r"topic orders on the cluster: segment\.bytes"):
        resolve(()).of_cluster(said, {})


def test_where_the_users_value_differs_it_is_said_once_for_all_topics() -> None:
    said = configs(
        ConfigSource.TOPIC, segment_bytes="7", segment_ms="8", compression_type="zstd"
    ) | configs(
        ConfigSource.KAFKA_DEFAULT, cleanup_policy="delete", index_interval_bytes="4096"
    )
    # No one decided for a default of Kafka's.
    settings = resolve(["segment.bytes=9", "segment.ms=8", "index.interval.bytes=1"])
    settings = settings.of_cluster({"a": said, "b": said}, {})
    assert notes_on_cluster(settings, ["a", "b", "c"]) == (
        "topics a, b: segment.bytes is 9 (--set segment.bytes), but 7 on the brokers"
        " (cluster: topic)",
    )
    assert {one.name: one.use for one in beside_cluster(settings, "a")} == {
        "cleanup.policy": ClusterUse.USERS,
        "segment.bytes": ClusterUse.OVERRIDDEN,
        "index.interval.bytes": ClusterUse.OVERRIDDEN,
        "segment.ms": ClusterUse.FOLLOWED,
        "compression.type": ClusterUse.BROKERS,
    }
    assert beside_cluster(settings, "c") == []


def test_the_version_of_kafka_is_declared_in_the_table_of_the_cluster() -> None:
    for text in ('"4.4.1"', '"4.4"', "4.4"):
        table = config_of_toml(f'[cluster]\n"kafka.version" = {text}', where="f").cluster
        assert table.kafka_version == (4, 4)
    assert config_of_toml("[cluster]", where="f").cluster.kafka_version is None
    with pytest.raises(BadSettings, match=r"f \[cluster\]: kafka\.version is no version"):
        config_of_toml('[cluster]\n"kafka.version" = "new"', where="f")
