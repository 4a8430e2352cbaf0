"""`compact,delete` under load: producers and consumers go on while log and log start move.

    a writer   new keys, each once, and steady keys again and again, with the times of the clock
    the loop   `compact --publish`, then `vacuum --publish`, with a retention of a minute
    each time  every record that is younger than the retention is read; none is read that is older
               than retention, a tenth of it, what an upload spans, and the time since the vacuum
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Producer

from tests.brokers.cluster import KafkaCluster
from tests.brokers.consumer_reads import Isolation
from tests.brokers.scans import scanning
from tests.brokers.served_soak.other_producers import producing
from tests.brokers.served_soak.stage import Soaked, Stage, brief
from tests.brokers.topics import CALL_S, Topic
from tests.jobs.commands import Ran, tierfold

RETENTION_MS: Final = 60_000
SEGMENT_MS: Final = 4_000
"""How long brokers write to a segment."""
SPAN_MS: Final = 3 * SEGMENT_MS
"""What the records of an upload span at most, on a machine that is busy."""
KEPT: Final = (
    *("--set", "cleanup.policy=compact,delete"),
    *("--set", f"retention.ms={RETENTION_MS}"),
)
_APART_S: Final = 0.2
_DONE: Final = frozenset({"vacuumed", "nothing_to_do"})


@dataclass(slots=True)
class Aged:
    """Keys that were written once each, with their times."""

    written_ms: dict[bytes, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def living(self, at_ms: int) -> set[bytes]:
        """The keys whose records are younger than the retention at that time."""
        since_ms = at_ms - RETENTION_MS
        return {key for key, one_ms in self.written_ms.copy().items() if one_ms > since_ms}

    def expired(self, at_ms: int) -> set[bytes]:
        """The keys that must be gone after a vacuum which began at that time."""
        oldest_ms = at_ms - RETENTION_MS - RETENTION_MS // 10 - SPAN_MS
        return {key for key, one_ms in self.written_ms.copy().items() if one_ms < oldest_ms}


def both_policies_under_load(stage: Stage) -> None:
    """No current record is lost, nothing older than retention and the stated delays is left."""
    # With less, brokers roll all the time, and each segment is a fetch of its own.
    lengths = {"segment_ms": str(SEGMENT_MS), "local_retention_ms": str(SEGMENT_MS)}
    topic = stage.kafka.create("both-policies", **lengths)
    soaked, ends_s = stage.soaked(topic), time.monotonic() + 60 * stage.minutes
    starts, seen_gone, passes = set[int](), 0, 0
    committed = [Isolation.READ_COMMITTED]
    with _aging(stage.kafka, topic) as aged, producing(stage.kafka, topic) as others:
        stage.kafka.wait(lambda: len(topic.logs()) > 2, "the first uploads")
        with scanning(stage.kafka, topic, isolations=committed, prefix=b"steady-") as scans:
            while time.monotonic() < ends_s:
                _compact(stage, soaked)
                began_ms = _now_ms()
                outcome = _vacuum(stage, topic)
                gone = aged.expired(began_ms) if outcome in _DONE else set()
                written = aged.living(_now_ms())
                read = {record.key for record in topic.read()}
                lost = written & aged.living(_now_ms()) - read
                assert not lost, f"{len(lost)} living keys are lost: {sorted(lost)[:5]}"
                left = gone & read
                assert not left, f"{len(left)} expired keys are left: {sorted(left)[:5]}"
                starts.add(topic.offsets()[0])
                seen_gone, passes = max(seen_gone, len(gone)), passes + 1
    problems = [*scans.problems(), *aged.errors, *others.errors]
    assert not problems, problems
    assert len(starts) > 1, "the log start never moved"
    stage.say(
        f"{passes} passes, the log start moved {len(starts) - 1} times, {scans.count} scans"
        f" and {scans.overtaken} that it overtook, {len(aged.written_ms)} keys written, of which"
        f" {seen_gone} expired"
    )


def _compact(stage: Stage, soaked: Soaked) -> None:
    ran = stage.compact(soaked, *KEPT)
    assert ran.stdout, brief(ran)
    (entry,) = (one for one in ran.entries if one["topic_id"] == soaked.topic.id)
    assert entry["outcome"] not in {"refused", "failed"}, brief(ran)


def _vacuum(stage: Stage, topic: Topic) -> str:
    words = ("--topic", topic.name, "--bootstrap-server", stage.kafka.servers, "--publish")
    ran: Ran = tierfold("vacuum", str(stage.kafka.tier), *words, *KEPT, "--json")
    assert ran.stdout, brief(ran)
    (entry,) = (one for one in ran.entries if one["topic_id"] == topic.id)
    assert entry["outcome"] not in {"refused", "failed"}, brief(ran)
    return str(entry["outcome"])


@contextmanager
def _aging(kafka: KafkaCluster, topic: Topic) -> Iterator[Aged]:
    """Write new keys, and steady ones with the same values, until the block ends."""
    aged, ended = Aged(), threading.Event()
    producer = Producer(kafka.client_settings(enable_idempotence=True))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(_write, producer, topic, aged, ended)
        try:
            yield aged
        finally:
            ended.set()
    running.result()


def _write(producer: Producer, topic: Topic, aged: Aged, ended: threading.Event) -> None:
    number = 0
    while not ended.wait(_APART_S):
        at_ms, new = _now_ms(), [b"once-%d" % (number + one) for one in range(10)]
        steady = [(b"steady-%d" % key, b"value %d" % key) for key in range(50)]
        for key, value in [(key, b"x" * 100) for key in new] + (steady if number % 50 == 0 else []):
            producer.produce(
                topic.name,
                key=key,
                value=value,
                partition=0,
                timestamp=at_ms,
                on_delivery=lambda error, _: aged.errors.append(str(error)) if error else None,
            )
        if producer.flush(CALL_S):
            aged.errors.append("not all records were written in time")
        aged.written_ms |= dict.fromkeys(new, at_ms)
        number += len(new)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


