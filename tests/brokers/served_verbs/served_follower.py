"""A consumer that reads on, a few records after each step: swaps happen ahead of it and at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.brokers.cluster import KafkaCluster
from tests.brokers.served_verbs.served_model import Model, Violation, Written
from tests.brokers.topics import CALL_S
from tests.faults.publishing_kills.served_topic import reading

_ONE_BATCH: Final = {
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 100,
    # It stays open while verbs run, and would ask at the ends of the logs all the time.
    "fetch.wait.max.ms": 500,
}
"""It must not be ahead of what the machine takes from it."""
_POLL_S: Final = 0.1

_Place: TypeAlias = "tuple[str, int]"


class Follower:
    """A consumer of all topics, and the newest record of each key that it has read."""

    def __init__(self, kafka: KafkaCluster, models: Sequence[Model]) -> None:
        self._kafka = kafka
        self._models = {model.topic.name: model for model in models}
        self._next: dict[_Place, int] = {
            (name, number): 0
            for name, model in self._models.items()
            for number in range(model.topic.partitions)
        }
        self._latest: dict[tuple[str, int, bytes], Written] = {}
        self._consumer: Consumer | None = None

    def open(self) -> None:
        """Read on from where it was, or from the log start if that has passed it."""
        self.close()
        self._consumer = Consumer(reading(self._kafka) | _ONE_BATCH)
        for (name, number), offset in self._next.items():
            start = self._models[name].starts.get(number, 0)
            self._next[name, number] = max(offset, start)
        self._consumer.assign([TopicPartition(*place, at) for place, at in self._next.items()])

    def close(self) -> None:
        """Let nothing be read while brokers restart, or the log start moves."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def read(self, most: int) -> None:
        """Read so many records, or fewer if there are no more; Violation: an error, or a record
        that was not written.
        """
        for _, message in zip(range(most), self._messages(_POLL_S), strict=False):
            self._take(message)

    def catch_up(self) -> None:
        """Read to the ends; Violation if it lacks the newest value of a key."""
        self.open()  # Only then it gets the ends once more.
        left = set(self._next)
        for message in self._messages(CALL_S):
            if message.error() is None:
                self._take(message)
            else:
                left.discard((str(message.topic()), message.partition() or 0))
            if not left:
                break
        for name, model in self._models.items():
            for (partition, key), written in model.newest.items():
                read = self._latest.get((name, partition, key))
                if written.value is not None and read != written:
                    raise Violation(f"who read on has {read} of {name}-{partition}, not {written}")

    def _messages(self, poll_s: float) -> Iterator[Message]:
        """Records and ends."""
        assert self._consumer is not None
        while (message := self._consumer.poll(poll_s)) is not None:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise Violation(f"who read on got {error} at {self._next}")
            yield message

    def _take(self, message: Message) -> None:
        if message.error() is not None:
            return
        name, number = str(message.topic()), message.partition() or 0
        record = self._models[name].checked(message)
        self._next[name, number] = record.offset + 1
        one = (name, number, record.key)
        self._latest[one] = max(record, self._latest.get(one, record))
