"""Asks brokers where the records of leader epochs end in their logs (OffsetForLeaderEpoch).

librdkafka sends this request only to check a consumer's position, so the question is a position
that cannot be right: the leader epoch, at an offset beyond every log. The check fails, and its
error has the whole answer. A right position would prove nothing, because librdkafka leaves the
check out of `assign` if it already knows the leader; `seek` always checks (2.16).

Every partition is paused, so nothing is fetched, and Describe on the topic is enough. While it is
assigned and not yet paused, a fetch may go out; there is nothing at that offset, and it may end the
partition without an answer. Then it is asked again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as Partition

from tierfold.compaction.brokers.epoch_ends import (
    EpochAnswer,
    EpochEnd,
    NoAnswer,
    NotAllowed,
    UnknownEpoch,
)
from tierfold.compaction.model.errors import MissingRight, UnreadableObject
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.facts import TopicPartition, topic_facts
from tierfold.storage.clock import elapsed_s

_BEYOND: Final = 2**62
"""An offset that no log reaches."""
_MESSAGES: Final = 10_000
_WAIT_S: Final = 0.005
_PATIENCE_S: Final = 1.0
"""How long the first consumer waits for an answer; if none comes, the next waits twice as long."""

_OPTIONS: Final[Mapping[str, Any]] = {
    "group.id": "tierfold",  # librdkafka wants one; it is not joined.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # Otherwise it would go on from the answer without a word.
    "allow.auto.create.topics": False,
}
_ANSWER: Final = re.compile(
    r"broker end offset is (?P<end>-?\d+) \(offset leader epoch (?P<epoch>-?\d+)\)"
)
"""librdkafka 2.16, `rd_kafka_toppar_handle_OffsetForLeaderEpoch`."""


def epoch_ends(
    connection: Connection, questions: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, dict[int, EpochAnswer]]:
    """By partition and leader epoch, what the brokers answer; `questions`: its leader epochs.

    Needs Describe on each topic. All partitions are asked at once, for one leader epoch after the
    other; one that does not answer within `request.timeout.ms` is not asked again. Raises
    UnreadableObject if no broker answers.
    """
    unasked = _unaskable(connection, questions)
    answers: dict[TopicPartition, dict[int, EpochAnswer]] = {one: {} for one in questions}
    for turn in range(max(map(len, questions.values()), default=0)):
        asked = {
            one: epochs[turn]
            for one, epochs in questions.items()
            if turn < len(epochs) and one not in unasked
        }
        found = _answered(connection, asked)
        for one, epoch in asked.items():
            if one in found:
                answers[one][epoch] = found[one]
            else:
                unasked[one] = _silent(connection, one)
    for one, why in unasked.items():
        answers[one] |= {epoch: why for epoch in questions[one] if epoch not in answers[one]}
    return answers


def _unaskable(
    connection: Connection, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, EpochAnswer]:
    """The answer for each partition that the cluster does not show; librdkafka would be silent."""
    topics = topic_facts(connection, {topic for topic, _ in partitions})
    found: dict[TopicPartition, EpochAnswer] = {}
    for topic, number in partitions:
        facts = topics.get(topic)
        if isinstance(facts, MissingRight):
            found[topic, number] = NotAllowed(str(facts))
        elif isinstance(facts, UnreadableObject):
            found[topic, number] = NoAnswer(str(facts))
        elif facts is None or number >= facts.partitions:
            found[topic, number] = NoAnswer(f"The cluster has no partition {topic}-{number}.")
    return found


def _silent(connection: Connection, one: TopicPartition) -> NoAnswer:
    topic, number = one
    return NoAnswer(
        f"The leader of {topic}-{number} did not answer within {connection.settings.timeout_ms} ms"
        " (request.timeout.ms)."
    )


def _answered(
    connection: Connection, asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochAnswer]:
    """The answers that come, until each has or nothing comes for `request.timeout.ms`."""
    found: dict[TopicPartition, EpochAnswer] = {}
    grew_at_s, patience_s, timeout_s = elapsed_s(), _PATIENCE_S, connection.timeout_s
    while len(found) < len(asked) and (left_s := grew_at_s + timeout_s - elapsed_s()) > 0:
        left = {one: epoch for one, epoch in asked.items() if one not in found}
        answers = _attempt(connection, left, min(patience_s, left_s))
        if answers:
            found |= answers
            grew_at_s = elapsed_s()
        else:
            patience_s *= 2
    return found


def _attempt(
    connection: Connection, asked: Mapping[TopicPartition, int], patience_s: float
) -> dict[TopicPartition, EpochAnswer]:
    """The answers that a new consumer gets, until nothing comes for so long.

    Each consumer asks once: after an error librdkafka does not take a partition up again reliably.
    """
    found: dict[TopicPartition, EpochAnswer] = {}
    consumer = connection.consumer(_OPTIONS)
    try:
        open_ones = _ask(consumer, asked)
        grew_at_s = elapsed_s()
        while open_ones and elapsed_s() - grew_at_s <= patience_s:
            for message in consumer.consume(_MESSAGES, _WAIT_S):
                one = _ended(message)
                if one not in open_ones:
                    continue
                open_ones.remove(one)
                grew_at_s = elapsed_s()
                answer = _answer(message)
                if answer is not None:
                    found[one] = answer
    finally:
        consumer.close()
    return found


def _ask(consumer: Consumer, asked: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    """Let the consumer check an impossible position in each partition; those that it checks."""
    partitions = [Partition(topic, number, _BEYOND) for topic, number in asked]
    consumer.assign(partitions)
    consumer.pause(partitions)
    open_ones = set(asked)
    for (topic, number), epoch in asked.items():
        try:
            consumer.seek(Partition(topic, number, _BEYOND, leader_epoch=epoch))
        except KafkaException:
            open_ones.discard((topic, number))  # A fetch has ended it.
    return open_ones


def _ended(message: Message) -> TopicPartition | None:
    """The partition that an event ends; None: it is about none, such as the group."""
    topic, number = message.topic(), message.partition()
    return None if topic is None or number is None else (topic, number)


def _answer(message: Message) -> EpochAnswer | None:
    """What the event that ends a partition says of its epoch; None: a fetch has ended it."""
    error = message.error()
    words = None if error is None else _ANSWER.search(error.str())
    if words is None:
        return None
    end_offset, epoch = int(words["end"]), int(words["epoch"])
    if end_offset < 0 or epoch < 0:
        return UnknownEpoch()
    return EpochEnd(epoch=epoch, end_offset=end_offset)
