"""A user with SASL has the rights that a test grants, for as long as it does, on both brokers."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from tests.brokers.access import Right, client_of_user, granted
from tests.brokers.cluster import KafkaCluster


def described(kafka: KafkaCluster, server: str) -> str:
    """What a broker answers `USER` who asks for a topic: its name or the error's."""
    admin = AdminClient(client_of_user(kafka) | {"bootstrap.servers": server})
    asked = admin.describe_topics(TopicCollection(["closed"]), request_timeout=30)
    try:
        return str(asked["closed"].result(30).name)
    except KafkaException as error:
        return str(error.args[0].name())


@pytest.mark.soak
def test_a_user_may_do_what_is_granted(kafka: KafkaCluster) -> None:
    kafka.broker(2)
    kafka.create("closed")
    servers = kafka.servers_of("SASL").split(",")
    assert len(set(servers) | set(kafka.servers.split(","))) == 4
    for rights, answer in (
        ([], "TOPIC_AUTHORIZATION_FAILED"),
        ([Right(AclOperation.DESCRIBE, "closed")], "closed"),
        ([Right(AclOperation.DESCRIBE, "other")], "TOPIC_AUTHORIZATION_FAILED"),
    ):
        with granted(kafka, *rights):
            assert [described(kafka, server) for server in servers] == [answer] * 2
