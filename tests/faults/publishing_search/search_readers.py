"""What consumers see, from whichever offset they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.faults.publishing_search.search_segments import BY_ID, Record, Stored
from tests.faults.publishing_search.search_views import View
from tierfold.compaction.model.segments import LeaderEpoch

OUT_OF_RANGE: Final = "out of range"


@dataclass(frozen=True, kw_only=True)
class TheLog:
    """The partition as it was written."""

    records: tuple[Record, ...]
    lineage: tuple[LeaderEpoch, ...]
    local_start: int
    """From here on brokers have the records locally, whatever is in the tier."""

    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which a reader looks for an offset."""
        return max(one.epoch for one in self.lineage if one.start_offset <= offset)


def what_consumers_miss(
    log: TheLog, view: View, store: frozenset[Stored], log_start: int, tiered_end: int = -1
) -> str | None:
    """The first thing that a consumer sees wrongly; None: nothing.

    `tiered_end`: up to it brokers may have dropped their own records, whatever the view says.

    Superseded records may be read, as Kafka's cleaner promises nothing of them. The last value of a
    key must be right, and a key whose last record is a tombstone must have none, from every start.
    """
    fetched: dict[int, tuple[Sequence[Record], int]] = {}
    end = log.records[-1].offset
    local = min(log.local_start, max(tiered_end_of(log, view), tiered_end) + 1)
    for offset in range(log_start, end + 1):
        answer = _read_at(log, view, store, offset, local)
        if isinstance(answer, str):
            return f"offset {offset} {answer}"
        fetched[offset] = answer
    for start in range(log_start, end + 1):
        wrong = _wrong_value(log, fetched, start)
        if wrong is not None:
            return f"reading from {start}: {wrong}"
    return None


def read_on(
    log: TheLog, view: View, store: frozenset[Stored], offset: int
) -> tuple[Sequence[Record], int] | str:
    """What a fetch from this offset gives, and the last offset that it covers; or what is wrong."""
    return _read_at(log, view, store, offset, min(log.local_start, tiered_end_of(log, view) + 1))


def is_read(
    log: TheLog, view: View, store: frozenset[Stored], offset: int, tiered_end: int
) -> bool:
    """Whether a fetch from this offset gives anything; `tiered_end`: of `what_consumers_miss`."""
    local = min(log.local_start, max(tiered_end_of(log, view), tiered_end) + 1)
    return not isinstance(_read_at(log, view, store, offset, local), str)


def what_a_reader_missed(log: TheLog, values: dict[str, int | None]) -> str | None:
    """What is wrong with the last values that a consumer read from the start to the end."""
    for record in _last_records(log.records):
        if values.get(record.key) != record.value:
            seen = values.get(record.key)
            return f"a reader that paused: key {record.key} is {seen} instead of {record.value}"
    return None


def tiered_end_of(log: TheLog, view: View) -> int:
    """The highest offset that was ever in the tier: up to it brokers may have dropped their own."""
    highest = view.broker.highest_offsets
    return max((highest.get(one.epoch, -1) for one in log.lineage), default=-1)


def _read_at(
    log: TheLog, view: View, store: frozenset[Stored], offset: int, local: int
) -> tuple[Sequence[Record], int] | str:
    """The records that a fetch gives, and the last offset that it covers; or what is wrong."""
    if offset >= local:
        return log.records[offset : offset + 1], offset
    known = view.broker.find(log.epoch_at(offset), offset)
    if known is None:
        return f"is {OUT_OF_RANGE}"
    segment = BY_ID[known.added.segment_id]
    if segment not in store:
        return f"is served from {segment}, whose objects are missing"
    return [one for one in segment.records if one.offset >= offset], segment.end


def _wrong_value(
    log: TheLog, fetched: dict[int, tuple[Sequence[Record], int]], start: int
) -> str | None:
    read: dict[str, int | None] = {}
    offset = start
    while offset in fetched:
        records, last = fetched[offset]
        read |= {record.key: record.value for record in records}
        offset = last + 1
    for record in _last_records(log.records):
        seen = read.get(record.key)
        right = record.value if record.offset >= start else None
        if seen != right and (record.key in read or right is not None):
            return f"key {record.key} is {seen} instead of {right}"
    return None


def _last_records(records: Sequence[Record]) -> list[Record]:
    return list({record.key: record for record in records}.values())
