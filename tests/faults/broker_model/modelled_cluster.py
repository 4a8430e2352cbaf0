"""A cluster of two brokers that serve one partition from a tier, driven by time.

Both read the metadata topic event by event, each with its own lag; a batch is not atomic. Readers
go to the leader. Only time passes by itself: actors append, elect, upload and expire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from tests.faults.broker_model.consumers import (
    Fetched,
    ObjectMissing,
    OutOfRange,
    Wrong,
    fetch,
    serving,
    tiered_offsets,
    what_is_wrong,
)
from tests.faults.broker_model.metadata_cache import FINISHED, CachedSegment, MetadataCache
from tests.faults.broker_model.served_log import LocalLog, ServedLog
from tests.faults.broker_model.tier_contents import TierContents
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.brokers.metadata_fold import MetadataRecord
from tierfold.compaction.model.errors import UnreadableObject

BROKERS: Final = 2

class Sent(NamedTuple):
    """An event in the metadata topic."""

    event: Event
    timestamp_ms: int
    by: str
    """Who sent it; a broker's name begins with `broker`."""
    seen: int
    """How many events the sender had seen."""
    batch: range
    """The places of all events of its batch."""

    @property
    def is_by_broker(self) -> bool:
        """Whether a broker sent it."""
        return self.by.startswith("broker")


@dataclass(slots=True)
class Broker:
    """A broker's cache, and how far it has read."""

    cache: MetadataCache = field(default_factory=MetadataCache)
    due_ms: list[int] = field(default_factory=list)
    """When it applies each event of the topic."""
    applied: int = 0
    served: dict[int, CachedSegment] = field(default_factory=dict)
    """By offset, the segment that serves it."""


class Lost(NamedTuple):
    """Offsets that a broker served, and no longer does."""

    broker: int
    offsets: list[int]
    sent: Sent


