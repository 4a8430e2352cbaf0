"""The settings file and the command line are read correctly, and mistakes are refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.settings.layers import (
    Layer,
    SettingValue,
    command_line,
    config_of_toml,
    read_config,
)
from tierfold.jobs.settings.resolution import resolve

BROKER = "mine.toml [broker]"
ORDERS = 'mine.toml [topics."orders"]'


def values(layer: Layer) -> dict[str, object]:
    return {field: said.value for field, said in layer.items()}


def refusal(toml: str) -> BadSettings:
    with pytest.raises(BadSettings) as caught:
        config_of_toml(toml, where="mine.toml")
    return caught.value


def test_a_file_says_what_brokers_and_topics_have_and_where_it_says_so() -> None:
    file = config_of_toml(
        """
        [broker]
        "log.cleaner.min.cleanable.ratio" = 0.1
        [topics."orders"]
        "cleanup.policy" = ["compact", "delete"]
        [topics."a*"]
        "segment.bytes" = "7"
        """,
        where="mine.toml",
    )
    ratio = SettingValue(value=Fraction(1, 10), source=f"{BROKER} log.cleaner.min.cleanable.ratio")
    assert file.broker == {"min_cleanable_dirty_ratio": ratio}
    assert [(table.pattern, table.is_exact) for table in file.tables] == [
        ("orders", True),
        ("a*", False),
    ]
    policy = SettingValue(value=frozenset({"compact", "delete"}), source=ORDERS)
    assert file.tables[0].layer == {"cleanup_policy": policy}
    assert values(file.tables[1].layer) == {"segment_bytes": 7}


def test_an_empty_file_says_nothing() -> None:
    file = config_of_toml("", where="mine.toml")
    assert (file.broker, file.tables) == ({}, ())


@pytest.mark.parametrize(
    ("given", "segment_ms", "source"),
    [
        # Kafka's ServerTopicConfigSynonyms: segment.ms has log.roll.ms, then log.roll.hours.
        (('"log.roll.hours" = 2',), 7_200_000, "log.roll.hours"),
        (('"log.roll.ms" = 5',), 5, "log.roll.ms"),
        (('"log.roll.ms" = 5', '"log.roll.hours" = 2'), 5, "log.roll.ms"),
        (('"log.roll.hours" = 2', '"log.roll.ms" = 5'), 5, "log.roll.ms"),
    ],
)
def test_of_several_names_of_a_broker_milliseconds_go_first(
    given: tuple[str, ...], segment_ms: int, source: str
) -> None:
    file = config_of_toml("\n".join(("[broker]", *given)), where="mine.toml")
    assert file.broker == {
        "segment_ms": SettingValue(value=segment_ms, source=f"{BROKER} {source}")
    }
    overrides = [override.replace('"', "") for override in given]
    said = SettingValue(value=segment_ms, source=f"--set {source}")
    assert command_line(overrides).broker == {"segment_ms": said}


def test_the_command_line_takes_names_of_both_levels() -> None:
    said = command_line(
        ["segment.bytes=1", "log.segment.bytes=2", "log.segment.bytes=3", "chunk.bytes=4"]
    )
    assert values(said.broker) == {"segment_bytes": 3}
    assert values(said.topics) == {"segment_bytes": 1, "chunk_bytes": 4}


@pytest.mark.parametrize(
    ("toml", "where", "message"),
    [
        ("[broker", "mine.toml", "not TOML"),
        ("broker = " + "[" * 5000, "mine.toml", "not TOML"),
        ("broker = " + "9" * 5000, "mine.toml", "not TOML"),
        ("broker = 0x" + "f" * 5000, "mine.toml", "not TOML"),
        ('"segment.bytes" = 1', "mine.toml", "'segment.bytes' stands in neither [broker] nor"),
        ("[brokers]", "mine.toml", "'brokers' stands in neither"),
        ("broker = 1", BROKER, "a number stands where a table should"),
        ("topics = 1", "mine.toml [topics]", "a number stands where a table should"),
        ("[topics]\norders = 1", ORDERS, "a number stands where a table should"),
        ("[broker]\nlog.roll.ms = 1", BROKER, "'log' is a table, and no setting. Write names"),
        ("[topics.orders]\nsegment.ms = 1", ORDERS, "'segment' is a table, and no setting"),
        ("[topics.orders.eu]", ORDERS, "'eu' is a table, and no setting"),
        ('[broker]\n"log.roll.hour" = 1', BROKER, "Did you mean log.roll.hours"),
        ('[topics.orders]\n"segment.byte" = 1', ORDERS, "Did you mean segment.bytes"),
        ('[broker]\n"segment.ms" = 1', BROKER, "Write log.roll.ms or log.roll.hours here, or"),
        ('[topics.orders]\n"log.roll.ms" = 1', ORDERS, "Write segment.ms here, or put log.roll.ms"),
        (
            '[topics.orders]\n"producer.id.expiration.ms" = 1',
            ORDERS,
            "is a broker's setting. Put producer.id.expiration.ms under [broker].",
        ),
        ('[topics.orders]\n"segment.bytes" = true', ORDERS, "cannot be a truth value"),
        ('[topics.orders]\n"segment.bytes" = [1]', ORDERS, "segment.bytes cannot be a list"),
        ('[topics.orders]\n"segment.bytes" = 1.5', ORDERS, "segment.bytes cannot be '1.5'"),
        ('[topics.orders]\n"segment.bytes" = -1', ORDERS, "segment.bytes cannot be '-1'"),
        ('[topics.orders]\n"cleanup.policy" = []', ORDERS, "cleanup.policy cannot be ''"),
        ('[broker]\n"log.roll.hours" = 0', BROKER, "a whole number from 1 to 2147483647 (hours)"),
        ('[topics."a,b"]', 'mine.toml [topics."a,b"]', "no topic can have such a name"),
        ('[topics.""]', 'mine.toml [topics.""]', "no topic can have such a name"),
    ],
)
def test_a_wrong_file_is_refused_by_its_place(toml: str, where: str, message: str) -> None:
    refused = refusal(toml)
    assert refused.where == where
    assert message in str(refused)


def test_names_that_only_brokers_use_are_known_and_without_effect() -> None:
    file = config_of_toml(
        """
        [broker]
        "log.cleaner.dedupe.buffer.size" = 134217728
        "log.cleaner.enable" = false
        "log.roll.hours" = 2
        "zookeeper.connect" = "z:2181"
        "listener.name.internal.ssl.key.password" = "secret"
        "rsm.config.storage.backend.class" = ["whatever"]
        """,
        where="mine.toml",
    )
    assert values(file.broker) == {"segment_ms": 7_200_000}
    assert file.unused == (
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.enable",
        "zookeeper.connect",
        "listener.name.internal.ssl.key.password",
        "rsm.config.storage.backend.class",
    )
    said = command_line(["log.dirs=/a", "segment.bytes=1", "log.dirs=/b", "super.users=x"])
    assert (values(said.topics), said.unused) == ({"segment_bytes": 1}, ("log.dirs", "super.users"))


@pytest.mark.parametrize("name", ["log.cleaner.dedupe.buffer", "listener.name.", "rsm.confi.g", ""])
def test_what_no_broker_knows_stays_an_error(name: str) -> None:
    assert refusal(f'[broker]\n"{name}" = 1').what.startswith("there is no setting ")


def test_a_table_of_a_brokers_name_stays_an_error() -> None:
    assert "is a table, and no setting" in str(refusal("[broker]\nlisteners.a = 1"))


def test_settings_name_what_has_no_effect_by_its_place(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text('[broker]\n"log.dirs" = "/a"\n"broker.id" = 1\n', encoding="utf-8")
    assert resolve(["num.io.threads=8"], config).notes == (
        f"{config} [broker]: log.dirs, broker.id have no effect here: only brokers use them",
        "--set: num.io.threads has no effect here: only brokers use it",
    )
    assert resolve(["segment.bytes=1"]).notes == ()


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# gr\xfc\xdfe\n")
    cases = {
        tmp_path / "gone.toml": "No such file",
        tmp_path: "Is a directory",
        latin: "it is not UTF-8",
    }
    for path, why in cases.items():
        with pytest.raises(BadSettings, match=why) as caught:
            read_config(path)
        assert caught.value.where == str(path)
        assert "--config" in caught.value.remedy


def test_the_shipped_example_is_understood() -> None:
    path = Path(__file__).resolve().parents[3] / "conf" / "example.toml"
    settings = resolve((), path)
    orders = settings.rules_for("orders.changelog")
    assert orders.is_compacted
    assert (orders.compaction_strategy, orders.compaction_strategy_header) == ("header", "version")
    assert orders.segment_ms == 86_400_000
    assert settings.rules_for("payments.eu").cleanup_policy == {"compact", "delete"}
    assert settings.rules_for("payments.audit").cleanup_policy == {"delete"}
    assert settings.rules_for("events").cleanup_policy == frozenset()
