"""Brokers' metadata is read, folded and written as Kafka's own serde and cache do.

`TIERFOLD_METADATA_SEEDS=0:10000` folds that many random topics, and reads that many times 15
malformed values.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from tests.compaction.broker_events import drawn_topic
from tests.faults.malformed.malformed_metadata_parsers import malformed_value
from tests.oracle.fuzz_run import seeds_of
from tests.oracle.metadata_answers import Answer, event_answer, taken, unequal_to_cache
from tests.oracle.oracles import Oracles
from tierfold.compaction.brokers.event_bytes import decode, encode
from tierfold.compaction.brokers.events import Effect, Event, NoEvent
from tierfold.compaction.brokers.metadata_partitions import metadata_partition
from tierfold.compaction.brokers.partition_fold import Taken
from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS
from tierfold.compaction.model.segments import PartitionKey

SEEDS: Final = seeds_of("TIERFOLD_METADATA_SEEDS", "0:200")
SEEDS_PER_CALL: Final = 250
MALFORMED_PER_SEED: Final = 15

each_version = pytest.mark.parametrize("version", KAFKA_VERSIONS)


def parts(seeds: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The seeds, as many at a time as one call takes."""
    for first in range(0, len(seeds), SEEDS_PER_CALL):
        yield seeds[first : first + SEEDS_PER_CALL]


def drawn_values(seed: int) -> list[bytes]:
    """The values of a random topic's records."""
    return [encode(event) for event in drawn_topic(Random(seed))]


def malformed_values(seed: int) -> list[bytes]:
    """Values with a few changes each."""
    rng = Random(f"metadata {seed}")
    return [malformed_value(rng) for _ in range(MALFORMED_PER_SEED)]


@each_version
def test_random_topics_are_folded_as_kafkas_cache_does(oracles: Oracles, version: str) -> None:
    outcomes: Counter[str] = Counter()
    for seeds in parts(SEEDS):
        topics = [drawn_values(seed) for seed in seeds]
        assert unequal_to_cache(oracles.labs[version], topics) == [], f"seeds from {seeds[0]}"
        outcomes.update(effect for values in topics for effect in taken(values))
    # The topics reach every outcome.
    assert min(outcomes[outcome] for outcome in Taken) > 50


@each_version
def test_values_are_read_and_written_as_kafkas_serde_does(oracles: Oracles, version: str) -> None:
    effects: Counter[str] = Counter()
    for seeds in parts(SEEDS):
        values = [value for seed in seeds for value in drawn_values(seed)]
        values += [value for seed in seeds for value in malformed_values(seed)]
        answers = oracles.labs[version].metadata_events(values)
        for value, answer in zip(values, answers, strict=True):
            event = decode(value)
            effects[event.effect if isinstance(event, NoEvent) else "event"] += 1
            assert differences(event, answer, version) == "", value.hex()
    assert min(effects[name] for name in ("event", *Effect)) > 10


def differences(event: Event | NoEvent, answer: Answer | None, version: str) -> str:
    """How what we read differs from what Kafka reads; empty: not at all."""
    if not isinstance(event, NoEvent):
        return "" if event_answer(event) == answer else f"{event_answer(event)}\n{answer}"
    match event.effect:
        case Effect.IGNORED:
            return "" if answer is not None else "Kafka refuses what it should skip"
        case Effect.STOPS_BROKERS:
            is_stopped = answer is None or answer["state"] != 0
            # Kafka before 4.4 takes a negative number of tagged fields for none.
            is_older = version == "4.3.0" and "tagged fields" in event.why
            return "" if is_stopped or is_older else f"Kafka reads {answer}"
        case Effect.UNKNOWN:
            return ""


def test_events_go_to_the_metadata_partition_that_kafka_chooses(oracles: Oracles) -> None:
    rng = Random(52)
    asked = [
        (
            urlsafe_b64encode(rng.randbytes(16))[:22].decode(),
            rng.choice((0, 1, 7, 2**31 - 1)),
            rng.choice((1, 2, 50, 1000)),
        )
        for _ in range(500)
    ]
    ours = [
        metadata_partition(PartitionKey(topic="t", partition=partition, topic_id=topic_id), count)
        for topic_id, partition, count in asked
    ]
    assert oracles.lab.metadata_partitions(asked) == ours
