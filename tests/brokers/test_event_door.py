"""What passes the door is one record batch on disk, or nothing at all.

Only one test writes to the metadata topic itself, and of a topic that brokers do not have. The
others write to a topic that no broker reads, with the same settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from confluent_kafka import Producer

from tests.brokers.cluster import KafkaCluster
from tests.brokers.outgoing import (
    KEYS,
    PLACES,
    SAME_PLACE,
    TIMEOUT_MS,
    a_batch,
    a_start,
    now,
    on_disk,
    only,
    opened,
    sizes,
    stand_in_topic,
)
from tests.brokers.topics import Topic
from tests.compaction.looks import LIMITS
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.publishing.batches import fitting
from tierfold.compaction.publishing.event_check import EventRule
from tierfold.compaction.publishing.look import BATCH_BYTES_MAX
from tierfold.storage import clock
from tierfold.storage.brokers import event_door
from tierfold.storage.brokers.event_door import (
    EventDoor,
    Forbidden,
    LookTime,
    Sent,
    TooLate,
    Unanswered,
)


@pytest.fixture
def door(kafka: KafkaCluster) -> Iterator[EventDoor]:
    with opened(kafka.servers) as door:
        yield door


@pytest.fixture
def stand_in(kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Topic:
    return stand_in_topic(kafka, monkeypatch)


def test_each_batch_is_one_record_batch_of_the_metadata_topic(
    kafka: KafkaCluster, door: EventDoor
) -> None:
    batches = [a_batch(number, number + 1) for number in range(len(KEYS))]
    assert max(map(PLACES.count, PLACES)) > 2
    for outcome, batch, place in zip(door.send(batches), batches, PLACES, strict=True):
        assert isinstance(outcome, Sent), outcome
        count = len(batch.events)
        assert outcome.metadata_partition == place
        assert outcome.last_offset == outcome.first_offset + count - 1
        heads = on_disk(kafka, kafka.metadata, place)
        (at,) = np.flatnonzero(heads.base_offset == outcome.first_offset)
        assert (heads.last_offset[at], heads.count[at]) == (outcome.last_offset, count)
        assert (heads.codec[at], heads.is_transactional[at]) == (0, False)
        assert (heads.producer_id >= 0)[at]
        records = kafka.metadata.read(outcome.first_offset, place)[:count]
        assert {(one.key, one.value) for one in records} == {(None, encode(batch.events[0]))}


def test_the_largest_batch_is_not_split_and_another_is_not_added_to_it(
    kafka: KafkaCluster, stand_in: Topic, door: EventDoor
) -> None:
    look, event = a_start(0)
    largest = fitting((event,) * 9000, BATCH_BYTES_MAX)
    assert 4000 < len(largest) < 9000
    batches = [a_batch(events=largest), a_batch(SAME_PLACE)]
    assert all(isinstance(one, Sent) for one in door.send(batches))
    assert isinstance(only(door.send([a_batch(count=1)])), Sent)
    assert sizes(kafka, stand_in) == {PLACES[0]: [len(largest), 3, 1]}

    limits = replace(LIMITS, batch_bytes_max=500)
    small = a_batch(look=replace(look, limits=limits), count=9)
    outcome = only(door.send([small]))
    assert isinstance(outcome, Forbidden)
    assert outcome.forbidden.rule is EventRule.BATCH


def test_what_the_check_forbids_or_is_too_late_holds_back_no_other(
    kafka: KafkaCluster, stand_in: Topic, door: EventDoor
) -> None:
    begun, ms = now(), TIMEOUT_MS
    late = {
        1: replace(begun, at_ms=begun.at_ms - ms - 1),
        2: replace(begun, at_boot_s=begun.at_boot_s - ms / 1000 - 1),
        3: replace(begun, at_ms=begun.at_ms + 60_000),
        4: replace(begun, at_boot_s=begun.at_boot_s + 60),
    }
    batches = [
        a_batch(0, events=(a_start(0)[1]._replace(broker_id=1),)),
        *(a_batch(number, taken=taken) for number, taken in late.items()),
        a_batch(5, taken=replace(begun, at_ms=begun.at_ms - ms // 2)),
    ]
    forbidden, *all_late, sent = door.send(batches)
    assert isinstance(forbidden, Forbidden)
    assert forbidden.forbidden.rule is EventRule.BROKER
    whys = [one.why for one in all_late if isinstance(one, TooLate)]
    assert len(whys) == len(late)
    assert all("ms old, more than the 20000 ms of message.timeout.ms" in why for why in whys[:2])
    assert all("clock went back" in why for why in whys[2:])
    assert isinstance(sent, Sent)
    assert sizes(kafka, stand_in) == {PLACES[5]: [3]}


def test_two_batches_of_a_partition_are_not_taken_together(
    kafka: KafkaCluster, stand_in: Topic, door: EventDoor
) -> None:
    with pytest.raises(ValueError, match="read back before the next"):
        door.send([a_batch(), a_batch()])
    assert sizes(kafka, stand_in) == {}


def clock_after(monkeypatch: pytest.MonkeyPatch, readings: int, later_s: float) -> None:
    """Let the boot clock jump once it was read so many times."""
    left = iter(range(readings))

    def clock_gettime(which: int) -> float:
        return time.clock_gettime(which) + (later_s if next(left, None) is None else 0)

    machine = SimpleNamespace(
        clock_gettime=clock_gettime,
        time_ns=time.time_ns,
        monotonic=time.monotonic,
        sleep=time.sleep,
    )
    monkeypatch.setattr(clock, "time", machine)


class Slow(Producer):
    """Takes its time after each batch, so that the machine may stand still then."""

    made: ClassVar[list[Producer]] = []

    def produce_batch(self, topic: str, messages: list[Any], **given: Any) -> int:
        Slow.made.append(self)
        count = super().produce_batch(topic, messages, **given)
        time.sleep(0.3)
        return count


def test_what_was_queued_before_the_machine_stood_still_is_withdrawn(
    kafka: KafkaCluster, stand_in: Topic, door: EventDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [a_batch(0), a_batch(1)]
    assert PLACES[0] != PLACES[1]
    monkeypatch.setattr(event_door, "Producer", Slow)
    assert isinstance(only(door.send([a_batch(1, 7)])), Sent)
    with monkeypatch.context() as patch:
        clock_after(patch, len(batches), TIMEOUT_MS / 1000)
        outcomes = door.send(batches)
    for outcome in outcomes:
        assert isinstance(outcome, Unanswered)
        assert outcome.why.startswith("while it was being sent, its look became ")
    assert Slow.made[-1].flush(10) == 0
    assert sizes(kafka, stand_in) == {PLACES[1]: [7]}


class Short(Producer):
    """Takes the first record, and no other."""

    def produce_batch(self, topic: str, messages: list[Any], **given: Any) -> int:
        count = super().produce_batch(topic, messages[:1], **given)
        return count + super().produce_batch(topic, messages[1:], **given | {"partition": 99})


class Apart(Producer):
    """Sends the last record after another producer's."""

    between: Callable[[], None]

    def produce_batch(self, topic: str, messages: list[Any], **given: Any) -> int:
        count = super().produce_batch(topic, messages[:-1], **given)
        self.flush()
        Apart.between()
        return count + super().produce_batch(topic, messages[-1:], **given)


