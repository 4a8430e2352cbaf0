"""Fills a topic with all that compaction has to tell apart; a seed always writes the same records.

Transactions of several producers that overlap and are committed or aborted, between records of
none; tombstones; headers; every codec; timestamps that do not ascend. Only the timestamps, and the
ids of producers, differ from run to run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from tests.brokers.broker import BrokerFailed
from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import CALL_S, Topic

SEGMENT_BYTES: Final = 1 << 20
"""The smallest `segment.bytes` that brokers take."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_DAY_MS: Final = 86_400_000
_JITTER_MS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """How much is written, and of what kind."""

    seed: int
    records: int = 1_500
    keys: int = 200
    prefix: bytes = b""
    """All keys begin with it."""
    value_bytes: tuple[int, int] = (100, 5_000)
    tombstones: float = 0.05
    """Their share of the records."""
    transactional: int = 3
    """How many producers write transactions."""
    aborts: float = 0.4
    """The share of transactions that are aborted."""


@dataclass(slots=True)
class _Writer:
    producer: Producer
    is_transactional: bool = False
    is_open: bool = False
    errors: list[KafkaError] = field(default_factory=list)


def create_filled(kafka: KafkaCluster, name: str, filling: Filling, **settings: str) -> Topic:
    """A new topic with segments of 1 MiB, filled, and not yet tiered to its end."""
    sizes = {"segment_bytes": str(SEGMENT_BYTES), "segment_ms": str(7 * _DAY_MS)}
    topic = kafka.create(name, **sizes, **settings)
    fill(kafka, topic, filling)
    return topic


def fill(kafka: KafkaCluster, topic: Topic, filling: Filling) -> None:
    """Write records to partition 0; no transaction is left open."""
    drawn = random.Random(f"{topic.name} {filling}")
    with _writers(kafka, topic, filling) as writers:
        left = filling.records
        while left > 0:
            writer = drawn.choice(writers)
            count = min(left, drawn.randint(1, 60))
            if writer.is_transactional and not writer.is_open:
                writer.producer.begin_transaction()
                writer.is_open = True
            _send(writer, topic, filling, count, drawn)
            left -= count
            if writer.is_open and drawn.random() < 0.5:
                _end(writer, filling, drawn)
        for writer in writers:
            if writer.is_open:
                _end(writer, filling, drawn)


@contextmanager
def _writers(kafka: KafkaCluster, topic: Topic, filling: Filling) -> Iterator[list[_Writer]]:
    """An idempotent producer for each codec, and the transactional ones."""
    found = []
    for number, codec in enumerate(CODECS):
        more: dict[str, Any] = {"compression_type": codec, "batch_num_messages": 7 + 4 * number}
        found.append(_Writer(Producer(kafka.client_settings(enable_idempotence=True, **more))))
    for number in range(filling.transactional):
        more = {"compression_type": CODECS[number % len(CODECS)], "batch_num_messages": 10}
        writes_as = f"{topic.name}-{filling.seed}-{number}"
        settings = kafka.client_settings(transactional_id=writes_as, **more)
        found.append(_Writer(Producer(settings), is_transactional=True))
        found[-1].producer.init_transactions(CALL_S)
    with ExitStack() as closed:
        for writer in found:
            closed.callback(writer.producer.close)
        yield found


def _send(
    writer: _Writer, topic: Topic, filling: Filling, count: int, drawn: random.Random
) -> None:
    """Write records, and wait until they are written: so they have the same offsets in each run."""
    for _ in range(count):
        is_tombstone = drawn.random() < filling.tombstones
        size = drawn.randint(*filling.value_bytes)
        value = b"" if is_tombstone else drawn.randbytes(size // 2).hex().encode()
        headers = [("h", drawn.choice((None, b"", b"header")))] * drawn.randint(0, 2)
        writer.producer.produce(
            topic.name,
            key=b"%skey-%d" % (filling.prefix, drawn.randrange(filling.keys)),
            value=None if is_tombstone else value,
            headers=headers,
            partition=0,
            timestamp=time.time_ns() // 1_000_000 - drawn.randint(0, _JITTER_MS),
            on_delivery=lambda error, _: writer.errors.append(error) if error else None,
        )
    if writer.producer.flush(CALL_S) or writer.errors:
        raise BrokerFailed(f"{topic.name}: not all records were written: {writer.errors[:3]}")


def _end(writer: _Writer, filling: Filling, drawn: random.Random) -> None:
    is_aborted = drawn.random() < filling.aborts
    ended = writer.producer.abort_transaction if is_aborted else writer.producer.commit_transaction
    ended(CALL_S)
    writer.is_open = False
