"""The settings file and the command line are read correctly, and mistakes are refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tests.jobs.commands import ROOT
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.settings.layers import (
    NOTHING_GIVEN,
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
    return {field: given.value for field, given in layer.items()}


def test_a_file_has_settings_of_brokers_and_of_topics_each_with_its_place() -> None:
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
    patterns = [(table.pattern, table.is_exact) for table in file.tables]
    assert patterns == [("orders", True), ("a*", False)]
    policy = SettingValue(value=frozenset({"compact", "delete"}), source=ORDERS)
    assert file.tables[0].layer == {"cleanup_policy": policy}
    assert values(file.tables[1].layer) == {"segment_bytes": 7}


def test_an_empty_file_gives_nothing() -> None:
    assert config_of_toml("", where="mine.toml") == NOTHING_GIVEN


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
def test_a_brokers_name_in_milliseconds_takes_precedence(
    given: tuple[str, ...], segment_ms: int, source: str
) -> None:
    file = config_of_toml("\n".join(("[broker]", *given)), where="mine.toml")
    expected = SettingValue(value=segment_ms, source=f"{BROKER} {source}")
    assert file.broker == {"segment_ms": expected}
    overrides = [override.replace('"', "") for override in given]
    expected = SettingValue(value=segment_ms, source=f"--set {source}")
    assert command_line(overrides).broker == {"segment_ms": expected}


def test_the_command_line_takes_names_of_both_levels() -> None:
    overrides = ["segment.bytes=1", "log.segment.bytes=2", "log.segment.bytes=3", "chunk.bytes=4"]
    found = command_line(overrides)
    assert values(found.broker) == {"segment_bytes": 3}
    assert values(found.topics) == {"segment_bytes": 1, "chunk_bytes": 4}


@pytest.mark.parametrize(
    "toml",
    ["[broker", *(f"broker = {text}" for text in ("[" * 5000, "9" * 5000, "0x" + "f" * 5000))],
    ids=["open bracket", "too deep", "too many digits", "too many hexadecimal digits"],
)
def test_a_file_that_is_not_toml_is_refused(toml: str) -> None:
    with pytest.raises(BadSettings, match=r"mine\.toml: not TOML"):
        config_of_toml(toml, where="mine.toml")


def test_names_that_only_brokers_use_have_no_effect() -> None:
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
    line = command_line(["log.dirs=/a", "segment.bytes=1", "log.dirs=/b", "super.users=x"])
    assert (values(line.topics), line.unused) == ({"segment_bytes": 1}, ("log.dirs", "super.users"))


@pytest.mark.parametrize(
    "name",
    [
        *("log.segment.delete.delay.ms", "log.preallocate", "file.delete.delay.ms"),
        *("remote.log.copy.disable", "remote.storage.enable"),
        *("min.insync.replicas", "flush.ms", "ssl.key.password"),
        "message.downconversion.enable",  # Until Kafka 4.0.
    ],
)
def test_kafkas_own_names_have_no_effect_wherever_they_stand(name: str) -> None:
    text = f'[broker]\n"{name}" = 1\n[topics."a*"]\n"{name}" = true\n"segment.bytes" = 7\n'
    file = config_of_toml(text, where="mine.toml")
    (table,) = file.tables
    assert (file.unused, table.unused) == ((name,), (name,))
    assert (file.broker, values(table.layer)) == ({}, {"segment_bytes": 7})
    assert command_line([f"{name}=1"]).unused == (name,)


def test_a_mistyped_name_without_effect_is_refused_with_a_suggestion() -> None:
    where = 'mine.toml [topics."a"]'
    with pytest.raises(BadSettings, match=r"Did you mean file\.delete\.delay\.ms\?"):
        config_of_toml('[topics."a"]\n"file.delete.dely.ms" = 1\n', where="mine.toml")
    with pytest.raises(BadSettings, match=r"Did you mean segment\.bytes"):
        config_of_toml('[topics."a"]\n"segment.byte" = 1\n', where="mine.toml")
    # A dotted name without quotes is a table, whatever it begins with.
    with pytest.raises(BadSettings) as error:
        config_of_toml('[topics."a"]\npreallocate.x = 1\n', where="mine.toml")
    assert str(error.value).startswith(f"{where}: 'preallocate' is a table, not a setting")


def test_a_note_names_the_settings_without_effect_and_their_place(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    text = '[broker]\n"log.dirs" = "/a"\n"broker.id" = 1\n[topics."a*"]\n"flush.ms" = 1\n'
    config.write_text(text, encoding="utf-8")
    assert resolve(["num.io.threads=8"], config).notes == (
        f"{config} [broker]: log.dirs, broker.id have no effect here: only brokers use them",
        f'{config} [topics."a*"]: flush.ms has no effect here: only brokers use it',
        "--set: num.io.threads has no effect here: only brokers use it",
    )
    assert resolve(["segment.bytes=1"]).notes == ()


@pytest.mark.parametrize(
    ("name", "why"),
    [("gone.toml", "No such file"), (".", "Is a directory"), ("latin.toml", "it is not UTF-8")],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "latin.toml").write_bytes(b"# gr\xfc\xdfe\n")
    path = tmp_path / name
    with pytest.raises(BadSettings, match=why) as refused:
        read_config(path)
    assert refused.value.where == str(path)
    assert "--config" in refused.value.remedy


def test_the_shipped_example_resolves() -> None:
    settings = resolve((), ROOT / "conf" / "example.toml")
    orders = settings.rules_for("orders.changelog")
    assert orders.is_compacted
    assert (orders.compaction_strategy, orders.compaction_strategy_header) == ("header", "version")
    assert orders.segment_ms == 86_400_000
    assert settings.rules_for("payments.eu").cleanup_policy == {"compact", "delete"}
    assert settings.rules_for("payments.audit").cleanup_policy == {"delete"}
    assert settings.rules_for("events").cleanup_policy == frozenset()
