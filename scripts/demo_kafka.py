"""Compacts a topic of a real Kafka broker while a consumer reads it: `make demo-kafka`.

    python -m scripts.demo_kafka build/demo-kafka

The first run fetches the broker's jars (50 MB, from Maven Central). The broker listens on loopback,
and ends with the demo; the tier and the broker's log stay in the folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

from tests.brokers.broker import BrokerFailed
from tests.brokers.cluster import KafkaCluster
from tests.brokers.topics import Topic
from tests.brokers.versions import WITHOUT_COMPILER
from tests.oracle.kafka_jars import KafkaLabError, has_jars
from tierfold.compaction.model.wording import counted, spaced

_TOPIC: Final = "orders"
_SEGMENTS: Final = 5
_RECORDS: Final = 4_000
_KEYS: Final = 1_000
_PAUSE_S: Final = 0.1
"""Of the consumer, between two scans."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Empty the folder first; the exit code is that of the first command that fails, or 1."""
    (folder,) = map(Path, sys.argv[1:] if arguments is None else arguments)
    shutil.rmtree(folder, ignore_errors=True)
    if not has_jars(WITHOUT_COMPILER):
        _say(f"Fetching the jars of Kafka {WITHOUT_COMPILER} from Maven Central, about a minute")
    try:
        with KafkaCluster(folder, WITHOUT_COMPILER) as kafka:
            return shown(kafka)
    except (KafkaLabError, BrokerFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def shown(kafka: KafkaCluster) -> int:
    """Fill a topic of the cluster and compact it; return 0 if readers then see the same values."""
    _say(f"A broker of Kafka {kafka.version} listens at {kafka.servers}.")
    _say(f"Its log is {kafka.brokers[0].log}")
    topic = kafka.create(_TOPIC)
    for turn in range(_SEGMENTS):
        numbers = range(turn * _RECORDS, (turn + 1) * _RECORDS)
        topic.append([(b"customer-%d" % (n % _KEYS), b"order %d" % n) for n in numbers])
    topic.wait_until_tiered()
    written, uploaded = spaced(_SEGMENTS * _RECORDS), len(topic.logs())
    _say(
        f"\nTopic {_TOPIC}: {written} records of {spaced(_KEYS)} keys, {uploaded} segments uploaded"
    )
    _say(f"The tier is in {kafka.tier}")
    _say("Topic and cluster are set up as docs/kafka.md says.")
    before = Scan.of(topic)

    brokers = ("--topic", _TOPIC, "--bootstrap-server", kafka.servers)
    publish = ("--set", "cleanup.policy=compact", *brokers, "--publish")
    if code := _run("plan", str(kafka.tier), *publish):
        return code
    with ThreadPoolExecutor(1) as pool:
        ended = Event()
        scans = pool.submit(_scans_until, ended, topic)
        try:
            code = _run("compact", str(kafka.tier), *publish, "--engine", "local")
        finally:
            ended.set()
    code = code or _run("status", str(kafka.tier), *brokers)
    return code or compared(before, scans.result(), Scan.of(topic))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a consumer got of a topic from its beginning to its end."""

    records: int
    bytes: int
    latest: Mapping[bytes | None, bytes | None]

    @classmethod
    def of(cls, topic: Topic) -> Scan:
        """Read the topic."""
        records = topic.read()
        return cls(
            records=len(records),
            bytes=sum(len(one.key or b"") + len(one.value or b"") for one in records),
            latest={record.key: record.value for record in records},
        )

    def __str__(self) -> str:
        keys = counted(len(self.latest), "key")
        return f"{counted(self.records, 'record')} of {keys}, {spaced(self.bytes)} bytes"


def compared(before: Scan, meanwhile: Sequence[Scan], after: Scan) -> int:
    """Say what a consumer got before, meanwhile and afterwards.

    Returns 0 if that was less in the end, and always had the same latest values; else 1.
    """
    _say(f"\nThe consumer read {before}.")
    _say(f"It reads now {after}.")
    times = counted(len(meanwhile), "time")
    _say(f"While tierfold worked, it read the topic from its beginning to its end {times}.")
    same = all(scan.latest == before.latest for scan in (*meanwhile, after))
    _say(f"The latest value of each key: {'always the same' if same else 'NOT ALWAYS THE SAME'}.")
    return 0 if same and after.bytes < before.bytes else 1


def _scans_until(ended: Event, topic: Topic) -> list[Scan]:
    """Read the topic again and again, at least once."""
    scans = [Scan.of(topic)]
    while not ended.wait(_PAUSE_S):
        scans.append(Scan.of(topic))
    return scans


def _run(*arguments: str) -> int:
    _say(f"\n$ tierfold {' '.join(arguments)}")
    return subprocess.run(["tierfold", *arguments], check=False).returncode


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
