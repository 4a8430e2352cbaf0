"""The comparison with what brokers serve agrees on an untouched topic, and names differences."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.brokers import served_reads
from tests.brokers.cluster import KafkaCluster
from tests.brokers.consumer_reads import (
    Isolation,
    JavaReader,
    LibrdkafkaReader,
    ReadBack,
    SeenRecord,
    offset_for_time,
)
from tests.brokers.filled_topic import Filling, create_filled
from tests.brokers.scans import Scans, scanning
from tests.brokers.served_reads import (
    assert_served_as,
    sampled_starts,
    unequal_reads,
    unequal_records,
    unequal_times,
)
from tests.brokers.topics import Topic
from tests.brokers.uploaded_log import Expected, UploadedLog
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.remote_views import partition_folder, to_remote, upload

FILLING = Filling(seed=1, records=500, keys=60, value_bytes=(100, 12_000))
"""More than a segment takes, however fast it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Untouched:
    topic: Topic
    expected: Expected
    cleaned: Expected
    """What would be left if all but the last segment were compacted."""


@pytest.fixture(scope="module")
def untouched(
    kafka: KafkaCluster, kafka_tools: KafkaLab, tmp_path_factory: pytest.TempPathFactory
) -> Untouched:
    """A topic with all kinds of records, as brokers uploaded it."""
    topic = create_filled(kafka, "untouched", FILLING)
    topic.wait_until_tiered()
    log = UploadedLog(topic.folder(), kafka_tools, tmp_path_factory.mktemp("untouched"))
    log.collect()
    expected = log.expected()
    end = expected.borders[-1]
    assert end > expected.log_start, "it is one segment"
    now_ms = max(stamp_ms for _, stamp_ms in expected.stamps) + 1
    return Untouched(
        topic=topic,
        expected=expected,
        cleaned=log.expected(cleaned_below=end, passes_ms=(now_ms,)),
    )


@pytest.mark.soak
def test_an_untouched_topic_is_served_as_its_own_records(
    kafka: KafkaCluster, kafka_tools: KafkaLab, untouched: Untouched
) -> None:
    expected = untouched.expected
    committed, uncommitted = (
        expected.records[level] for level in (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)
    )
    assert len(committed) < len(uncommitted) == FILLING.records < len(expected.stamps)
    assert {record.value_crc32 is None for record in committed} == {True, False}
    assert any(record.headers for record in committed)
    with scanning(kafka, untouched.topic) as scans:
        assert_served_as(kafka, kafka_tools, untouched.topic, expected, starts=3)
    assert scans.problems() == []
    assert scans.count >= 2 * len(Isolation)