@dataclass(slots=True, kw_only=True)
class Cluster:
    """The metadata topic, the brokers and the log that they serve."""

    rng: Random
    now_ms: Callable[[], int]
    log: ServedLog
    tier: TierContents
    refuses_older_ms: int
    """`message.timestamp.before.max.ms` of the metadata topic."""
    local_retention_ms: int
    deletes_listed: bool
    """Whether the expiry task deletes what is listed at the head of the log (from Kafka 4.0 on)."""
    lost: Callable[[Lost], None]
    """Called when an event takes away offsets."""
    wrong: Callable[[int, Wrong], None]
    """Called with a broker, and what consumers see wrongly through it."""
    lag_max_ms: int = 20_000
    """How far behind a broker's cache is at most; the grace period is far longer."""
    sent: list[Sent] = field(default_factory=list)
    records: list[MetadataRecord] = field(default_factory=list)
    whole: MetadataCache = field(default_factory=MetadataCache)
    """The state after all events of the topic."""
    brokers: list[Broker] = field(default_factory=lambda: [Broker() for _ in range(BROKERS)])
    leader: int = 0

    def __post_init__(self) -> None:
        self.log.locals = [LocalLog(borders=[0]) for _ in self.brokers]

    def send(self, events: Sequence[Event], *, sent_ms: int, by: str, seen: int) -> None:
        """Append a batch; raises UnreadableObject if the topic refuses its age."""
        now_ms = self.now_ms()
        self.ensure_young(sent_ms)
        first = len(self.sent)
        batch = range(first, first + len(events))
        for event in events:
            self.records.append(MetadataRecord(0, len(self.sent), sent_ms, encode(event), None))
            self.sent.append(Sent(event, sent_ms, by, seen, batch))
            self.whole.apply(event)
            for broker in self.brokers:
                last_ms = broker.due_ms[-1] if broker.due_ms else 0
                lag_ms = self.rng.choice((0, 0, 1_000, self.lag_max_ms))
                broker.due_ms.append(max(last_ms + 1, now_ms + self.rng.randint(0, lag_ms)))

    def ensure_young(self, sent_ms: int) -> None:
        """Raise UnreadableObject if the topic refuses what was sent so long ago."""
        if self.now_ms() - sent_ms > self.refuses_older_ms:
            raise UnreadableObject("INVALID_TIMESTAMP", where="metadata topic", remedy="Look.")

    def catch_up(self) -> None:
        """Let brokers apply what is due, one event after the other, and drop local segments."""
        now_ms = self.now_ms()
        while True:
            due = [
                (broker.due_ms[broker.applied], number)
                for number, broker in enumerate(self.brokers)
                if broker.applied < len(broker.due_ms)
            ]
            if not due or min(due)[0] > now_ms:
                break
            self._apply_next(min(due)[1])
        before = [local.start for local in self.log.locals]
        for number, broker in enumerate(self.brokers):
            tiered_to = broker.cache.highest_offset(self.log.lineage)
            self.log.drop_local(number, tiered_to, now_ms - self.local_retention_ms)
        if before != [local.start for local in self.log.locals]:
            self.check()

    def catch_up_wholly(self) -> None:
        """Let brokers apply all events."""
        for number, broker in enumerate(self.brokers):
            while broker.applied < len(self.sent):
                self._apply_next(number)

    @property
    def caches(self) -> list[MetadataCache]:
        """Of all brokers."""
        return [broker.cache for broker in self.brokers]

    def elect(self) -> int:
        """Let the other broker lead; returns its leader epoch. Its cache is as new as the old."""
        old = self.brokers[self.leader]
        self.leader = (self.leader + 1) % BROKERS
        while self.brokers[self.leader].applied < old.applied:
            self._apply_next(self.leader)
        return self.log.elect()

    def fetch(self, position: int) -> Fetched | OutOfRange | ObjectMissing:
        """Read from the leader."""
        if position < self.log.log_start:
            return OutOfRange(position)
        local_start = self.log.locals[self.leader].start
        cache = self.brokers[self.leader].cache
        return fetch(cache, self.log, self.tier, local_start, position)

    def move_log_start(self, offset: int) -> None:
        """Let no consumer read below an offset."""
        self.log.log_start = max(self.log.log_start, min(offset, self.log.end))
        self.check()

    def check(self) -> None:
        """Check what consumers read, through either broker."""
        for number in range(BROKERS):
            self._check(number)

    def open_batch(self, number: int) -> list[Sent]:
        """The batch of which a broker has applied the first events, not the last; empty: none."""
        applied = self.brokers[number].applied
        if applied and applied < self.sent[applied - 1].batch.stop:
            return [self.sent[place] for place in self.sent[applied - 1].batch]
        return []

    def holes(self, cache: MetadataCache) -> list[int]:
        """Offsets of the log that finished segments have and no look-up finds."""
        had = {
            offset
            for segment in cache.in_state(FINISHED)
            if self.is_of_log(segment.added.segment_id)
            for offset in range(segment.added.start_offset, segment.added.end_offset + 1)
        }
        return [
            offset
            for offset in sorted(had)
            if offset >= self.log.log_start and serving(cache, self.log, offset) is None
        ]

    def is_of_log(self, segment_id: str) -> bool:
        """Whether the segment has leader epochs of the present log."""
        content = self.tier.contents[segment_id]
        return content.epochs == self.log.epochs_of(content.start, content.end)

    def _apply_next(self, number: int) -> None:
        broker = self.brokers[number]
        sent = self.sent[broker.applied]
        broker.applied += 1
        if not broker.cache.apply(sent.event):
            return
        before = broker.served
        tiered = tiered_offsets(broker.cache, self.log)
        broker.served = broker.cache.all_found(self.log.lineage, tiered)
        gone = [
            offset
            for offset in before
            if offset not in broker.served and offset >= self.log.log_start
        ]
        if gone:
            self.lost(Lost(number, gone, sent))
        self._check(number)

    def _check(self, number: int) -> None:
        broker = self.brokers[number]
        tiered = tiered_offsets(broker.cache, self.log)
        for local_start in sorted({self.log.locals[number].start, tiered.stop}):
            for found in what_is_wrong(broker.served, self.log, self.tier, local_start):
                self.wrong(number, found)
