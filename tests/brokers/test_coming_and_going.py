"""docs/kafka.md, "Coming and going": its commands and programs, as it prints them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.kafka_page import assert_shows, commands_of, outputs_of, python_of, settings_of
from tests.brokers.nights import Night, compacted, records, uploaded
from tests.brokers.topics import CALL_S, Topic
from tests.brokers.versions import NEWEST, WITHOUT_COMPILER

pytestmark = [pytest.mark.soak, pytest.mark.jvm]

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


def ends(night: Night, commands: Sequence[str]) -> None:
    """Run the commands that end what was begun, the last one once the grace period is over."""
    compact, status, vacuum = commands
    night.runs(compact)
    before = night.runs(status)
    assert ("open: " in before, "being deleted" in before) == (False, True)
    night.hours += 25
    night.runs(vacuum)
    assert "being deleted" not in night.runs(status)


def test_one_topic_is_taken_out(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    night = compacted(own_kafka, tmp_path, "sales-out")
    ends(night, commands_of("Stopping, for one topic"))
    (out,) = settings_of("Stopping, for one topic")
    night.opts_in(out)
    night.adds(9)
    newest, records_read = night.newest(), len(night.topic.read())
    assert "orders-0 │ left" in " ".join(night.compact().split())
    assert (night.newest(), len(night.topic.read())) == (newest, records_read)
    night.opts_in()
    night.compact("--set", "min.cleanable.dirty.ratio=0", "--set", "tail.margin.segments=0")
    assert night.newest() == newest
    assert len(night.topic.read()) < records_read


def test_a_topic_is_copied_to_one_that_brokers_compact(
    own_kafka: KafkaCluster, tmp_path: Path
) -> None:
    night = uploaded(own_kafka, tmp_path, "sales-back")
    before = night.newest()
    compact, create = commands_of("A tiered topic becomes one that brokers compact")
    night.runs(compact)
    create = create.replace("--partitions 6", "--partitions 1")
    create = create.replace("--replication-factor 3", "--replication-factor 1")
    night.types(create, "--config", f"message.timestamp.before.max.ms={2**63 - 1}")
    (program,) = python_of("A tiered topic becomes one that brokers compact")
    exec(night.here(program), {})
    there = Topic(own_kafka, "sales-back-compacted")
    assert {one.key: one.value for one in there.read()} == before
    assert len(there.read()) <= len(night.topic.read())


def write(kafka: KafkaCluster, topic: Topic, hour: int, values: Sequence[int | None]) -> None:
    """One segment: a value of the one key for each version; None: without a version."""
    producer = Producer(kafka.client_settings(acks="all"))
    for at, version in enumerate(values):
        headers = [] if version is None else [("version", version.to_bytes(8))]
        producer.produce(
            topic.name,
            b"%d.%d" % (hour, at),
            b"key",
            timestamp=1_700_000_000_000 + hour * HOUR_MS,
            headers=headers,
        )
    assert producer.flush(CALL_S) == 0


def test_another_strategy_and_back(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = own_kafka.create("sales-versions")
    night = Night(own_kafka, tmp_path, topic)
    now = ("--set", "min.cleanable.dirty.ratio=0", "--set", "tail.margin.segments=0")

    def kept() -> list[bytes | None]:
        topic.wait_until_tiered()
        night.compact(*now)
        return [one.value for one in topic.read()]

    write(own_kafka, topic, 0, [None, None])
    write(own_kafka, topic, 1, [1, 3])  # Producers first.
    assert kept() == [b"1.1"]
    (versions,) = settings_of("Another strategy")
    night.opts_in(versions)
    write(own_kafka, topic, 2, [2, 4, 3])
    assert kept() == [b"2.1"]
    night.opts_in()  # The setting first: offsets count, so what the other one dropped stays away.
    assert kept() == [b"2.1"]
    write(own_kafka, topic, 3, [1, None])
    assert kept() == [b"3.1"]


def test_another_policy_and_back(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    topic = own_kafka.create("sales-policy")
    old, new = (
        Topic(own_kafka, topic.name, first_ms=now_ms - days * DAY_MS) for days in (40, 1)
    )
    for part in (old, new):
        for number in range(3):
            part.append(records(number))
    topic.wait_until_tiered()
    night = Night(own_kafka, tmp_path, topic)
    newest = night.newest()
    (both,) = settings_of("Another policy")
    finite, none = commands_of("Another policy")
    night.opts_in(both)
    night.is_well()
    night.types(finite)
    own_kafka.wait(lambda: topic.offsets()[0] > 0, "brokers' retention")
    night.compact()
    night.is_well()
    assert night.newest() == newest
    # Back: not tierfold first,
    night.opts_in()
    night.is_refused("retention_ms")
    # but the brokers.
    night.opts_in(both)
    night.types(none)
    night.is_well()
    night.opts_in()
    night.is_well()
    assert night.newest() == newest


def test_its_own_retention_deletes(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    """Brokers keep everything, so only the number in the settings file counts."""
    now_ms = time.time_ns() // 1_000_000
    topic = own_kafka.create("sales-kept")
    for days in (49, 45, 41, 37, 3, 2, 1):
        part = Topic(own_kafka, topic.name, first_ms=now_ms - days * DAY_MS)
        part.append([(b"of day %d" % days, b"only"), *records(days)])
    topic.wait_until_tiered()
    night = Night(own_kafka, tmp_path, topic)
    (settings,), (look,) = (
        settings_of("Retention beside brokers"),
        commands_of("Retention beside brokers"),
    )
    night.opts_in(settings)
    night.compact()
    before = night.newest()
    (shown,) = outputs_of("Retention beside brokers")
    assert_shows(shown, night.runs(look))
    assert topic.offsets()[0] == 0
    # Other tests of this cluster have played the days to come.
    night.runs(look.replace("--dry-run", "--publish"), "--clock-is-right")
    assert topic.offsets()[0] == 4 * (1 + len(records(0)))
    night.is_well()
    old = {b"of day %d" % days for days in (49, 45, 41, 37)}
    assert night.newest() == {key: value for key, value in before.items() if key not in old}


def test_kafka_is_upgraded(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "kafka", WITHOUT_COMPILER) as kafka:
        night = compacted(kafka, tmp_path, "sales-upgraded")
        before = night.newest()
        text = night.settings.read_text(encoding="utf-8")
        declared = text.replace("[cluster]\n", '[cluster]\n"kafka.version" = "4.3"\n')
        night.settings.write_text(declared, encoding="utf-8")
        night.is_well()
        (broker,) = kafka.brokers
        broker.version = NEWEST
        kafka.restart(broker)
        night.is_refused("kafka_version_wrong")
        night.settings.write_text(declared.replace('"4.3"', '"4.4"'), encoding="utf-8")
        night.is_well()
        night.settings.write_text(text, encoding="utf-8")
        night.adds(9)
        night.compact("--set", "min.cleanable.dirty.ratio=0")
        night.is_well()
        assert night.newest() == before | dict(records(9))


def test_all_of_it_is_taken_away_and_brought_back(
    own_kafka: KafkaCluster, tmp_path: Path
) -> None:
    night = compacted(own_kafka, tmp_path, "sales-gone")
    *commands, remove = commands_of("Stopping altogether")
    ends(night, commands)
    before = night.newest()
    subprocess.run(night.here(remove), shell=True, check=True)
    own_kafka.restart(own_kafka.brokers[0])
    assert night.newest() == before
    night.adds(9)
    _, forget = commands_of("A lost catalog")
    ran = night.types(forget)
    assert ran.code == 0, ran
    night.compact("--set", "min.cleanable.dirty.ratio=0")
    night.is_well()
    assert night.newest() == before | dict(records(9))
    # Brokers delete by retention what tierfold wrote, as they do theirs.
    alter(own_kafka, night.topic.name, {"retention.ms": "1"})
    own_kafka.wait(lambda: night.topic.logs() == [], "brokers' retention")
