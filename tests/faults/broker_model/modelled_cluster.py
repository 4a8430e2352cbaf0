"""A cluster of two brokers that serve one partition from a tier, driven by time.

Both read the metadata topic event by event, each with its own lag; a batch is not atomic. Readers
go to the leader. A broker that stops comes back without its cache, and serves no one until it has
read the topic again. Only time passes by itself: actors append, elect, upload and expire.

The topic may be truncated: then brokers go on from memory, and one that restarts forgets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from tests.faults.broker_model.consumers import (
    Fetched,
    ObjectMissing,
    OutOfRange,
    Unavailable,
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
    is_up: bool = True
    ready_at: int = 0
    """How many events it must have applied before consumers may read from it."""
    served: dict[int, CachedSegment] = field(default_factory=dict)
    """By offset, the segment that serves it."""
    lacks: bool = False
    """Whether it may lack something that the topic lost: it forgot, or had not read it."""

    @property
    def is_ready(self) -> bool:
        """Whether consumers may read from it."""
        return self.is_up and self.applied >= self.ready_at


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
    metadata_start: int = 0
    """The first offset of the topic; above 0, what stood before is lost."""
    is_lost: bool = False
    """Whether the row does not note yet that all is named again."""
    is_copying: bool = True
    """Whether leaders upload, and brokers drop local copies."""

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
                if broker.is_up and broker.applied < len(broker.due_ms)
            ]
            if not due or min(due)[0] > now_ms:
                break
            self._apply_next(min(due)[1])
        self._forgive()
        before = [local.start for local in self.log.locals]
        for number, broker in self.ready.items() if self.is_copying else ():
            tiered_to = broker.cache.highest_offset(self.log.lineage)
            self.log.drop_local(number, tiered_to, now_ms - self.local_retention_ms)
        if before != [local.start for local in self.log.locals]:
            self.check()

    def catch_up_wholly(self) -> None:
        """Let brokers apply all events."""
        for number, broker in enumerate(self.brokers):
            while broker.is_up and broker.applied < len(self.sent):
                self._apply_next(number)

    def lose_metadata(self) -> bool:
        """Truncate the topic if it has events and all brokers are up; return whether it is lost."""
        if not self.sent or len(self.ready) < BROKERS:
            return False
        for number, broker in enumerate(self.brokers):
            while self.open_batch(number):
                self._apply_next(number)  # A batch is fetched as one.
            broker.lacks = broker.applied < len(self.sent)
            broker.applied = len(self.sent)
        self.metadata_start, self.whole, self.is_lost = len(self.sent), MetadataCache(), True
        return True

    def _forgive(self) -> None:
        """Compare again what brokers read that find just what the topic says."""
        offsets = range(self.log.log_start, self.log.end)
        for broker in self.brokers:
            if broker.lacks and broker.is_ready and not self.is_lost:
                found = broker.cache.all_found(self.log.lineage, offsets)
                right = self.whole.all_found(self.log.lineage, offsets)
                ids = {offset: one.segment_id for offset, one in found.items()}
                broker.lacks = ids != {offset: one.segment_id for offset, one in right.items()}

    @property
    def ready(self) -> dict[int, Broker]:
        """The brokers from which consumers may read, by number."""
        return {number: one for number, one in enumerate(self.brokers) if one.is_ready}

    @property
    def has_leader(self) -> bool:
        """Whether consumers can read at all."""
        return self.brokers[self.leader].is_ready

    @property
    def follower(self) -> int:
        """The other broker."""
        return (self.leader + 1) % BROKERS

    def elect(self, leader: int) -> int:
        """Let a broker lead; returns its leader epoch. Its cache is as new as the old one's."""
        old, new = self.brokers[self.leader], self.brokers[leader]
        self.leader = leader
        while new is not old and new.applied < max(old.applied, new.ready_at):
            self._apply_next(leader)
        return self.log.elect()

    def stop(self, number: int) -> None:
        """Stop a broker at once."""
        self.brokers[number].is_up = False

    def start(self, number: int) -> None:
        """Start a broker: it reads the topic from what it had written down on, or from 0."""
        broker, now_ms = self.brokers[number], self.now_ms()
        written = self.rng.choice((0, self.rng.randint(0, broker.applied)))
        written = max(written, self.metadata_start)
        due_ms = sorted(now_ms + self.rng.randint(0, self.lag_max_ms) for _ in self.sent)
        self.brokers[number] = broker = Broker(due_ms=due_ms, ready_at=len(self.sent))
        broker.lacks = self.metadata_start > 0
        for sent in self.sent[self.metadata_start : written]:
            broker.cache.apply(sent.event)
        broker.applied = written
        if broker.is_ready:
            self._look_up(number)
            self._check(number)

    def fetch(self, position: int) -> Fetched | OutOfRange | ObjectMissing | Unavailable:
        """Read from the leader."""
        if not self.has_leader:
            return Unavailable()
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
        """Check what consumers read, through each broker."""
        for number in self.ready:
            self._check(number)

    def open_batch(self, number: int) -> list[Sent]:
        """The batch of which a broker has applied the first events, not the last; empty: none."""
        applied = self.brokers[number].applied
        if applied and applied < self.sent[applied - 1].batch.stop:
            return [self.sent[place] for place in self.sent[applied - 1].batch]
        return []

    def lost_after_batch(self, found: Lost) -> list[int]:
        """The offsets that a broker does not find either once it has applied the whole batch."""
        cache = deepcopy(self.brokers[found.broker].cache)
        for place in range(self.brokers[found.broker].applied, found.sent.batch.stop):
            cache.apply(self.sent[place].event)
        return [offset for offset in found.offsets if serving(cache, self.log, offset) is None]

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

    @property
    def is_without_holes(self) -> bool:
        """Whether all brokers serve, and find all that they have."""
        brokers = self.ready.values()
        return len(brokers) == BROKERS and not any(self.holes(one.cache) for one in brokers)

    def is_of_log(self, segment_id: str) -> bool:
        """Whether the segment has leader epochs of the present log."""
        content = self.tier.contents[segment_id]
        return content.epochs == self.log.epochs_of(content.start, content.end)

    def _apply_next(self, number: int) -> None:
        broker = self.brokers[number]
        sent, before, was_ready = self.sent[broker.applied], broker.served, broker.is_ready
        broker.applied += 1
        is_taken = broker.cache.apply(sent.event)
        if not broker.is_ready or (was_ready and not is_taken):
            return
        self._look_up(number)
        gone = [
            offset
            for offset in before
            if offset not in broker.served and offset >= self.log.log_start
        ]
        if gone:
            self.lost(Lost(number, gone, sent))
        self._check(number)

    def _look_up(self, number: int) -> None:
        """Look up again what a broker serves."""
        broker = self.brokers[number]
        tiered = tiered_offsets(broker.cache, self.log)
        broker.served = broker.cache.all_found(self.log.lineage, tiered)

    def _check(self, number: int) -> None:
        broker = self.brokers[number]
        tiered = tiered_offsets(broker.cache, self.log)
        for local_start in sorted({self.log.locals[number].start, tiered.stop}):
            for found in what_is_wrong(broker.served, self.log, self.tier, local_start):
                self.wrong(number, found)
