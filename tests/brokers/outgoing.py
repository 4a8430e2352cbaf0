"""Batches for the door of events, and a topic that no broker reads to send them to."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from tests.brokers.cluster import METADATA_PARTITIONS, KafkaCluster
from tests.brokers.topics import Topic
from tests.compaction.builders import KEY, a_segment
from tests.compaction.looks import a_look, a_row, replacement, whole
from tests.storage.brokers.secured import client
from tierfold.compaction.brokers.cluster_facts import MetadataTopic
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.replacements import started_event
from tierfold.storage.brokers import event_door, send_refusals
from tierfold.storage.brokers.connection import connected
from tierfold.storage.brokers.event_door import (
    EventDoor,
    LookTime,
    OutgoingBatch,
    RefusedByBrokers,
    SendOutcome,
    Sent,
)
from tierfold.storage.clock import boot_s, now_ms
from tierfold.storage.kafka.batch_headers import BatchHeads, read_heads

TIMEOUT_MS: Final = 20_000
KEYS: Final = [replace(KEY, partition=number) for number in range(12)]
PLACES: Final = [metadata_partition(key, METADATA_PARTITIONS) for key in KEYS]
SAME_PLACE: Final = PLACES.index(PLACES[0], 1)
"""A partition whose events are where those of the first one are."""

_R: Final = replacement("R", 0, 19)
_UPLOADS: Final = (a_segment(0, 9), a_segment(10, 19))


@contextmanager
def opened(
    servers: str,
    login: Mapping[str, str] | None = None,
    *,
    partitions: int = METADATA_PARTITIONS,
    message_timeout_ms: int = TIMEOUT_MS,
    events_per_second_max: int | None = None,
) -> Iterator[EventDoor]:
    """A door to the metadata topic, or to the test's own."""
    with connected(client(servers, login or {})) as connection:
        yield EventDoor(
            connection,
            MetadataTopic(topic_id="", partitions=partitions),
            message_timeout_ms=message_timeout_ms,
            events_per_second_max=events_per_second_max,
        )


def stand_in_topic(kafka: KafkaCluster, patch: pytest.MonkeyPatch) -> Topic:
    """A topic with the settings of the metadata topic, which the door takes for that."""
    name = f"metadata-{uuid.uuid4()}"
    patch.setattr(event_door, "METADATA_TOPIC", name)
    patch.setattr(send_refusals, "METADATA_TOPIC", name)
    return kafka.create(
        name,
        METADATA_PARTITIONS,
        remote_storage_enable="false",
        message_timestamp_before_max_ms="1800000",
        max_message_bytes="1048588",
    )


def a_start(number: int) -> tuple[Look, Event]:
    """A look at a partition of `KEYS`, and the event of its first send."""
    look = a_look(a_row([_R], _UPLOADS), whole(*_UPLOADS), now_ms=now_ms())
    look = replace(look, row=replace(look.row, key=KEYS[number]))
    return look, started_event(KEYS[number], _R, look.now_ms)


def now() -> LookTime:
    """The time of a look that was just taken."""
    return LookTime(at_ms=now_ms(), at_boot_s=boot_s())


def a_batch(number: int = 0, count: int = 3, **fields: Any) -> OutgoingBatch:
    """The first send of a partition of `KEYS`, repeated, as Kafka and the check allow it."""
    look, event = a_start(number)
    return OutgoingBatch(**{"look": look, "taken": now(), "events": (event,) * count, **fields})


def on_disk(kafka: KafkaCluster, topic: Topic, number: int) -> BatchHeads:
    """The record batches of a partition, in the log of its broker."""
    logs = sorted((kafka.brokers[0].data / f"{topic.name}-{number}").glob("*.log"))
    data = b"".join(log.read_bytes() for log in logs)
    return read_heads(np.frombuffer(data, np.uint8), where=topic.name)


def sizes(kafka: KafkaCluster, topic: Topic) -> dict[int, list[int]]:
    """By partition, how many records each of its record batches has."""
    found = {number: on_disk(kafka, topic, number) for number in range(topic.partitions)}
    return {number: heads.count.tolist() for number, heads in found.items() if len(heads)}


def only(outcomes: list[SendOutcome]) -> SendOutcome:
    """The outcome of a call with one batch."""
    (outcome,) = outcomes
    return outcome


def refused(door: EventDoor, batch: OutgoingBatch) -> TierfoldError:
    """Why brokers refuse a batch."""
    outcome = only(door.send([batch]))
    assert isinstance(outcome, RefusedByBrokers), outcome
    return outcome.error


def refused_soon(
    door: EventDoor, what: str, batch: Callable[[], OutgoingBatch] | None = None
) -> TierfoldError:
    """Why brokers refuse a batch, once a changed setting has reached them."""
    deadline = time.monotonic() + 10
    while isinstance(outcome := only(door.send([(batch or a_batch)()])), Sent):
        assert time.monotonic() < deadline
    assert isinstance(outcome, RefusedByBrokers), outcome
    assert what in outcome.error.what
    return outcome.error


def sent_soon(door: EventDoor) -> None:
    """Send a batch, once a changed setting has reached the brokers."""
    deadline = time.monotonic() + 10
    while not isinstance(outcome := only(door.send([a_batch()])), Sent):
        assert time.monotonic() < deadline, outcome
