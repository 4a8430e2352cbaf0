"""A user of a cluster who may do only what is granted: SASL/PLAIN and Kafka's own authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import CALL_S

USER: Final = "least"
PASSWORD: Final = "a-planted/password+of-Kafka"

ACCESS_SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Of a broker at whose `SASL` listener `USER` logs in; clients without a login may do all."""


class Right(NamedTuple):
    """An operation on a topic, or on the cluster (`ResourceType.BROKER`, named kafka-cluster)."""

    operation: AclOperation
    name: str
    kind: ResourceType = ResourceType.TOPIC


def client_of_user(kafka: KafkaCluster) -> dict[str, Any]:
    """The settings with which a client of confluent-kafka is `USER`."""
    return {
        "bootstrap.servers": kafka.servers_of("SASL"),
        "log_level": 0,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


@contextmanager
def granted(kafka: KafkaCluster, *rights: Right) -> Iterator[None]:
    """Let `USER` have exactly these rights; at the end it has none."""
    admin = kafka.admin()
    bindings = [_allowing(right) for right in set(rights)]
    for done in admin.create_acls(bindings).values() if bindings else ():
        done.result(CALL_S)
    try:
        _wait_for(kafka, len(set(rights)))
        yield
    finally:
        for done in admin.delete_acls([_every()]).values():
            done.result(CALL_S)
        _wait_for(kafka, 0)


def _wait_for(kafka: KafkaCluster, count: int) -> None:
    """Wait until each broker knows so many rights; it learns of them a little later."""
    for server in kafka.servers.split(","):
        admin = AdminClient(kafka.client_settings(bootstrap_servers=server))
        kafka.wait(lambda asks=admin: _known(asks) == count, f"{count} rights at {server}")


def _known(admin: AdminClient) -> int:
    return len(admin.describe_acls(_every()).result(CALL_S))


def _every() -> AclBindingFilter:
    anything = (ResourceType.ANY, None, ResourcePatternType.ANY)
    return AclBindingFilter(
        *anything, f"User:{USER}", None, AclOperation.ANY, AclPermissionType.ANY
    )


def _allowing(right: Right) -> AclBinding:
    where = (right.kind, right.name, ResourcePatternType.LITERAL)
    return AclBinding(*where, f"User:{USER}", "*", right.operation, AclPermissionType.ALLOW)
