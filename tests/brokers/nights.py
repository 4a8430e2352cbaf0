"""An operator in front of a cluster with one topic that the page's first steps have compacted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.brokers.cluster import KafkaCluster
from tests.brokers.kafka_page import Operator, commands_of
from tests.brokers.topics import KeyValue, Topic
from tests.jobs.commands import told

UPLOADS: Final = 4


class Night(Operator):
    """Somebody who has opted in, for one topic of their cluster, and looks at no other one."""

    def __init__(self, kafka: KafkaCluster, folder: Path, topic: Topic) -> None:
        super().__init__(kafka, folder, topic.name)
        self.kafka, self.topic = kafka, topic
        self.opts_in()

    def runs(self, command: str, *more: str) -> str:
        """What a command of tierfold prints that succeeds, asked for the topic."""
        ran = self.types(command, "--topic", self.topic.name, *more)
        assert ran.code == 0, ran
        return self.on_the_page(ran.stdout)

    def fails(self, command: str, *words: str) -> None:
        """A command of tierfold refuses the topic, with these words."""
        ran = self.types(command, "--topic", self.topic.name)
        assert (ran.code, told(ran.stdout, *words)) == (3, []), ran

    def compact(self, *more: str) -> str:
        (command,) = commands_of("3. Opt in, and compact")
        return self.runs(command, *more)

    def is_refused(self, *words: str) -> None:
        """A plan refuses the topic, with these words."""
        _, plan, _ = commands_of("What can go wrong")
        self.fails(plan, *words)

    def is_well(self) -> None:
        """Nothing is refused, nothing is on its way, and consumers read what the tier has."""
        status, plan, verify = commands_of("What can go wrong")
        assert "open: " not in self.runs(status)
        for command in (plan, verify):
            self.runs(command)

    def adds(self, number: int) -> None:
        """Write another segment, and wait until it is tiered."""
        self.topic.append(records(number))
        self.topic.wait_until_tiered()

    def newest(self) -> dict[bytes | None, bytes | None]:
        """The newest value of each key, as a consumer reads them."""
        return {one.key: one.value for one in self.topic.read()}


def records(number: int) -> list[KeyValue]:
    """What one segment has: each key more than once."""
    return [(b"key-%d" % (n % 40), b"value %d" % (number + n)) for n in range(100)]


def uploaded(kafka: KafkaCluster, folder: Path, name: str) -> Night:
    """Four uploads of a new topic; nothing is compacted yet."""
    topic = kafka.create(name)
    for number in range(UPLOADS):
        topic.append(records(number))
    topic.wait_until_tiered()
    return Night(kafka, folder, topic)


def compacted(kafka: KafkaCluster, folder: Path, name: str) -> Night:
    """Four uploads, of which three are compacted to one; what was replaced is still there."""
    night = uploaded(kafka, folder, name)
    night.compact()
    assert len(night.topic.logs()) == UPLOADS + 1
    return night
