"""What a reader makes of records, ends and errors, in whatever order they come.

The consumer's messages are given here; `test_canary.py` has a real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from tests.brokers.cluster import KafkaCluster
from tests.storage.brokers.secured import client
from tierfold.compaction.model.errors import MissingRight, UnreadableObject
from tierfold.compaction.model.units import NO_TIMESTAMP_MS, OffsetSpan
from tierfold.compaction.verification.canary import CanaryWindow
from tierfold.storage.brokers import record_reader
from tierfold.storage.brokers.connection import Connection, connected
from tierfold.storage.brokers.record_reader import (
    GivenRecords,
    OutOfRange,
    RecordReader,
    Unserved,
    WindowPart,
)

END_OF_LOG = KafkaError._PARTITION_EOF
NO_SUCH_OFFSET = KafkaError._AUTO_OFFSET_RESET
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
UNKNOWN = KafkaError.UNKNOWN
SILENCE: Final[list[list[Message]]] = [[]] * 9


class ScriptedConsumer:
    """A consumer that gives one of these batches at each call, and must not be called again."""

    def __init__(self, *batches: list[Message]) -> None:
        self._batches = iter(batches)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = [(one.topic, one.partition, one.offset) for one in partitions]

    def consume(self, _count: int, _timeout_s: float) -> list[Message]:
        return next(self._batches)


def data(*offsets: int, value: bytes | None = b"v", at: tuple[int, int] = (1, 5)) -> list[Message]:
    fields = {"topic": "t", "partition": 0, "key": b"k", "value": value, "timestamp": at}
    return [Message(offset=one, **fields) for one in offsets]


def event(code: int, offset: int = -1) -> Message:
    return Message(topic="t", partition=0, error=KafkaError(code), offset=offset)


@pytest.fixture(scope="module")
def connection(kafka: KafkaCluster) -> Iterator[Connection]:
    """Its brokers may take two seconds for an answer."""
    with connected(client(kafka.servers, {"request.timeout.ms": "2000"})) as made:
        yield made


@pytest.fixture
def at_once(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes whenever the clock is read."""
    times_s = iter(range(10**6))
    monkeypatch.setattr(record_reader, "elapsed_s", lambda: float(next(times_s)))


def parts(
    connection: Connection, start: int, end: int, *batches: list[Message], most: int | None = None
) -> list[WindowPart]:
    consumer: Any = ScriptedConsumer(*batches)
    reader = RecordReader(connection, consumer, TopicPartition("t", 3))
    window = CanaryWindow(span=OffsetSpan(start=start, end=end), records_max=most)
    found = list(reader.read(window))
    assert consumer.assigned == [("t", 3, start)]
    return found


def shown(found: list[WindowPart]) -> list[tuple[int, int, list[int]]]:
    given = [part for part in found if isinstance(part, GivenRecords)]
    assert len(given) == len(found), found
    return [(one.span.start, one.span.end, one.records.offset.tolist()) for one in given]


def test_a_window_ends_with_its_span_or_behind_its_last_record(connection: Connection) -> None:
    assert shown(parts(connection, 0, 5, data(0, 2, 5, 6))) == [(0, 5, [0, 2])]
    # Brokers may give more than is asked for.
    assert shown(parts(connection, 0, 5, data(0, 2), data(4, 5))) == [(0, 5, [0, 2, 4])]
    assert shown(parts(connection, 0, 9, data(1, 3, 4), most=2)) == [(0, 4, [1, 3])]
    assert shown(parts(connection, 0, 9, data(1), data(3, 4), most=2)) == [(0, 4, [1, 3])]
    assert shown(parts(connection, 0, 5, data(7), most=2)) == [(0, 5, [])]


def test_the_end_of_the_log_ends_a_window_only_at_its_end(connection: Connection) -> None:
    ends = [event(END_OF_LOG, 4), event(END_OF_LOG, 5)]
    assert shown(parts(connection, 0, 5, data(0), ends[:1], data(3), ends[1:])) == [(0, 5, [0, 3])]
    assert shown(parts(connection, 0, 5, [*data(0), ends[1]])) == [(0, 5, [0])]


