"""A canary reads as consumers do: it counts after a swap, and finds what differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation

from tests.brokers.access import PASSWORD, USER, Right, granted
from tests.brokers.cluster import KafkaCluster
from tests.brokers.published import row_of, send, swaps_of
from tests.brokers.topics import CALL_S
from tests.jobs.commands import ALWAYS, tierfold
from tests.storage.brokers.secured import client
from tierfold.compaction.model.errors import MissingRight
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import LocalRange
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.verification.canary import (
    Agreed,
    CanaryMode,
    CanaryResult,
    CanaryWindow,
    CannotRead,
    Counted,
    Difference,
    Differs,
    NotCounted,
    NotServed,
    Stale,
)
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.publishing import canary
from tierfold.jobs.publishing.canary import read_canary
from tierfold.storage.brokers import record_reader
from tierfold.storage.brokers.client_settings import ClientSettings
from tierfold.storage.brokers.connection import connected
from tierfold.storage.brokers.record_reader import GivenRecords, OutOfRange, WindowPart

KEYS: Final = 90
UPLOADS: Final = 3
END: Final = KEYS * UPLOADS + 2
RECORDS: Final = {
    # From the first offset, and from 64 and 32 below the end, where the marker is.
    CanaryMode.BORDERS: 64 + 63 + 31,
    CanaryMode.ALL: END - 1,
}
"""How many records of the uploads are read."""
TIMEOUT: Final = {"request.timeout.ms": "3000"}
LATER_MS: Final = 2 * 3_600_000


class Watched:
    """A topic that was compacted beside its brokers, and one more segment behind that."""

    def __init__(self, kafka: KafkaCluster, folder: Path, name: str) -> None:
        self.kafka, self.catalog = kafka, folder / "catalog"
        self.topic = kafka.create(name)
        for number in range(UPLOADS):
            self.topic.append(self._records(number))
        self._abort()
        self.topic.wait_until_tiered()
        words = (*ALWAYS, "--catalog", str(self.catalog), "--topic", name, "--engine", "local")
        ran = tierfold("compact", str(kafka.tier), *words)
        assert ran.code == 0, ran
        self.topic.append([(b"new", b"record")])
        row = row_of(self.catalog, self.topic)
        until_ms = row.committed_at_ms + LATER_MS // 2
        local = LocalRange(end_offset=row.next_offset - 1, until_ms=until_ms)
        self.row = replace(row, local_ranges=(local,), local_retention_ms=1)

    @staticmethod
    def _records(number: int) -> list[tuple[bytes | None, bytes | None]]:
        """The first and the last key are overwritten by each upload, the others stay."""
        keys = [b"first", *(b"%d-%d" % (number, n) for n in range(KEYS - 2)), b"last"]
        return [(key, b"%d" % number if number else b"") for key in keys]

    def _abort(self) -> None:
        """The log ends in a record that no reader of committed records gets, and its marker."""
        producer = Producer(self.kafka.client_settings(transactional_id=self.topic.name))
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.topic.name, b"aborted", b"key")
        producer.flush(30)
        producer.abort_transaction(30)
        self.kafka.wait(lambda: self.topic.offsets()[1] == END, "the marker")

    def swap(self) -> None:
        before = len(self.topic.read())
        for events in swaps_of(self.row):
            send(self.kafka, events)
        self.kafka.wait(lambda: len(self.topic.read()) < before, "the swap")

    def context(self, later_ms: int = 0) -> RunContext:
        context = run_context(str(self.kafka.tier), str(self.catalog))
        cluster = RunCluster(self.settings)
        cluster.look(context.progress)
        clock = context.clock
        return replace(context, cluster=cluster, clock=lambda: clock() + later_ms)

    @property
    def settings(self) -> ClientSettings:
        return client(self.kafka.servers, TIMEOUT)

    def read(
        self,
        row: PartitionState | None = None,
        mode: CanaryMode = CanaryMode.BORDERS,
        later_ms: int = 0,
        settings: ClientSettings | None = None,
    ) -> CanaryResult:
        with connected(settings or self.settings) as connection:
            return read_canary(self.context(later_ms), connection, row or self.row, 0, mode)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "CONFIRM_S", 0.0)


def of_sources(row: PartitionState) -> PartitionState:
    """The row as if what was replaced were live, and nothing retired."""
    return replace(row, segments=tuple(one.segment for one in row.retired), retired=())


def test_a_canary_counts_once_consumers_read_what_was_written(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(kafka, tmp_path, "watched")
    assert len(watched.row.segments) == 1
    originals = of_sources(watched.row)
    # Brokers have what was uploaded: on their disks, as far as the row knows.
    for mode, records in RECORDS.items():
        still_local = Agreed(records=records, why=NotCounted.STILL_LOCAL)
        assert watched.read(mode=mode) == still_local
        assert watched.read(mode=mode, later_ms=LATER_MS) == Stale(offset=0)
        assert watched.read(replace(watched.row, retired=()), mode, LATER_MS) == Differs(
            offset=0, difference=Difference.FOREIGN
        )
    watched.swap()
    found = watched.read(mode=CanaryMode.ALL)
    monkeypatch.setattr(record_reader, "CHUNK_RECORDS", 1)
    assert found == watched.read(mode=CanaryMode.ALL)
    # Of the first and the last key the latest, and the aborted record, is gone or not with both.
    assert isinstance(found, Counted)
    assert found.dropped == 2 * (UPLOADS - 1) + 1
    assert found.records == KEYS * UPLOADS + 1 - found.dropped
    borders = watched.read()
    assert isinstance(borders, Counted)
    for mode in RECORDS:
        assert watched.read(originals, mode) == Differs(offset=0, difference=Difference.MISSING)


def offsets_of(watched: Watched, start: int, end: int, most: int | None = None) -> list[int]:
    """What a reader gives of a window, without gaps between its parts."""
    window = CanaryWindow(span=OffsetSpan(start=start, end=end), records_max=most)
    given = parts_of(watched, window)
    spans = [part.span for part in given if isinstance(part, GivenRecords)]
    assert len(spans) == len(given)
    assert [span.start for span in spans] == [start, *(span.end for span in spans[:-1])]
    found = [
        int(offset)
        for part in given
        if isinstance(part, GivenRecords)
        for offset in part.records.offset
    ]
    assert spans[-1].end == (found[-1] + 1 if most is not None and len(found) == most else end)
    return found


def parts_of(watched: Watched, *windows: CanaryWindow) -> list[WindowPart]:
    with (
        connected(watched.settings) as connection,
        record_reader.record_reader(connection, watched.topic.name, 0) as reader,
    ):
        return [part for window in windows for part in reader.read(window)]


def test_windows_are_read_to_their_ends_also_within_holes(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    watched = Watched(kafka, tmp_path, "holes")
    watched.swap()
    there = [record.offset for record in watched.topic.read()]
    holes = sorted({*range(END)} - {*there})
    assert holes[0] == 0  # The first record was dropped.
    for start, end in ((0, 1), (0, 3), (holes[1], holes[1] + 1), (holes[1] - 2, holes[1] + 2)):
        assert offsets_of(watched, start, end) == [n for n in there if start <= n < end]
    # From here on there is nothing within the remote log, and one record behind it.
    assert offsets_of(watched, END - 1, END) == []
    assert offsets_of(watched, END, END + 1) == [END]
    assert offsets_of(watched, 0, END, most=5) == there[:5]
    whole = CanaryWindow(span=OffsetSpan(start=0, end=END), records_max=None)
    tail = CanaryWindow(span=OffsetSpan(start=END - 1, end=END), records_max=64)
    *_, last = parts_of(watched, whole, tail)
    assert isinstance(last, GivenRecords)
    assert (last.span, len(last.records)) == (tail.span, 0)
    (beyond,) = parts_of(watched, replace(tail, span=OffsetSpan(start=END + 9, end=END + 10)))
    assert beyond == OutOfRange(offset=END + 9)


def test_a_log_start_that_moved_meanwhile_is_no_difference(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    watched = Watched(kafka, tmp_path, "moved-on")
    watched.swap()
    watched.topic.delete_records(2 * KEYS + 5)
    for mode in RECORDS:
        found = watched.read(mode=mode)
        assert isinstance(found, Counted)  # The aborted record.
        assert found.dropped == 1
    watched.topic.delete_records(END)
    passed = Agreed(records=0, why=NotCounted.LOG_START_PASSED)
    for mode in RECORDS:
        assert watched.read(mode=mode) == passed


def test_an_object_that_brokers_do_not_find_is_named(kafka: KafkaCluster, tmp_path: Path) -> None:
    watched = Watched(kafka, tmp_path, "without-objects")
    watched.swap()
    (live,) = watched.row.segments
    log, *_ = watched.topic.folder().glob(f"*{live.segment_id}.log")
    hidden = log.rename(tmp_path / log.name)
    with connected(watched.settings) as connection:
        found = read_canary(watched.context(), connection, watched.row, 0, CanaryMode.BORDERS)
    hidden.rename(log)
    assert found == NotServed(offset=0, error="UNKNOWN")
    assert isinstance(watched.read(), Counted)


def test_read_on_the_topic_is_the_only_right(kafka: KafkaCluster, tmp_path: Path) -> None:
    watched = Watched(kafka, tmp_path, "readable")
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    settings = client(kafka.servers_of("SASL"), TIMEOUT | login)
    for rights in ((), (AclOperation.DESCRIBE,)):
        with granted(kafka, *(Right(right, "readable") for right in rights)):
            found = watched.read(settings=settings)
        assert isinstance(found, CannotRead), rights
        assert isinstance(found.error, MissingRight)
        assert "the right Read on topic readable is missing" in str(found.error)
        assert "--operation Read --topic readable" in found.error.remedy
        assert found.error.remedy.endswith("Or publish with --canary off, which proves less.")
    with granted(kafka, Right(AclOperation.READ, "readable")):
        assert isinstance(watched.read(settings=settings), Agreed)


def test_a_topic_that_was_deleted_meanwhile_is_not_compared(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    watched = Watched(kafka, tmp_path, "deleted-meanwhile")
    context = watched.context()
    deleted = kafka.admin().delete_topics([watched.topic.name])
    deleted[watched.topic.name].result(CALL_S)
    with connected(watched.settings) as connection:
        found = read_canary(context, connection, watched.row, 0, CanaryMode.BORDERS)
    assert isinstance(found, CannotRead)
    assert "the topic was deleted" in str(found.error)
