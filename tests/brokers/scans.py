"""Consumers that read a topic from its start to its end, again and again, while something is done.

    with scanning(kafka, topic) as scans:
        …
    assert scans.problems() == []
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeAlias

from tests.brokers.cluster import KafkaCluster
from tests.brokers.consumer_reads import (
    Isolation,
    JavaReader,
    LibrdkafkaReader,
    ReadBack,
    Reader,
    SeenRecord,
)
from tests.brokers.topics import Topic
from tests.oracle.kafka_lab import KafkaLab

LatestValues: TypeAlias = frozenset[tuple[str, str]]
"""Keys, and the checksums of their latest values, of those that are not deleted."""

_SHOWN: Final = 5


class Scans:
    """What the scans of a block saw; complete once the block has ended."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._errors: Counter[str] = Counter()
        self._views: dict[Isolation, set[LatestValues]] = {one: set() for one in Isolation}
        self.count = 0
        """So many scans came to the end of the log."""
        self.overtaken = 0
        """So many ended early because the log start had moved past them."""

    def add(self, who: str, isolation: Isolation, seen: ReadBack) -> None:
        """Note a scan."""
        view = latest_values(seen.records, self._prefix)
        with self._lock:
            if seen.stopped is None:
                self.count += 1
                self._views[isolation].add(view)
            else:
                self._errors[f"{who}, {isolation}: {seen.stopped}"] += 1

    def problems(self) -> list[str]:
        """All errors, and where scans saw different latest values; empty: neither."""
        found = [f"{count} scans ended early: {error}" for error, count in self._errors.items()]
        for isolation, views in self._views.items():
            if len(views) > 1:
                differing = frozenset.union(*views) - frozenset.intersection(*views)
                keys = sorted({bytes.fromhex(key) for key, _ in differing})
                found.append(
                    f"{isolation}: scans saw {len(views)} different sets of latest values,"
                    f" which differ in {len(keys)} keys: {keys[:_SHOWN]}"
                )
        return found


def latest_values(records: Iterable[SeenRecord], prefix: bytes = b"") -> LatestValues:
    """The latest values of the keys that begin with `prefix`."""
    known = {record.key: record.value_crc32 for record in records}
    return frozenset(
        (key, crc32)
        for key, crc32 in known.items()
        if key is not None and crc32 is not None and key.startswith(prefix.hex())
    )


@contextmanager
def scanning(
    kafka: KafkaCluster,
    topic: Topic,
    *,
    lab: KafkaLab | None = None,
    isolations: Sequence[Isolation] = tuple(Isolation),
    prefix: bytes = b"",
) -> Iterator[Scans]:
    """Scan a topic meanwhile, by a thread per isolation level.

    Each thread ends a scan before the block begins, and begins one after it has ended.

    `lab`: Java's consumer scans in this JVM, too, which nothing else may use meanwhile.
    `isolations`: leave READ_UNCOMMITTED out where transactions were aborted: what they wrote hides
    older records until it is compacted. `prefix`: only keys that begin with it are compared, so
    that others may be written.
    """
    scans, ended = Scans(prefix), threading.Event()
    readers: list[tuple[Reader, Sequence[Isolation]]] = [
        (LibrdkafkaReader(kafka), (isolation,)) for isolation in isolations
    ]
    if lab is not None:
        readers.append((JavaReader(kafka, lab), isolations))
    scanners = [_Scanner(topic, scans, reader, levels) for reader, levels in readers]
    with ThreadPoolExecutor(len(scanners)) as pool:
        running = [pool.submit(scanner.scan_until, ended) for scanner in scanners]
        try:
            for scanner in scanners:
                scanner.has_scanned.wait()
            yield scans
        finally:
            ended.set()
    for future in running:
        future.result()


class _Scanner:
    """Scans with one kind of consumer."""

    def __init__(
        self, topic: Topic, scans: Scans, reader: Reader, isolations: Sequence[Isolation]
    ) -> None:
        self._topic, self._scans = topic, scans
        self._reader, self._isolations = reader, isolations
        self.has_scanned = threading.Event()

    def scan_until(self, ended: threading.Event) -> None:
        """Scan until a block has ended, and once more."""
        try:
            while not ended.is_set():
                self._scan()
                self.has_scanned.set()
            self._scan()
        finally:
            self.has_scanned.set()

    def _scan(self) -> None:
        (start, _) = self._topic.offsets()
        for isolation in self._isolations:
            (seen,) = self._reader.read(self._topic, [start], isolation)
            position = seen.records[-1].offset + 1 if seen.records else start
            if seen.stopped is not None and position < self._topic.offsets()[0]:
                self._scans.overtaken += 1
            else:
                self._scans.add(self._reader.name, isolation, seen)