def test_long_windows_are_given_in_chunks(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [data(0, 1), data(2), data(3, 9)]
    monkeypatch.setattr(record_reader, "CHUNK_RECORDS", 2)
    assert shown(parts(connection, 0, 9, *batches)) == [(0, 2, [0, 1]), (2, 9, [2, 3])]
    monkeypatch.undo()
    monkeypatch.setattr(record_reader, "CHUNK_BYTES", 4)
    assert shown(parts(connection, 0, 9, *batches)) == [(0, 2, [0, 1]), (2, 9, [2, 3])]


@pytest.mark.usefixtures("at_once")
def test_an_offset_that_brokers_do_not_have_ends_the_window(connection: Connection) -> None:
    assert parts(connection, 7, 9, [event(NO_SUCH_OFFSET)]) == [OutOfRange(offset=7)]
    given, out = parts(connection, 0, 9, data(0, 1), [event(NO_SUCH_OFFSET)])
    assert shown([given]) == [(0, 2, [0, 1])]
    assert out == OutOfRange(offset=2)
    # What comes behind the window's end says nothing of it.
    assert shown(parts(connection, 0, 2, [*data(0, 2), event(NO_SUCH_OFFSET)])) == [(0, 2, [0])]


@pytest.mark.usefixtures("at_once")
def test_errors_count_once_nothing_came_for_as_long_as_an_answer_may_take(
    connection: Connection,
) -> None:
    unserved = Unserved(offset=0, error="UNKNOWN")
    for offset in (-1, 9):  # Only an end of the log at the window's end ends it.
        assert parts(connection, 0, 9, [event(UNKNOWN, offset)], *SILENCE) == [unserved]
    given, last = parts(connection, 0, 9, [event(UNKNOWN)], data(0), [event(UNKNOWN)], *SILENCE)
    assert shown([given]) == [(0, 1, [0])]
    assert last == Unserved(offset=1, error="UNKNOWN")
    # Records came since the last error, and then nothing.
    with pytest.raises(UnreadableObject):
        parts(connection, 0, 9, [event(UNKNOWN)], data(0), *SILENCE)
    # An end of the log below the window's is an error, too, if it stays.
    (end,) = parts(connection, 5, 9, [event(END_OF_LOG, 5)], *SILENCE)
    assert end == Unserved(offset=5, error="_PARTITION_EOF")
    # While records come, nothing is late.
    slow = [data(one) for one in range(9)]
    assert shown(parts(connection, 0, 8, *slow)) == [(0, 8, [*range(8)])]


@pytest.mark.usefixtures("at_once")
def test_only_the_right_on_the_topic_counts(connection: Connection) -> None:
    with pytest.raises(MissingRight) as caught:
        parts(connection, 0, 9, [event(DENIED)])
    assert [(one.operation, one.name) for one in caught.value.rights] == [("Read", "t")]
    assert shown(parts(connection, 0, 1, [event(NO_GROUP)], data(0, 1))) == [(0, 1, [0])]
    with pytest.raises(UnreadableObject) as silent:
        parts(connection, 0, 9, [event(NO_GROUP)], *SILENCE)
    assert not isinstance(silent.value, MissingRight)


def test_nulls_and_unknown_times_differ_from_what_is_empty_or_known(
    connection: Connection,
) -> None:
    def content(value: bytes | None, at: tuple[int, int]) -> list[int]:
        (part,) = parts(connection, 0, 1, [*data(0, value=value, at=at), *data(1)])
        assert isinstance(part, GivenRecords)
        found: list[int] = part.records.content[0].tolist()
        return found

    assert content(None, (1, 5)) != content(b"", (1, 5))
    assert content(b"v", (0, 5)) == content(b"v", (1, NO_TIMESTAMP_MS))
    assert content(b"v", (2, 5)) == content(b"v", (1, 5))
