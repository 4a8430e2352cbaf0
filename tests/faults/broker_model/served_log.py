"""The log of one partition, as its leaders write it, and what each broker still has locally.

Brokers roll their segments by themselves, so a new leader has other borders than the one before it
and uploads some offsets once more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple, TypeAlias

from tests.faults.broker_model.metadata_cache import Lineage, epoch_at
from tierfold.compaction.model.segments import LeaderEpoch

KEYS: Final = "abcdef"
SEGMENT_RECORDS: Final = 4
"""Records of a local segment; each broker rolls at most one later."""

Value: TypeAlias = str | None


class LogRecord(NamedTuple):
    """A record; a value of None makes it a tombstone."""

    offset: int
    key: str
    value: Value
    at_ms: int


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
    records: list[LogRecord] = field(default_factory=list)
    lineage: Lineage = field(default_factory=lambda: [(0, 0)])
    log_start: int = 0
    locals: list[LocalLog] = field(default_factory=list)
    """By broker."""
    newest: dict[str, LogRecord] = field(default_factory=dict)
    """The last record of each key."""

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
            key = self.rng.choice(KEYS)
            offset = self.end
            value = None if self.rng.random() < 0.33 else f"{key}{offset}"
            record = LogRecord(offset, key, value, now_ms)
            self.records.append(record)
            self.newest[key] = record
            for local in self.locals:
                records = SEGMENT_RECORDS + self.rng.choice((0, 1))
                if self.end - local.borders[-1] >= records:
                    local.borders.append(self.end)

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
