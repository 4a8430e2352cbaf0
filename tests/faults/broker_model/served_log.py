"""The log of one partition, as its leaders write it, and what each broker still has locally.

Of a key the record with the highest rank counts: by its version if the strategy has versions, then
by its offset. A consumer keeps it whatever comes later, so a tombstone may lie below what it hides.

Brokers roll their segments by themselves, so a new leader has other borders than the one before it
and uploads some offsets once more.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple, TypeAlias

from tests.faults.broker_model.metadata_cache import Lineage, epoch_at
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import LeaderEpoch

KEYS: Final = "abcdef"
SEGMENT_RECORDS: Final = 4
"""Records of a local segment; each broker rolls at most one later."""

LATE: Final = 0.4
"""How often a record has a version just below that of a tombstone of its key."""

WITHOUT_HEADER: Final = -1
"""The version of a record without the header: all others win."""

Value: TypeAlias = str | None
Rank: TypeAlias = tuple[int, int]
"""Version and offset; of a key the record with the highest one counts."""


class LogRecord(NamedTuple):
    """A record; a value of None makes it a tombstone."""

    offset: int
    key: str
    value: Value
    at_ms: int
    version: int = 0
    """By `timestamp` its timestamp, by `header` what the header says; else all have the same."""

    @property
    def rank(self) -> Rank:
        """It counts if no other record of its key has a higher one."""
        return self.version, self.offset


@dataclass(slots=True, kw_only=True)
class LocalLog:
    """What one broker has locally."""

    borders: list[int]
    """The first offsets of its segments, the active one last."""
    start: int = 0
    """The first offset that it has locally."""

    def roll(self, offset: int) -> None:
        """Begin a new segment at the end of the log."""
        if self.borders[-1] < offset:
            self.borders.append(offset)

    def segment_at(self, offset: int) -> tuple[int, int] | None:
        """The first and last offset of the rolled segment that has this one."""
        for first, beyond in pairwise(self.borders):
            if first <= offset < beyond:
                return first, beyond - 1
        return None


@dataclass(slots=True, kw_only=True)
class ServedLog:
    """The log as its present leader has it; offsets begin at 0, without gaps."""

    rng: Random
    strategy: CompactionStrategy = CompactionStrategy.OFFSET
    delete_retention_ms: int = 0
    """Of a record that is later than this the tombstone may be gone."""
    local_ms: int = 0
    """How long brokers may have a local copy of a record, since it was written."""
    records: list[LogRecord] = field(default_factory=list)
    lineage: Lineage = field(default_factory=lambda: [(0, 0)])
    log_start: int = 0
    locals: list[LocalLog] = field(default_factory=list)
    """By broker."""
    newest: dict[str, LogRecord] = field(default_factory=dict)
    """The record of each key that counts."""
    dropped: dict[int, set[int]] = field(default_factory=dict)
    """By the offset of a tombstone that counted, the ends of the regions whose passes dropped it.
    """

    @property
    def end(self) -> int:
        """The high watermark: one more than the last offset."""
        return len(self.records)

    @property
    def leader_epochs(self) -> tuple[LeaderEpoch, ...]:
        """The lineage as brokers confirm it."""
        return tuple(
            LeaderEpoch(epoch=epoch, start_offset=first) for epoch, first in self.lineage
        )

    def append(self, count: int, now_ms: int) -> None:
        """Append records; a third of them are tombstones."""
        for _ in range(count):
            key, at_ms, version = self._drawn(now_ms)
            value = None if self.rng.random() < 0.33 else f"{key}{self.end}"
            record = LogRecord(self.end, key, value, at_ms, version)
            self.records.append(record)
            if key not in self.newest or record.rank > self.newest[key].rank:
                self.newest[key] = record
            for local in self.locals:
                records = SEGMENT_RECORDS + self.rng.choice((0, 1))
                if self.end - local.borders[-1] >= records:
                    local.borders.append(self.end)

    def is_right(self, read: range, key: str, found: Value, *, is_local: bool) -> bool:
        """Whether a consumer may end with this value of a key if it has read these offsets.

        The record that counts is below their end. `is_local`: whether it has the value from a
        broker's local copy.
        """
        newest = self.newest[key]
        if newest.offset < read.start:
            # By versions it depends on whether a pass has compared the rest with that record.
            return found is None or self.strategy is not CompactionStrategy.OFFSET
        if found == newest.value:
            return True
        return newest.value is None and self.has_outlived(
            key, found, read.stop, is_local=is_local
        )

    def has_outlived(self, key: str, value: Value, beyond: int, *, is_local: bool) -> bool:
        """Whether a value counts because its record came too late for a tombstone that is gone.

        Either no pass had compared the two when the tombstone was dropped, or the record came so
        late that its local copy may outlast the tombstone (docs/strategies.md). `beyond`: the end
        of what was read.
        """
        others = [record for record in self.records[:beyond] if record.key == key]
        found = next((record for record in others if record.value == value), None)
        if found is None:
            return False
        for dropped, ends in self.dropped.items():
            tombstone = self.records[dropped]
            if tombstone.key != key or tombstone.rank < found.rank:
                continue
            rolled_ms = self.newest_ms(found.offset, found.offset + SEGMENT_RECORDS + 1)
            outlasts_ms = rolled_ms + self.local_ms - tombstone.at_ms
            if is_local and outlasts_ms >= self.delete_retention_ms:
                return True
            if any(found is best_of(others, end, self.dropped) for end in ends):
                return True
        return False

    def _drawn(self, now_ms: int) -> tuple[str, int, int]:
        """The key, the timestamp and the version of the next record."""
        if self.strategy is CompactionStrategy.OFFSET:
            return self.rng.choice(KEYS), now_ms, 0
        is_by_time = self.strategy is CompactionStrategy.TIMESTAMP
        deleted = [record for record in self.newest.values() if record.value is None]
        if deleted and self.rng.random() < LATE:
            late = self.rng.choice(deleted)
            before = max(late.version - 1, WITHOUT_HEADER)
            return late.key, before if is_by_time else now_ms, before
        has_header = self.rng.random() < 0.9
        version = self.end if has_header else WITHOUT_HEADER
        return self.rng.choice(KEYS), now_ms, now_ms if is_by_time else version

    def elect(self) -> int:
        """Begin the next leader epoch; returns it."""
        epoch = self.lineage[-1][0] + self.rng.choice((1, 1, 2))
        if self.lineage[-1][1] == self.end:
            self.lineage.pop()  # A leader that wrote nothing leaves no epoch.
        self.lineage.append((epoch, self.end))
        return epoch

    def epochs_of(self, first: int, last: int) -> tuple[LeaderEpoch, ...]:
        """The leader epochs of these offsets, each with its first offset among them."""
        within = [entry for entry in self.lineage if first < entry[1] <= last]
        return tuple(
            LeaderEpoch(epoch=epoch, start_offset=start)
            for epoch, start in ((epoch_at(self.lineage, first), first), *within)
        )

    def drop_local(self, broker: int, tiered_to: int, before_ms: int) -> None:
        """Drop a broker's oldest local segments if they are tiered, and older than this."""
        local = self.locals[broker]
        while (found := local.segment_at(local.start)) is not None:
            last = found[1]
            if last > tiered_to or self.newest_ms(found[0], last) > before_ms:
                return
            local.start = last + 1

    def newest_ms(self, first: int, last: int) -> int:
        """The largest timestamp among these offsets; −1: there are none."""
        return max((record.at_ms for record in self.records[first : last + 1]), default=-1)


def best_of(
    records: Iterable[LogRecord], first: int, without: Container[int]
) -> LogRecord | None:
    """Of the records from an offset on, those of some offsets left out, the one that counts."""
    left = (one for one in records if one.offset >= first and one.offset not in without)
    return max(left, key=lambda one: one.rank, default=None)
