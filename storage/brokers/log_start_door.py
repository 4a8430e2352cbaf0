"""The one door to DeleteRecords: no other code can move the log start of a topic.

    check    the move passes `move_violation` against its own look; nothing leads around it
    asked    cluster, topic id and offsets once more, as the last things before it
    age      the last statement before the request: its look is not too old

The request names a topic without its id. One that is deleted, created again and filled beyond the
offset between the two last requests would lose these records; nothing in Kafka's protocol prevents
that.

Rule: SEMANTICS 9; Kafka `DeleteRecordsRequest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from confluent_kafka import KafkaError, TopicPartition

from tierfold.compaction.deletion.log_start import move_violation
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.rights import Resource, Right
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.publishing.look import Look
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.event_door import (
    LookTime,
    RefusedByBrokers,
    TooLate,
    Unanswered,
    why_too_late,
)
from tierfold.storage.brokers.facts import partition_offsets, topic_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMove:
    """A move of the log start, and the look that it follows from."""

    look: Look
    taken: LookTime
    rules: Rules
    offset: int
    now_ms: int
    """The time for which retention is decided."""


@dataclass(frozen=True, slots=True)
class Moved:
    """All replicas in sync have the new log start."""

    log_start: int


@dataclass(frozen=True, slots=True)
class ForbiddenMove:
    """Nothing was asked for: the check forbids it."""

    why: str
    """A clause."""


MoveOutcome: TypeAlias = Moved | ForbiddenMove | TooLate | RefusedByBrokers | Unanswered
"""What became of a move. Whichever it is, the next run follows from a new look."""


def move_log_start(
    connection: Connection, move: OutgoingMove, message_timeout_ms: int
) -> MoveOutcome:
    """Ask brokers to move the log start; `message_timeout_ms`: how long a look is valid.

    Raises UnreadableObject if no broker answers before they are asked for it.
    """
    key = move.look.row.key
    why = move_violation(move.look, move.rules, move.offset, move.now_ms)
    why = why or _why_elsewhere(connection, move)
    if why:
        return ForbiddenMove(why)
    if late := why_too_late(move.taken, message_timeout_ms):
        return TooLate(late)
    one = TopicPartition(key.topic, key.partition, move.offset)
    asked = connection.admin.delete_records(
        [one], request_timeout=connection.timeout_s, operation_timeout=connection.timeout_s
    )
    try:
        answer = connection.answer(asked[one])
    except UnreadableObject as error:
        return Unanswered(str(error))
    if not isinstance(answer, KafkaError):
        return Moved(answer.low_watermark)
    if answer.code() == KafkaError.REQUEST_TIMED_OUT:
        return Unanswered(f"not all replicas have it yet ({answer.name()})")
    right = Right(operation="Delete", resource=Resource.TOPIC, name=key.topic)
    return RefusedByBrokers(connection.refusal(answer, right))


def _why_elsewhere(connection: Connection, move: OutgoingMove) -> str:
    """Why the brokers have another partition than the look, a clause; empty: it is this one."""
    row, key = move.look.row, move.look.row.key
    cluster = connection.admin.describe_cluster(request_timeout=connection.timeout_s)
    answer = connection.answer(cluster)
    cluster_id = None if isinstance(answer, KafkaError) else answer.cluster_id
    if row.cluster is None or cluster_id != row.cluster.cluster_id:
        return f"the catalog names another cluster than {cluster_id}"
    facts = topic_facts(connection, [key.topic]).get(key.topic)
    if isinstance(facts, UnreadableObject):
        raise facts
    if facts is None or facts.topic_id != key.topic_id:
        return "the topic was deleted, or has another id now"
    found = partition_offsets(connection, [(key.topic, key.partition)])[key.topic, key.partition]
    if isinstance(found, UnreadableObject):
        raise found
    end = min(found.high_watermark, found.last_stable)
    if not move.look.log_start <= found.log_start < move.offset <= end:
        return (
            f"brokers have offsets {found.log_start} to {end} now, and the log start was to move"
            f" to {move.offset}"
        )
    return ""
