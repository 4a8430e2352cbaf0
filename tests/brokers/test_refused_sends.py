"""Whatever brokers answer to events, or do not answer, is an outcome that says what to do.

All is sent to a topic that no broker reads, with the settings of the metadata topic.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation

from tests.brokers.access import Right, granted
from tests.brokers.altered_settings import alter, set_as_printed
from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.outgoing import (
    PLACES,
    SAME_PLACE,
    a_batch,
    only,
    opened,
    refused,
    refused_soon,
    sent_soon,
    sizes,
    stand_in_topic,
)
from tests.brokers.topics import METADATA_TOPIC, Topic
from tests.storage.brokers.secured import client
from tests.storage.brokers.test_access_rights import LOGIN
from tierfold.compaction.model.errors import MissingRight
from tierfold.storage.brokers.connection import connected
from tierfold.storage.brokers.event_door import Sent, TooLate, Unanswered
from tierfold.storage.brokers.facts import topic_configs
from tierfold.storage.brokers.send_refusals import refusal_of


@pytest.fixture
def stand_in(kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Topic:
    return stand_in_topic(kafka, monkeypatch)


def test_without_the_right_its_command_is_named_and_the_same_door_sends_with_it(
    kafka: KafkaCluster, stand_in: Topic
) -> None:
    read, write = (Right(one, stand_in.name) for one in (AclOperation.READ, AclOperation.WRITE))
    elsewhere = Right(AclOperation.WRITE, "another")
    errors = []
    with opened(kafka.servers_of("SASL"), LOGIN) as door:
        for rights in ((), (read,), (read, elsewhere)):
            with granted(kafka, *rights):
                errors.append(refused(door, a_batch()))
        for error in errors:
            assert isinstance(error, MissingRight)
            (missing,) = error.rights
            assert (missing.operation, missing.name) == ("Write", stand_in.name)
            assert f"--operation Write --topic {stand_in.name}" in error.remedy
        assert sizes(kafka, stand_in) == {}
        with granted(kafka, write):
            sent_soon(door)
    assert sizes(kafka, stand_in) == {PLACES[0]: [3]}


def test_a_policy_that_needs_keys_is_a_normal_stop_and_the_command_mends_it(
    kafka: KafkaCluster, stand_in: Topic
) -> None:
    alter(kafka, stand_in.name, {"cleanup.policy": "compact"})
    with opened(kafka.servers) as door:
        what = "events without a key: cleanup.policy of the topic is compact (INVALID_RECORD)"
        error = refused_soon(door, what)
        with (
            granted(kafka, Right(AclOperation.WRITE, stand_in.name)),
            opened(kafka.servers_of("SASL"), LOGIN) as may_not_ask,
        ):
            assert "this machine's clock" in refused(may_not_ask, a_batch()).what
        set_as_printed(kafka, error.remedy.split("`")[1])
        sent_soon(door)


def test_brokers_that_answer_no_more_do_not_hide_the_refusal(kafka: KafkaCluster) -> None:
    with connected(client(kafka.servers, {"request.timeout.ms": "1000"})) as connection:
        topic_configs(connection, [METADATA_TOPIC])
        with kafka.halted():
            error = refusal_of(connection, KafkaError(KafkaError.INVALID_RECORD))
    assert error.what.endswith("(INVALID_RECORD)")


def test_a_late_send_is_refused_by_the_topic(kafka: KafkaCluster, stand_in: Topic) -> None:
    """The setting that PUBLISHING 3.6 wants, so short that every send is late."""
    alter(kafka, stand_in.name, {"message.timestamp.before.max.ms": "0"})
    with opened(kafka.servers) as door:
        refused_soon(door, "sent late")
        # One that arrives within its millisecond is not late.
        error = refused_soon(door, "sent late", lambda: a_batch(count=1))
        assert error.what.endswith("(INVALID_TIMESTAMP)")
        assert error.remedy.startswith("Run again")
        alter(kafka, stand_in.name, {"message.timestamp.before.max.ms": "1800000"})
        sent_soon(door)


def test_a_batch_that_the_topic_no_longer_takes_is_refused_whole(
    kafka: KafkaCluster, stand_in: Topic
) -> None:
    alter(kafka, stand_in.name, {"max.message.bytes": "300"})
    with opened(kafka.servers) as door:
        error = refused_soon(door, "max.message.bytes of the topic is smaller")
        assert error.remedy.startswith("Run again")
        assert isinstance(only(door.send([a_batch(count=1)])), Sent)


def test_another_number_of_partitions_would_misplace_events(
    kafka: KafkaCluster, stand_in: Topic
) -> None:
    with opened(kafka.servers, partitions=METADATA_PARTITIONS - 1) as door:
        error = refused(door, a_batch())
    assert "has 5 partitions, and had 4" in error.what
    assert sizes(kafka, stand_in) == {}


@pytest.mark.soak
@pytest.mark.parametrize("is_open", [True, False])
def test_brokers_that_fall_silent_leave_it_open_and_the_next_send_gets_through(
    kafka: KafkaCluster, stand_in: Topic, *, is_open: bool
) -> None:
    with opened(kafka.servers, message_timeout_ms=1000) as door:
        if is_open:
            sent_soon(door)
        began_s = time.monotonic()
        with kafka.halted():
            first, second = door.send([a_batch(), a_batch(SAME_PLACE)])
        assert time.monotonic() - began_s < 6
        assert isinstance(first, Unanswered)
        assert first.why.startswith("broker 127.0.0.1:")
        assert second == TooLate("brokers did not answer to a batch before it")
        sent_soon(door)
