"""An idempotent and a transactional producer that write to a topic meanwhile."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Producer

from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import CALL_S, Topic

_BATCH: Final = 20
_APART_S: Final = 0.3


@dataclass(slots=True)
class Written:
    """What the producers of a block wrote."""

    count: int = 0
    errors: list[str] = field(default_factory=list)
    """Of records that were not written, and of transactions that could not end."""


@contextmanager
def producing(kafka: KafkaCluster, topic: Topic) -> Iterator[Written]:
    """Write keys that begin with `other-` until the block ends; each third transaction aborts."""
    written, ended = Written(), threading.Event()
    transactional = kafka.client_settings(transactional_id=f"{topic.name}-meanwhile")
    producers = [Producer(kafka.client_settings(enable_idempotence=True)), Producer(transactional)]
    producers[1].init_transactions(CALL_S)
    with ThreadPoolExecutor(len(producers)) as pool:
        running = [
            pool.submit(_write, producer, is_transactional, topic, written, ended)
            for producer, is_transactional in zip(producers, (False, True), strict=True)
        ]
        try:
            yield written
        finally:
            ended.set()
    for future in running:
        future.result()


def _write(
    producer: Producer,
    is_transactional: bool,
    topic: Topic,
    written: Written,
    ended: threading.Event,
) -> None:
    for number in itertools.count():
        if ended.is_set():
            return
        if is_transactional:
            producer.begin_transaction()
        for key in range(_BATCH):
            producer.produce(
                topic.name,
                key=b"other-%d" % key,
                value=b"%d" % number,
                partition=0,
                on_delivery=lambda error, _: written.errors.append(str(error)) if error else None,
            )
        if producer.flush(CALL_S):
            written.errors.append("not all records were written in time")
        if is_transactional and number % 3 == 2:
            producer.abort_transaction(CALL_S)
        elif is_transactional:
            producer.commit_transaction(CALL_S)
        written.count += _BATCH
        ended.wait(_APART_S)
