"""A canary reads as consumers do: it counts after a swap, and finds what differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tierfold.compaction.model.origins import UPLOADED
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
from tierfold.jobs.publishing.canary import read_before_deletion, read_canary
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

    def __init__(
        self, kafka: KafkaCluster, folder: Path, name: str, common: Sequence[int] = (0, KEYS - 1)
    ) -> None:
        """`common`: which records of each upload have a key that all uploads have."""
        self.kafka, self.catalog = kafka, folder / "catalog"
        self.topic = kafka.create(name)
        for number in range(UPLOADS):
            keys = [b"%d" % n if n in common else b"%d-%d" % (number, n) for n in range(KEYS)]
            self.topic.append([(key, b"%d" % number if number else b"") for key in keys])
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

    def _abort(self) -> None:
        """The log ends in a record that no reader of committed records gets, and its marker."""
        producer = Producer(self.kafka.client_settings(transactional_id=self.topic.name))
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.topic.name, b"aborted", b"key")
        producer.flush(30)
        producer.abort_transaction(30)
        self.kafka.wait(lambda: self.topic.offsets()[1] == END, "the marker")

    def send(self) -> None:
        for events in swaps_of(self.row):
            send(self.kafka, events)

    def swap(self) -> None:
        before = len(self.topic.read())
        self.send()
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
        meanwhile: Callable[[], None] = lambda: None,
    ) -> CanaryResult:
        """The result; `meanwhile` is called once brokers have given the first records."""
        calls = iter([meanwhile])

        def before_comparison(_topic: str) -> int:
            for call in calls:
                call()
            return 0

        context = replace(self.context(later_ms), batch_bytes_max=before_comparison)
        with connected(settings or self.settings) as connection:
            return read_canary(context, connection, row or self.row, 0, mode)

    @property
    def partly_local(self) -> PartitionState:
        """The row if no broker should have the first upload locally, except its last record."""
        first = LocalRange(end_offset=KEYS - 2, until_ms=0)
        (rest,) = self.row.local_ranges
        ranges = (first, replace(rest, until_ms=rest.until_ms + LATER_MS))
        return replace(self.row, local_ranges=ranges)

    def before_deletion(self, mode: CanaryMode, later_ms: int) -> CanaryResult | None:
        context, row = self.context(later_ms), self.partly_local
        with connected(self.settings) as connection:
            return read_before_deletion(context, connection, row, 0, mode)

    def delete(self) -> None:
        admin = self.kafka.admin()
        admin.delete_topics([self.topic.name])[self.topic.name].result(CALL_S)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again."""
    monkeypatch.setattr(canary, "CONFIRM_S", -1.0)


def of_sources(row: PartitionState) -> PartitionState:
    """The row as if what was replaced were live, and nothing retired."""
    return replace(row, segments=tuple(one.segment for one in row.retired), retired=())


@pytest.mark.usefixtures("at_once")
def test_what_brokers_gave_is_compared_with_the_row(kafka: KafkaCluster, tmp_path: Path) -> None:
    watched = Watched(kafka, tmp_path, "unswapped")
    row = watched.row
    (live,) = row.segments
    # Brokers have what was uploaded: on their disks, as far as the row knows.
    for mode, records in RECORDS.items():
        still_local = Agreed(records=records, why=NotCounted.STILL_LOCAL)
        assert watched.read(mode=mode) == still_local
        assert watched.read(mode=mode, later_ms=LATER_MS) == Stale(offset=0)
    # Before a deletion only what no broker should have locally is read.
    for mode in RECORDS:
        assert watched.before_deletion(mode, 0) is None
        assert watched.before_deletion(mode, LATER_MS) == Stale(offset=0)
    agreed = Agreed(records=RECORDS[CanaryMode.ALL], why=NotCounted.NOTHING_DROPPED)
    foreign = Differs(offset=0, difference=Difference.FOREIGN)
    alone = replace(row, retired=())
    elsewhere = tuple(replace(entry, retired_by_run="forgetting") for entry in row.retired)
    gone = tuple(
        replace(entry, segment=replace(entry.segment, segment_id=f"{number}" * 22))
        for number, entry in enumerate(row.retired)
    )
    for changed, later_ms, result in (
        (alone, 0, agreed),  # Of some later round: brokers may have what no object has any longer.
        (alone, LATER_MS, foreign),
        (replace(alone, segments=(replace(live, origin=UPLOADED),)), 0, foreign),
        (replace(row, retired=elsewhere), LATER_MS, agreed),
        (replace(row, retired=gone), 0, agreed),
        (of_sources(row), 0, agreed),
    ):
        assert watched.read(changed, CanaryMode.ALL, later_ms) == result


