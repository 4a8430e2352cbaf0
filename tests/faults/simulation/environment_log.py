"""A partition's log as its leaders wrote it, with leader epochs, and what consumers must read.

    drawn_log(rng, segments)   the log, and the one that an unclean election truncated

The model is a dictionary: each key's newest record that was not aborted, unless it is a tombstone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, TypeAlias

from tests.jobs.chunked_logs import PRODUCERS, Broker, Upload
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.control_records import ControlType

KEYS: Final = (b"a", b"b", b"c", b"d")

FIRST_EPOCH: Final = 3

Record: TypeAlias = tuple[int, bytes, bytes | None]
"""Offset, key, value."""

Readable: TypeAlias = dict[bytes, tuple[int, bytes]]
"""Key → offset and value of its newest record."""

Batch: TypeAlias = tuple[int, int, int]
"""First offset, last offset, leader epoch."""


def readable(records: Iterable[Record]) -> Readable:
    """Return what a consumer has after it reads these records in offset order."""
    found: Readable = {}
    for offset, key, value in records:
        if value is None:
            found.pop(key, None)
        else:
            found[key] = (offset, value)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Branch:
    """One history of a partition, from its first batch to its last."""

    uploads: tuple[Upload, ...]
    """Its batches, each as the upload of a segment with one batch."""
    records: tuple[Record, ...]
    """Its committed records with a key, in offset order."""
    lineage: tuple[LeaderEpoch, ...]

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return beyond(self.uploads[-1].batches[-1])

    @property
    def batches(self) -> frozenset[Batch]:
        """Its batches' offsets and leader epochs, which identify them."""
        return frozenset(
            (batch.base_offset, beyond(batch) - 1, batch.leader_epoch)
            for upload in self.uploads
            for batch in upload.batches
        )

    def readable(self, start_offset: int, next_offset: int) -> Readable:
        """Return the model's dictionary for the offsets `[start_offset, next_offset)`."""
        return readable(
            record for record in self.records if start_offset <= record[0] < next_offset
        )

    def lineage_below(self, offset: int) -> tuple[LeaderEpoch, ...]:
        """Return the leader epochs that begin below an offset."""
        return tuple(
            leader_epoch for leader_epoch in self.lineage if leader_epoch.start_offset < offset
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the leaders of a partition wrote, one after the other."""

    log: Branch
    """The current history."""
    terms: tuple[int, ...]
    """The number of batches at the end of each leader's term; the last is all of `log`."""
    lost: Branch | None = None
    """The log that an unclean election truncated; None: there was no such election."""
    lost_term: int = -1
    """The term of the leader that wrote it, counted from 0."""

    @property
    def fork_offset(self) -> int:
        """The first offset at which the two histories differ; with one history, the log's end."""
        if self.lost is None:
            return self.log.next_offset
        place = self.terms[self.lost_term]
        return self.log.uploads[place].start_offset


def beyond(batch: BatchDraft) -> int:
    """Return the first offset after a batch."""
    return batch.base_offset + len(batch.records)


@dataclass(slots=True, kw_only=True)
class _Writer:
    """A leader; a deep copy of it is an in-sync follower."""

    epoch: int = FIRST_EPOCH
    lineage: list[LeaderEpoch] = field(
        default_factory=lambda: [LeaderEpoch(epoch=FIRST_EPOCH, start_offset=0)]
    )
    broker: Broker = field(default_factory=Broker)
    committed: list[Record] = field(default_factory=list)
    pending: dict[int, list[Record]] = field(default_factory=dict)

    def write(self, rng: Random) -> None:
        """Write the next batch, transactional or not, or a marker."""
        producer = rng.choice((-1, -1, -1, *PRODUCERS))
        if producer in self.pending and rng.random() < 0.6:
            self._end(rng, producer)
            return
        first = self.broker.next_offset
        pairs = [_pair(rng, first + i) for i in range(rng.randint(1, 3))]
        records = [(first + i, *pair) for i, pair in enumerate(pairs) if pair[0] is not None]
        if producer < 0:
            self.committed.extend(records)
        else:
            self.pending.setdefault(producer, []).extend(records)
        self.broker.roll()
        self.broker.append(pairs, producer)
        self._sign()

    def elect(self, epochs: int) -> None:
        """Elect the leader of a later epoch."""
        self.epoch += epochs
        self.lineage.append(LeaderEpoch(epoch=self.epoch, start_offset=self.broker.next_offset))

    def ended(self, rng: Random) -> Branch:
        """End every open transaction and return the log."""
        for producer in sorted(self.pending):
            self._end(rng, producer)
        self.broker.roll()
        return Branch(
            uploads=tuple(upload for upload in self.broker.uploads if upload.batches),
            records=tuple(sorted(self.committed)),
            lineage=tuple(self.lineage),
        )

    def _end(self, rng: Random, producer: int) -> None:
        kind = rng.choice((ControlType.COMMIT, ControlType.ABORT))
        records = self.pending.pop(producer)
        self.committed.extend(records if kind is ControlType.COMMIT else ())
        self.broker.roll()
        self.broker.end(producer, kind, is_listed=rng.random() < 0.7)
        self._sign()

    def _sign(self) -> None:
        batches = self.broker.uploads[-1].batches
        batches[-1] = replace(batches[-1], leader_epoch=self.epoch)


def drawn_log(rng: Random, segments: int) -> Written:
    """Draw a log of about `segments` segments, in which every transaction ends."""
    count = sum(rng.randint(1, 3) for _ in range(segments))
    elections = min(rng.choice((0, 0, 1, 1, 2)), count - 1)
    places = sorted(rng.sample(range(1, count), elections))
    lost_term = rng.randrange(elections) if elections and rng.random() < 0.45 else -1
    writer, lost = _Writer(), None
    for number in range(count):
        if number in places:
            if places.index(number) == lost_term:
                lost = _lost_branch(rng, copy.deepcopy(writer))
            writer.elect(rng.choice((1, 1, 2)))
        writer.write(rng)
    log = writer.ended(rng)
    return Written(log=log, terms=(*places, len(log.uploads)), lost=lost, lost_term=lost_term)


def _lost_branch(rng: Random, leader: _Writer) -> Branch:
    """Return the log of a leader that continues alone; it truncates this log when it is back."""
    for _ in range(rng.randint(1, 3)):
        leader.write(rng)
    return leader.ended(rng)


def _pair(rng: Random, offset: int) -> tuple[bytes | None, bytes | None]:
    """Draw a key and a value: one in ten has no key, one in four is a tombstone."""
    key = None if rng.random() < 0.1 else rng.choice(KEYS)
    return key, None if rng.random() < 0.25 else b"value of %d" % offset


def joined(uploads: Sequence[Upload]) -> Upload:
    """Join neighbouring batches into one segment."""
    return Upload(
        start_offset=uploads[0].start_offset,
        batches=[batch for upload in uploads for batch in upload.batches],
        aborted=[entry for upload in uploads for entry in upload.aborted],
        producers=uploads[-1].producers,
    )
