"""docs/kafka.md, "The first compaction of a served topic": its files, commands and outputs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import NewTopic

from tests.brokers.altered_settings import alter
from tests.brokers.cluster import KafkaCluster
from tests.brokers.kafka_page import (
    Operator,
    assert_shows,
    commands_of,
    outputs_of,
    settings_of,
)
from tests.brokers.topics import CALL_S, Topic

pytestmark = pytest.mark.jvm

HOUR_MS: Final = 3_600_000
A_WEEK: Final = "local.retention.ms=604800000"
"""What the printed command keeps: as long as before."""
FOREVER: Final = {"log.message.timestamp.before.max.ms": str(2**63 - 1)}
"""Kafka's default, which the tests' other clusters do not have."""


@pytest.fixture
def new(tmp_path: Path) -> Iterator[KafkaCluster]:
    """A cluster on which nothing was set up for tierfold, and a tier without a note."""
    with KafkaCluster(tmp_path / "kafka", settings=FOREVER) as kafka:
        yield kafka


def filled(kafka: KafkaCluster, name: str) -> Topic:
    """A tiered topic with Kafka's defaults: four segments uploaded, and one that is not full."""
    config = {"remote.storage.enable": "true", "segment.ms": "60000", "file.delete.delay.ms": "20"}
    asked = NewTopic(name, 2, config=config, replica_assignment=[[1], [1]])
    admin = kafka.admin()
    admin.create_topics([asked])[name].result(CALL_S)
    # An hour apart; of the newest ones none is older than an hour.
    first_ms = time.time_ns() // 1_000_000 - 17 * HOUR_MS // 2
    topic = Topic(kafka, name, 2, first_ms=first_ms)
    for turn in range(5):
        records = [(b"customer-%d" % (n % 500), b"%d" % (turn + n)) for n in range(2000)]
        for number in range(2):
            topic.append(records, number)
    parts = range(2)
    kafka.wait(lambda: all(len(topic.logs(part)) == 4 for part in parts), "four uploads")
    return topic


def newest(topic: Topic) -> list[dict[bytes | None, bytes | None]]:
    return [{one.key: one.value for one in topic.read(partition=part)} for part in range(2)]


def set_up(night: Operator, planned: str, kept: str) -> None:
    """Run each command that a plan prints; local data are kept for so long, not a week."""
    commands = set(re.findall(r"`(kafka-configs\.sh [^`]+)`", planned))
    assert sum(A_WEEK in command for command in commands) == 1
    for command in commands:
        night.types(command.replace(A_WEEK, f"local.retention.ms={kept}"))


def test_the_first_compaction_step_by_step(
    new: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    topic = filled(new, "orders")
    before = newest(topic)
    night = Operator(new, tmp_path)
    (first,) = settings_of("1. A settings file")
    night.writes(first)
    (plan,) = commands_of("2. Plan")
    refused, planned = outputs_of("2. Plan")
    ran = night.types(plan)
    assert ran.code == 3
    assert_shows(refused, night.on_the_page(ran.stdout))
    set_up(night, ran.stdout, "3600000")
    local = [new.brokers[0].data / f"orders-{number}" for number in range(2)]
    new.wait(lambda: all(len([*one.glob("*.log")]) == 1 for one in local), "local retention")
    ran = night.types(plan)
    assert ran.code == 0
    assert_shows(planned, night.on_the_page(ran.stdout + ran.stderr))

    night.opts_in()
    (compact,) = commands_of("3. Opt in, and compact")
    ran = night.types(compact)
    assert ran.code == 0, ran
    assert_shows(outputs_of("3. Opt in, and compact")[0], night.on_the_page(ran.stdout))
    assert newest(topic) == before

    for heading in ("4. Look", "5. Free the space"):
        (command,) = commands_of(heading)
        ran = night.types(command)
        assert ran.code == 0, ran
        assert_shows(outputs_of(heading)[0], night.on_the_page(ran.stdout))
    night.hours = 25
    (vacuum,) = commands_of("5. Free the space")
    assert night.types(vacuum).code == 0
    assert [len(topic.logs(number)) for number in range(2)] == [2, 2]
    assert newest(topic) == before


@pytest.mark.soak
def test_while_the_range_is_still_local(
    new: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    topic = filled(new, "payments")
    before = newest(topic)
    night = Operator(new, tmp_path, "payments")
    night.opts_in()
    (plan,), (compact,) = commands_of("2. Plan"), commands_of("3. Opt in, and compact")
    set_up(night, night.types(plan).stdout, "86400000")
    new.wait(lambda: night.types(plan).code == 0, "the settings that were altered")
    ran = night.types(compact)
    assert ran.code == 0, ran
    assert_shows(outputs_of("3. Opt in, and compact")[1], night.on_the_page(ran.stdout))
    assert newest(topic) == before
    again = night.types(compact)
    assert (again.code, "did not count" in again.stdout) == (0, True), again
    # Once local data are gone:
    alter(new, "payments", {"local.retention.ms": "3600000"})
    local = [new.brokers[0].data / f"payments-{number}" for number in range(2)]
    new.wait(lambda: all(len([*one.glob("*.log")]) == 1 for one in local), "local retention")
    done = night.types(compact)
    assert (done.code, "did not count" in done.stdout) == (0, False), done
    status = night.types(commands_of("4. Look")[0])
    assert "open: " not in status.stdout, status
    assert newest(topic) == before
