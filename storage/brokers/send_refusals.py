"""Says why brokers do not take events, and what to do."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from tierfold.compaction.brokers.events import METADATA_TOPIC
from tierfold.compaction.brokers.preconditions import alter_topic
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.rights import Resource, Right
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.facts import topic_configs

_DELETE: Final = "delete"

DENIED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)
"""What brokers answer without the right: the second before any event, if there is none at all."""


def refusal_of(connection: Connection, error: KafkaError) -> UnreadableObject:
    """The error of events that brokers answered so."""
    match error.code():
        case code if code in DENIED:
            right = Right(operation="Write", resource=Resource.TOPIC, name=METADATA_TOPIC)
            return connection.refusal(error, right)
        case KafkaError.INVALID_RECORD if (policy := _policy(connection)) not in {_DELETE, None}:
            back = alter_topic(connection.server, METADATA_TOPIC, {"cleanup.policy": _DELETE})
            return _refused(
                error,
                f"events without a key: cleanup.policy of the topic is {policy}",
                f"Find out who changed it. `{back}` sets it back.",
            )
        # librdkafka reports it of one record, and of several as INVALID_RECORD.
        case KafkaError.INVALID_TIMESTAMP | KafkaError.INVALID_RECORD:
            return _refused(
                error,
                "the time of the events: they were sent late, or this machine's clock is wrong",
                "Run again: nothing was written. If it persists, set the clock, for example with"
                " NTP.",
            )
        case KafkaError.MSG_SIZE_TOO_LARGE:
            return _refused(
                error,
                "a batch of this size: max.message.bytes of the topic is smaller than it was",
                "Run again: it reads the limit first, and batches then have fewer events.",
            )
        case _:
            return connection.refusal(error)


def _policy(connection: Connection) -> str | None:
    """The `cleanup.policy` of the topic; None: brokers do not say."""
    try:
        configs = topic_configs(connection, [METADATA_TOPIC])[METADATA_TOPIC]
    except UnreadableObject:
        return None
    return None if isinstance(configs, UnreadableObject) else configs["cleanup.policy"].text


def other_partitions(found: int, expected: int) -> UnreadableObject:
    """The error of a metadata topic in which events of a partition now have another place."""
    return UnreadableObject(
        f"the topic has {found} partitions, and had {expected} when the run looked at it",
        where=METADATA_TOPIC,
        remedy="Run again. If it names the number once more, the topic was changed after brokers"
        " had written to it: their events and those of tierfold would be in different partitions.",
    )


def _refused(error: KafkaError, what: str, remedy: str) -> UnreadableObject:
    return UnreadableObject(
        f"brokers refuse {what} ({error.name()})", where=METADATA_TOPIC, remedy=remedy
    )