@pytest.mark.soak
def test_a_canary_counts_once_consumers_read_what_was_written(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(kafka, tmp_path, "watched")
    # A broker may take a swap a little later.
    found = watched.read(mode=CanaryMode.ALL, later_ms=LATER_MS, meanwhile=watched.send)
    monkeypatch.setattr(record_reader, "CHUNK_RECORDS", 1)
    assert found == watched.read(mode=CanaryMode.ALL)
    # Of both common keys the latest record is there, and the aborted one is not.
    assert isinstance(found, Counted)
    assert found.dropped == 2 * (UPLOADS - 1) + 1
    assert found.records == RECORDS[CanaryMode.ALL] - found.dropped
    assert isinstance(watched.read(), Counted)
    partly = watched.before_deletion(CanaryMode.ALL, LATER_MS)
    assert partly == Counted(records=KEYS - 2, dropped=1)
    monkeypatch.setattr(canary, "CONFIRM_S", 0.6)  # It is read again once.
    for mode in RECORDS:
        assert watched.read(of_sources(watched.row), mode) == Differs(
            offset=0, difference=Difference.MISSING
        )


@pytest.mark.soak
def test_a_dropped_record_is_searched_for_outside_the_windows(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(kafka, tmp_path, "searched", common=(70,))
    watched.swap()
    # Without the aborted record there is none near the borders.
    common = (
        one for one in watched.row.retired if one.segment.start_offset < KEYS * UPLOADS
    )
    row = replace(watched.row, retired=tuple(common))
    found = watched.read(row)
    assert isinstance(found, Counted)
    assert found.dropped == 1
    monkeypatch.setattr(canary, "SEARCH_PIECES", 0)
    found = watched.read(row)
    assert isinstance(found, Agreed)
    assert found.why is NotCounted.NOTHING_DROPPED
    # The objects of a source may be gone.
    monkeypatch.undo()
    hidden = [path for path in watched.topic.logs() if path.stem[21:] in row.retired_ids]
    for path in hidden:
        path.unlink()
    assert watched.read(row) == found


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


@pytest.mark.soak
def test_a_log_start_that_moved_meanwhile_is_no_difference(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    watched = Watched(kafka, tmp_path, "moved-on")
    watched.swap()
    watched.topic.delete_records(2 * KEYS + 5)
    found = watched.read(mode=CanaryMode.ALL)
    assert isinstance(found, Counted)
    assert (found.records, found.dropped) == (KEYS - 5, 1)  # The aborted record was.
    assert isinstance(watched.read(), Counted)
    watched.topic.delete_records(END)
    for mode in RECORDS:
        passed = Agreed(records=0, why=NotCounted.LOG_START_PASSED)
        assert watched.read(mode=mode) == passed


@pytest.mark.soak
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


@pytest.mark.soak
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
        assert found.error.remedy.endswith("which needs no Read and proves less.")
    with granted(kafka, Right(AclOperation.READ, "readable")):
        assert isinstance(watched.read(settings=settings), Agreed)


@pytest.mark.soak
def test_a_topic_that_was_deleted_meanwhile_is_not_compared(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    watched = Watched(kafka, tmp_path, "deleted-meanwhile")
    (found, later) = (
        watched.read(mode=CanaryMode.ALL, meanwhile=watched.delete),
        watched.read(),
    )
    for one in (found, later):
        assert isinstance(one, CannotRead)
        assert "the topic was deleted" in str(one.error)
    # One of the same name is another topic.
    kafka.create(watched.topic.name)
    found = watched.read()
    assert isinstance(found, CannotRead)
    assert "the topic has another id now" in str(found.error)