@pytest.mark.soak
def test_what_is_not_served_as_expected_is_named(
    kafka: KafkaCluster,
    kafka_tools: KafkaLab,
    untouched: Untouched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readers = LibrdkafkaReader(kafka), JavaReader(kafka, kafka_tools)
    planted = untouched.expected.records[Isolation.READ_COMMITTED]
    altered = replace(
        untouched.expected,
        records=dict(untouched.expected.records)
        | {Isolation.READ_COMMITTED: (*planted[:7], *planted[8:])},
        stamps=untouched.expected.stamps[1:],
    )
    for reader in readers:
        (line,) = unequal_reads(reader, untouched.topic, altered, [0, altered.end - 1])
        assert line.startswith(f"{reader.name}, read_committed, from 0: 1 not expected: ")
        assert f"{planted[7].offset} (b'key-" in line
        (line,) = unequal_times(reader, untouched.topic, altered, [0])
        assert line == f"{reader.name}: for the time 0 it finds 0, expected 1"
    monkeypatch.setattr(served_reads, "_LEARNED_WITHIN_S", 0.0)
    with pytest.raises(AssertionError, match=r"untouched is not served as expected(?s:.*)more$"):
        assert_served_as(kafka, kafka_tools, untouched.topic, untouched.cleaned, starts=1)


def test_a_reader_that_does_not_get_to_the_end_says_why(
    kafka: KafkaCluster, kafka_tools: KafkaLab
) -> None:
    topic = kafka.create("begins-later")
    topic.append([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    topic.wait_until_tiered()
    topic.delete_records(2)
    for reader in (LibrdkafkaReader(kafka), JavaReader(kafka, kafka_tools)):
        below, within = reader.read(topic, [0, 2], Isolation.READ_COMMITTED)
        assert below.records == ()
        assert below.stopped is not None
        assert "outofrange" in below.stopped.lower().replace(" ", ""), below
        assert within.stopped is None
        assert [record.offset for record in within.records] == [2]


class TimesAnswered:
    """A consumer whose answers for times are given: an offset, or an error."""

    def __init__(self, *answers: int | KafkaError) -> None:
        self._answers = iter(answers)

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[Any]:
        assert timeout > 0
        answer = next(self._answers)
        has_failed = isinstance(answer, KafkaError)
        return [
            SimpleNamespace(
                offset=-1 if has_failed else answer, error=answer if has_failed else None
            )
            for _ in asked
        ]


def test_an_error_is_no_answer_that_there_is_no_such_time() -> None:
    timed_out, unknown = KafkaError(KafkaError.REQUEST_TIMED_OUT), KafkaError(KafkaError.UNKNOWN)
    for answers, found in (((5,), 5), ((-1,), None), ((timed_out, timed_out, 5), 5)):
        consumer: Any = TimesAnswered(*answers)
        assert offset_for_time(consumer, "t", 7) == found
    failing: Any = TimesAnswered(unknown, 5)
    with pytest.raises(KafkaException, match="UNKNOWN"):
        offset_for_time(failing, "t", 7)


def test_what_is_expected_is_what_the_cleaner_leaves(
    kafka: KafkaCluster, kafka_tools: KafkaLab, tmp_path: Path
) -> None:
    topic = kafka.create("few-records")
    topic.append([(b"a", b"1"), (b"b", b"1"), (b"c", None)])
    topic.append([(b"a", b"2"), (b"d", b"1")])
    topic.append([(b"a", b"3")])
    topic.wait_until_tiered()
    log = UploadedLog(topic.folder(), kafka_tools, tmp_path)
    log.collect()
    left = {
        below: [
            record.offset
            for record in log.expected(cleaned_below=below, passes_ms=(2**41,)).records[
                Isolation.READ_COMMITTED
            ]
        ]
        for below in (0, 5, 6)
    }
    assert left == {0: [0, 1, 2, 3, 4, 5], 5: [1, 2, 3, 4, 5], 6: [1, 2, 4, 5]}
    later = log.expected(cleaned_below=6, passes_ms=(2**41, 2**41 + 1), delete_retention_ms=1)
    assert [offset for offset, _ in later.stamps] == [1, 4, 5]
    assert later.from_log_start(2).seen_from(0, Isolation.READ_UNCOMMITTED)[0].offset == 4
    with pytest.raises(AssertionError, match="4 is within an upload"):
        log.expected(cleaned_below=4)


def test_uploads_that_overlap_are_one_log(kafka_tools: KafkaLab, tmp_path: Path) -> None:
    made = tmp_path / "made" / "t-0"
    kafka_tools.make(made, seed=3, records=300, txn=2, segment_bytes="8k", codec="none,lz4")
    ends = sorted(int(log.stem) for log in made.glob("*.log"))
    other = tmp_path / "other" / "t-0"
    bases = [batch["baseOffset"] for batch in kafka_tools.batches(made)]
    moved = [bases[len(bases) // 3], bases[2 * len(bases) // 3]]
    kafka_tools.replicate(made, other, roll_at=[*moved, ends[-1]])
    ids = random.Random(1)
    objects = partition_folder(tmp_path / "both", "t-0", ids)
    for start, end in pairwise(ends[:4]):
        upload(made, objects, ids, (start, end))
    for start, end in pairwise([0, *moved, ends[-1]]):
        upload(other, objects, ids, (start, end))
    alone = UploadedLog(to_remote(made, tmp_path / "alone", 1), kafka_tools, tmp_path / "first")
    both = UploadedLog(objects, kafka_tools, tmp_path / "second")
    for log in (alone, both):
        log.collect()
    assert both.expected(cleaned_below=ends[-1], passes_ms=(2**41,)).records == (
        alone.expected(cleaned_below=ends[-1], passes_ms=(2**41,)).records
    )
    for path in objects.glob(f"{moved[0]:020d}-*"):
        path.unlink()
    shutil.rmtree(tmp_path / "second")
    torn = UploadedLog(objects, kafka_tools, tmp_path / "second")
    torn.collect()
    with pytest.raises(AssertionError, match="does not begin at"):
        torn.expected()


def seen(offset: int, value: str | None = "aa", key: bytes = b"k") -> SeenRecord:
    return SeenRecord(offset, 5, key.hex(), value, ())


@pytest.mark.parametrize(
    ("got", "said"),
    [
        ([seen(1), seen(3, None)], ""),
        ([seen(1)], "1 missing: 3 (b'k', a tombstone)"),
        ([seen(1), seen(2), seen(3, None)], "1 not expected: 2 (b'k')"),
        ([seen(3, None), seen(1)], "1 out of order: 3, 1"),
        ([seen(1), seen(1), seen(3, None)], "1 out of order: 1, 1"),
    ],
)
def test_differences_of_records_are_named(got: list[SeenRecord], said: str) -> None:
    wanted = [seen(1), seen(3, None)]
    assert unequal_records(wanted, ReadBack(tuple(got), None)) == said
    stopped = unequal_records(wanted, ReadBack(tuple(got), "stuck"))
    assert stopped == "; ".join(part for part in (said, "it stopped: stuck") if part)


def test_changed_records_are_named() -> None:
    said = unequal_records([seen(1)], ReadBack((seen(1, "bb"),), None))
    assert said.startswith("1 changed: 1 (")
    assert "'bb'" in said


def test_starts_are_the_ends_the_tail_borders_middles_and_the_widest_hole() -> None:
    stamps = tuple((offset, offset) for offset in (10, 11, 12, 40, 41, 90, 99))
    expected = Expected(log_start=10, end=100, borders=(10, 50), records={}, stamps=stamps)
    starts = sampled_starts(expected, (10, 30, 50, 100), 9)
    assert starts == sampled_starts(expected, (10, 30, 50, 100), 9)
    assert {10, 99, 100, 65} <= {*starts}
    assert {*starts} & {29, 30, 31, 49, 50, 51}
    assert {*starts} & {20, 40, 75}
    assert 9 <= len(starts) <= 13


@pytest.mark.soak
def test_scans_see_what_changes(kafka: KafkaCluster) -> None:
    topic = kafka.create("scanned")
    topic.append([(b"mine-1", b"1"), (b"mine-2", b"1"), (b"other", b"1")])
    with scanning(kafka, topic, prefix=b"mine") as scans:
        topic.append([(b"other", b"2")])
    assert scans.problems() == []
    with scanning(kafka, topic) as scans:
        topic.append([(b"mine-1", None), (b"mine-2", b"1")])
    differing = "scans saw 2 different sets of latest values, which differ in 1 keys: [b'mine-1']"
    assert scans.problems() == [f"{level}: {differing}" for level in Isolation]


def test_scans_that_end_early_are_counted() -> None:
    scans = Scans(b"")
    for _ in range(2):
        scans.add("a reader", Isolation.READ_COMMITTED, ReadBack((), "stuck at 7"))
    assert scans.count == 0
    assert scans.problems() == ["2 scans ended early: a reader, read_committed: stuck at 7"]
