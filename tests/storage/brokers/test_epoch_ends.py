"""Brokers say where leader epochs end in their logs; nothing is fetched, and no answer is a guess.

The log of `asked`: leader epoch 0 has offsets 0 to 5, epoch 1 has 6 to 11; all of it is remote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AclOperation

from tests.brokers.access import USER, Right, granted
from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import Topic
from tests.storage.brokers.secured import client
from tests.storage.brokers.test_access_rights import COMMAND, LOGIN
from tierfold.compaction.brokers.epoch_ends import (
    EpochAnswer,
    EpochEnd,
    NoAnswer,
    NotAllowed,
    UnknownEpoch,
)
from tierfold.storage.brokers.connection import Connection, connected
from tierfold.storage.brokers.epoch_ends import epoch_ends
from tierfold.storage.clock import elapsed_s

pytestmark = pytest.mark.jvm

MANY = 100


@pytest.fixture(scope="module")
def topic(kafka: KafkaCluster) -> Topic:
    kafka.broker(2)
    topic = kafka.create("asked", replicas=[1, 2])
    topic.append([(b"key", b"1")] * 6)
    topic.move_leader(2)
    topic.append([(b"key", b"2")] * 6)
    topic.wait_until_tiered()
    topic.move_leader(1)
    return topic


@pytest.fixture(scope="module")
def connection(kafka: KafkaCluster) -> Iterator[Connection]:
    with connected(client(kafka.servers, {})) as connection:
        yield connection


def answers(connection: Connection, topic: Topic, *epochs: int) -> list[EpochAnswer]:
    """What the brokers answer, in the order of the epochs."""
    found = epoch_ends(connection, {(topic.name, 0): epochs})[topic.name, 0]
    assert list(found) == list(epochs)
    return list(found.values())


def test_each_epoch_ends_where_the_next_begins(connection: Connection, topic: Topic) -> None:
    ends = [EpochEnd(epoch=0, end_offset=6), EpochEnd(epoch=1, end_offset=12)]
    # librdkafka would leave the check out once it knows the leader.
    for _ in range(3):
        assert answers(connection, topic, 0, 1) == ends
    assert answers(connection, topic, 9, 1) == [UnknownEpoch(), ends[1]]


def test_an_epoch_below_the_log_start_ends_there(kafka: KafkaCluster) -> None:
    topic = kafka.create("begun", replicas=[1, 2])
    topic.append([(b"key", b"1")] * 6)
    topic.move_leader(2)
    topic.append([(b"key", b"2")] * 6)
    with connected(client(kafka.servers, {})) as connection:
        topic.delete_records(8)
        ends = [EpochEnd(epoch=0, end_offset=8), EpochEnd(epoch=1, end_offset=12)]
        assert answers(connection, topic, 0, 1) == ends


def test_a_log_without_records_has_the_leaders_epoch(
    kafka: KafkaCluster, connection: Connection
) -> None:
    topic = kafka.create("unwritten")
    assert answers(connection, topic, 0, 1) == [EpochEnd(epoch=0, end_offset=0), UnknownEpoch()]


class LateConsumer(Consumer):
    """Is interrupted between `assign` and `pause` until a fetch has been answered."""

    def pause(self, partitions: list[TopicPartition]) -> None:
        deadline_s = elapsed_s() + 30
        while not self.consume(1, 0.1):
            assert elapsed_s() < deadline_s, "no fetch was answered within 30 s"
        super().pause(partitions)


class DeafConsumer(Consumer):
    """Loses every question."""

    def seek(self, partition: TopicPartition) -> None:
        """Do nothing."""


class OddConnection(Connection):
    """Its first consumer is another one; it counts them."""

    consumers = 0
    first_one: type[Consumer] = LateConsumer

    def consumer(self, options: Mapping[str, Any]) -> Consumer:
        self.consumers += 1
        return (self.first_one if self.consumers == 1 else Consumer)(self.options(options))


@pytest.mark.parametrize(
    ("right", "consumers"),
    [
        # There is nothing to fetch at that offset, which ends the partition; but now and then
        # librdkafka takes it up again.
        (AclOperation.READ, {1, 2}),
        # The refused fetch does not end it.
        (AclOperation.DESCRIBE, {1}),
    ],
)
def test_a_fetch_that_slips_in_changes_no_answer(
    kafka: KafkaCluster, topic: Topic, right: AclOperation, consumers: set[int]
) -> None:
    with granted(kafka, Right(right, topic.name)):
        late = OddConnection(client(kafka.servers_of("SASL"), LOGIN))
        assert answers(late, topic, 1) == [EpochEnd(epoch=1, end_offset=12)]
    assert late.consumers in consumers


def test_a_question_that_is_lost_is_asked_again(kafka: KafkaCluster, topic: Topic) -> None:
    deaf = OddConnection(client(kafka.servers, {}))
    deaf.first_one = DeafConsumer
    began_s = elapsed_s()
    assert answers(deaf, topic, 1) == [EpochEnd(epoch=1, end_offset=12)]
    assert deaf.consumers == 2
    assert elapsed_s() - began_s < deaf.timeout_s / 3


def test_many_partitions_are_asked_at_once(kafka: KafkaCluster, connection: Connection) -> None:
    kafka.create("many", partitions=MANY, remote_storage_enable="false")
    questions = {("many", number): range(3) for number in range(MANY)}
    began_s = elapsed_s()
    found = epoch_ends(connection, questions)
    assert elapsed_s() - began_s < MANY / 20
    assert found == {
        one: {0: EpochEnd(epoch=0, end_offset=0), 1: UnknownEpoch(), 2: UnknownEpoch()}
        for one in questions
    }


def test_nothing_is_asked_about_nothing(connection: Connection) -> None:
    assert epoch_ends(connection, {}) == {}
    assert epoch_ends(connection, {("asked", 0): ()}) == {("asked", 0): {}}


def test_a_partition_that_is_not_there_has_no_answer(
    connection: Connection, topic: Topic
) -> None:
    found = epoch_ends(connection, {("absent", 0): [0], ("asked", 1): [0, 1], ("asked", 0): [0]})
    assert found == {
        ("absent", 0): {0: NoAnswer("The cluster has no partition absent-0.")},
        ("asked", 1): dict.fromkeys(
            (0, 1), NoAnswer("The cluster has no partition asked-1.")
        ),
        ("asked", 0): {0: EpochEnd(epoch=0, end_offset=6)},
    }


@pytest.mark.soak
def test_a_partition_without_a_leader_has_no_answer_in_time(kafka: KafkaCluster) -> None:
    second = kafka.broker(2)
    kafka.create("led-by-2", replicas=[2])
    kafka.create("led-by-1", replicas=[1])
    second.stop()
    try:
        with connected(client(kafka.servers, {"request.timeout.ms": "2000"})) as connection:
            began_s = elapsed_s()
            found = epoch_ends(connection, {(f"led-by-{node}", 0): range(6) for node in (1, 2)})
            assert elapsed_s() - began_s < 2 * 5  # It waits once, not for each epoch.
    finally:
        kafka.broker(2)
    assert found["led-by-1", 0][0] == EpochEnd(epoch=0, end_offset=0)
    why = "The leader of led-by-2-0 did not answer within 2000 ms (request.timeout.ms)."
    silent = NoAnswer(why)
    assert found["led-by-2", 0] == dict.fromkeys(range(6), silent)


def test_describe_is_enough_and_without_it_the_command_grants_it(
    kafka: KafkaCluster, topic: Topic
) -> None:
    server = kafka.servers_of("SASL")
    end = EpochEnd(epoch=0, end_offset=6)
    with granted(kafka), connected(client(server, LOGIN)) as connection:
        lacking, again = answers(connection, topic, 0, 1)
        assert isinstance(lacking, NotAllowed)
        assert again == lacking
        command = COMMAND.search(lacking.why)
        assert command is not None, lacking
        arguments = command[2].replace("User:NAME", f"User:{USER}")
        kafka.run_tool("org.apache.kafka.tools.AclCommand", *arguments.split())
        assert answers(connection, topic, 0) == [end]
    describe = Right(AclOperation.DESCRIBE, topic.name)
    with granted(kafka, describe), connected(client(server, LOGIN)) as connection:
        assert answers(connection, topic, 0) == [end]
