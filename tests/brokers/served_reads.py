"""Compares what brokers serve of a topic with what they should serve, by two kinds of consumers."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

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
from tests.brokers.uploaded_log import Expected
from tests.oracle.kafka_lab import KafkaLab

_SHOWN: Final = 5
"""So many differences of a kind are shown."""
_LINES_MAX: Final = 12
_LEARNED_WITHIN_S: Final = 5.0


def assert_served_as(
    kafka: KafkaCluster, lab: KafkaLab, topic: Topic, expected: Expected, *, starts: int = 10
) -> None:
    """Fail unless brokers serve exactly this, in order, from every sampled start.

    Times are not asked for where a log start lies inside a segment: the first segment whose newest
    record is not older ends a broker's search, also if all such records are below the log start.

    Both kinds of consumers read with both isolation levels, from the log start, from `starts` other
    offsets and from the tail, and ask for the offsets of times. Brokers learn of a swap a little
    later, so first a consumer reads until it gets this from the log start, or `_LEARNED_WITHIN_S`
    has passed.
    """
    _wait_until_served(kafka, topic, expected)
    readers = (LibrdkafkaReader(kafka), JavaReader(kafka, lab))
    borders = (*expected.borders, *(int(log.name[:20]) for log in topic.logs()))
    sampled = sampled_starts(expected, borders, starts)
    found = [line for reader in readers for line in unequal_reads(reader, topic, expected, sampled)]
    times_ms = sampled_times(expected) if expected.is_whole else []
    found += [
        line for reader in readers for line in unequal_times(reader, topic, expected, times_ms)
    ]
    what = f"{topic.name} is not served as expected, read from {sampled}"
    more = [f"and {len(found) - _LINES_MAX} more"] if len(found) > _LINES_MAX else []
    assert not found, "\n  ".join([what, *found[:_LINES_MAX], *more])


def _wait_until_served(kafka: KafkaCluster, topic: Topic, expected: Expected) -> None:
    deadline = time.monotonic() + _LEARNED_WITHIN_S
    isolation = Isolation.READ_UNCOMMITTED
    wanted = ReadBack(expected.seen_from(expected.log_start, isolation), None)
    while time.monotonic() < deadline:
        if LibrdkafkaReader(kafka).read(topic, [expected.log_start], isolation) == [wanted]:
            break
        time.sleep(0.1)


def sampled_starts(expected: Expected, borders: Sequence[int], count: int) -> list[int]:
    """The log start, the tail, and a sample of borders, of offsets around them, and of holes.

    The sample is always the same of the same log.
    """
    drawn = random.Random(f"{expected.end} {len(expected.stamps)}")
    first, end = expected.log_start, expected.end
    inside = sorted({border for border in borders if first < border < end})
    near = [border + step for border in inside for step in (-1, 0, 1)]
    middles = [(low + high) // 2 for low, high in pairwise([first, *inside, end])]
    known = [offset for offset, _ in expected.stamps]
    gaps = sorted(pairwise(known), key=lambda pair: pair[0] - pair[1])
    holes = [(low + high) // 2 for low, high in gaps if high - low > 1]
    each = -(-count // 3)
    some = [drawn.sample(kind, min(len(kind), each)) for kind in (near, middles, holes)]
    chosen = {*holes[:1], *(offset for kind in some for offset in kind)}
    return sorted({first, *(offset for offset in chosen if first < offset < end), end - 1, end})


def sampled_times(expected: Expected, count: int = 4) -> list[int]:
    """The times of some records that are left, and one after all."""
    drawn = random.Random(expected.end)
    known = [stamp_ms for _, stamp_ms in expected.stamps]
    sampled = drawn.sample(known, min(count, len(known)))
    return [*sampled, max(known, default=0), max(known, default=0) + 1]


def unequal_reads(
    reader: Reader, topic: Topic, expected: Expected, starts: Sequence[int]
) -> Iterator[str]:
    """A line for each start from which a reader does not get what it should."""
    for isolation in Isolation:
        answers = reader.read(topic, starts, isolation)
        for start, got in zip(starts, answers, strict=True):
            wanted = expected.seen_from(start, isolation)
            if difference := unequal_records(wanted, got):
                yield f"{reader.name}, {isolation}, from {start}: {difference}"


def unequal_times(
    reader: Reader, topic: Topic, expected: Expected, times_ms: Sequence[int]
) -> Iterator[str]:
    """A line for each time for which a reader does not find the offset that it should."""
    answers = reader.offsets_for_times(topic, times_ms)
    for at_ms, found in zip(times_ms, answers, strict=True):
        wanted = expected.offset_for_time(at_ms)
        if found != wanted:
            yield f"{reader.name}: for the time {at_ms} it finds {found}, expected {wanted}"


def unequal_records(wanted: Sequence[SeenRecord], got: ReadBack) -> str:
    """How what was read differs; empty: it does not."""
    if got == ReadBack(tuple(wanted), None):
        return ""
    by_offset = {record.offset: record for record in wanted}
    found = {record.offset: record for record in got.records}
    changed = [
        f"{offset} ({found[offset]}, expected {record})"
        for offset, record in by_offset.items()
        if offset in found and found[offset] != record
    ]
    offsets = [record.offset for record in got.records]
    falls = [f"{low}, {high}" for low, high in pairwise(offsets) if high <= low]
    parts = [
        _listed("missing", [_short(one) for one in wanted if one.offset not in found]),
        _listed(
            "not expected", [_short(one) for one in got.records if one.offset not in by_offset]
        ),
        _listed("changed", changed),
        _listed("out of order", falls),
        f"it stopped: {got.stopped}" if got.stopped else "",
    ]
    return "; ".join(part for part in parts if part)


def _listed(what: str, lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return f"{len(lines)} {what}: {', '.join(lines[:_SHOWN])}{more}" if lines else ""


def _short(record: SeenRecord) -> str:
    key = None if record.key is None else bytes.fromhex(record.key)
    return f"{record.offset} ({key!r}{', a tombstone' if record.value_crc32 is None else ''})"
