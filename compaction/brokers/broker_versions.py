"""Which version of Kafka brokers have at least: newer ones know names that older ones do not.

Brokers tell no client their version. They list all settings that they know, also those that
were never set, so a name that a version lists first proves that version or a later one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple


class KafkaVersion(NamedTuple):
    """A version of Kafka without its patch, which adds no settings."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST: Final = KafkaVersion(3, 8)
"""The first that reads across holes between remote segments (KAFKA-15388)."""

_CAME_WITH: Final = {
    "compression.zstd.level": OLDEST,
    "remote.log.manager.copier.thread.pool.size": KafkaVersion(3, 9),
    "remote.list.offsets.request.timeout.ms": KafkaVersion(4, 0),
    "group.streams.session.timeout.ms": KafkaVersion(4, 1),
    "remote.log.manager.follower.thread.pool.size": KafkaVersion(4, 2),
    "follower.fetch.last.tiered.offset.enable": KafkaVersion(4, 3),
    "max.decompressed.message.bytes": KafkaVersion(4, 4),
}
"""By a broker's setting: the first version that lists it. No later one has dropped it so far."""


class AtLeast(NamedTuple):
    """A lower bound of a broker's version, and the setting that proves it."""

    version: KafkaVersion
    name: str


def kafka_version(text: str) -> KafkaVersion:
    """Parse `4.4` or `4.4.0`; raises ValueError."""
    numbers = text.split(".")
    if len(numbers) not in {2, 3} or not all(one.isascii() and one.isdigit() for one in numbers):
        raise ValueError(text)
    return KafkaVersion(int(numbers[0]), int(numbers[1]))


def at_least(names: Collection[str]) -> AtLeast | None:
    """The newest version that the names of a broker's settings prove; None: older than 3.8."""
    found = [AtLeast(version, name) for name, version in _CAME_WITH.items() if name in names]
    return max(found, default=None)