def test_a_batch_that_is_not_queued_whole_is_withdrawn_with_those_beside_it(
    kafka: KafkaCluster, stand_in: Topic, door: EventDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(event_door, "Producer", Short)
        outcomes = door.send([a_batch(1, count=1), a_batch()])
    why = Unanswered("not all of its records could be queued (_UNKNOWN_PARTITION)")
    assert outcomes == [why, why]
    assert isinstance(only(door.send([a_batch()])), Sent)
    assert sizes(kafka, stand_in) == {PLACES[0]: [3]}


def test_records_apart_are_not_reported_as_sent(
    kafka: KafkaCluster, stand_in: Topic, door: EventDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Producer(kafka.client_settings())

    def between() -> None:
        other.produce(stand_in.name, b"other", partition=PLACES[0])
        other.flush(10)

    monkeypatch.setattr(Apart, "between", between, raising=False)
    monkeypatch.setattr(event_door, "Producer", Apart)
    outcome = only(door.send([a_batch()]))
    assert outcome == Unanswered("its records are not in a row at offsets 0 to 3")


def test_the_pace_counts_what_was_sent_and_only_that(kafka: KafkaCluster, stand_in: Topic) -> None:
    with opened(kafka.servers, events_per_second_max=50) as door:
        late = LookTime(at_ms=0, at_boot_s=0)
        assert isinstance(only(door.send([a_batch(taken=late, count=90)])), TooLate)
        assert door.wait_ms_for(50) == 0
        assert isinstance(only(door.send([a_batch(count=1)])), Sent)
        assert isinstance(only(door.send([a_batch(count=90)])), Sent)
        began_s, wait_ms = time.monotonic(), door.wait_ms_for(1)
        assert 100 < wait_ms <= 840
        assert isinstance(only(door.send([a_batch(1, count=1)])), Sent)
        assert time.monotonic() - began_s >= wait_ms / 1000
    assert sizes(kafka, stand_in) == {PLACES[0]: [1, 90], PLACES[1]: [1]}
