"""What a broker uploads, and what must be readable of it: the model that everything is held to.

The model is a dictionary: of each key the newest record that was not aborted, unless that is a
tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeAlias

from compaction.errors import UnreadableObject
from compaction.segments import PartitionKey
from storage.control_records import ControlType
from storage.local_tiered_storage import LocalTieredStorage, Part, StagedSegment
from tests.faults.simulation_scheduler import Actor, Call, Fault
from tests.faults.world_store import Objects, VirtualStore
from tests.jobs.chunked_logs import PRODUCERS, Broker, Upload
from tests.jobs.tiers import segment_parts

KEYS: Final = (b"a", b"b", b"c", b"d")

BROKER_FAULTS: Final = frozenset({Fault.STALLED, Fault.FAILED})
"""A broker knows which of its uploads ended, and says so where this version does not listen: of two
that both ended nobody here could tell which one counts."""

Record: TypeAlias = tuple[int, bytes, bytes | None]
"""Offset, key, value."""

Readable: TypeAlias = dict[bytes, tuple[int, bytes]]
"""Key → offset and value of its newest record."""


def readable(records: Iterable[Record]) -> Readable:
    """What a reader knows who has read records in offset order."""
    found: Readable = {}
    for offset, key, value in records:
        if value is None:
            found.pop(key, None)
        else:
            found[key] = (offset, value)
    return found


@dataclass(slots=True, kw_only=True)
class History:
    """One partition of one incarnation of a topic, as its producers wrote it."""

    key: PartitionKey
    uploads: tuple[Upload, ...]
    records: tuple[Record, ...]
    """All that were not aborted, and have a key, in offset order."""
    uploaded: int = 0
    """How many segments are in the tier."""
    objects: list[str] = field(default_factory=list)
    """Keys of what the broker wrote."""
    abandoned: list[str] = field(default_factory=list)
    """Those of attempts that did not end."""
    is_deleted: bool = False
    """The topic was deleted: its broker takes its objects away."""

    @property
    def next_offset(self) -> int:
        """Beyond the last segment."""
        last = self.uploads[-1].batches[-1]
        return last.base_offset + len(last.records)

    def readable(self, start_offset: int, end_offset: int) -> Readable:
        """By the model, of the offsets `[start_offset, end_offset)`."""
        return readable(each for each in self.records if start_offset <= each[0] < end_offset)


def history(rng: Random, key: PartitionKey, segments: int) -> History:
    """A log of so many segments, or one more, in which every transaction ends."""
    broker = Broker()
    committed: list[Record] = []
    pending: dict[int, list[Record]] = {}

    def end(producer: int) -> None:
        kind = rng.choice((ControlType.COMMIT, ControlType.ABORT))
        records = pending.pop(producer)
        committed.extend(records if kind is ControlType.COMMIT else ())
        broker.end(producer, kind, is_listed=rng.random() < 0.7)

    for _ in range(segments):
        broker.roll()
        for _ in range(rng.randint(1, 3)):
            producer = rng.choice((-1, -1, -1, *PRODUCERS))
            if producer in pending and rng.random() < 0.6:
                end(producer)
                continue
            first = broker.next_offset
            pairs = [_pair(rng, first + i) for i in range(rng.randint(1, 3))]
            records = [(first + i, *pair) for i, pair in enumerate(pairs) if pair[0] is not None]
            if producer < 0:
                committed.extend(records)
            else:
                pending.setdefault(producer, []).extend(records)
            broker.append(pairs, producer)
    for producer in sorted(pending):
        end(producer)
    broker.roll()
    uploads = tuple(each for each in broker.uploads if each.batches)
    return History(key=key, uploads=uploads, records=tuple(sorted(committed)))


def _pair(rng: Random, offset: int) -> tuple[bytes | None, bytes | None]:
    """One in ten has no key and is dropped by compaction; one in four is a tombstone."""
    key = None if rng.random() < 0.1 else rng.choice(KEYS)
    return key, None if rng.random() < 0.25 else b"value of %d" % offset


def upload(actor: Actor, objects: Objects, log: History, count: int) -> None:
    """The next segments of a log, part by part; an upload that fails is made again."""
    tier = LocalTieredStorage(VirtualStore(actor, objects))
    for each in log.uploads[log.uploaded : log.uploaded + count]:
        while not _is_uploaded(actor, tier, log, each):
            pass
        log.uploaded += 1


def _is_uploaded(actor: Actor, tier: LocalTieredStorage, log: History, each: Upload) -> bool:
    """One attempt, under an id of its own; some end on the way and leave what they wrote."""
    parts = segment_parts(
        each.batches,
        start_offset=each.start_offset,
        aborted=each.aborted,
        producers=each.producers,
    )
    rng = actor.scheduler.rng
    is_cut = not actor.is_witness and rng.random() < 0.1
    ends_before = rng.choice(tuple(parts)) if is_cut else None
    staged = tier.new_segment(log.key, each.start_offset)
    keys = [tier.object_key(log.key, staged.segment_id, each.start_offset, part) for part in parts]
    log.objects += keys
    for part, content in parts.items():
        is_end = part is ends_before and not actor.scheduler.is_calm
        if is_end or not _is_put(staged, part, content):
            log.abandoned += keys
            return False
    return True


def _is_put(staged: StagedSegment, part: Part, content: bytes) -> bool:
    try:
        staged.put(part, content)
    except UnreadableObject:
        return False
    return True


def delete_topic(actor: Actor, objects: Objects, log: History) -> None:
    """The broker takes away what it knows of: its own objects, one by one."""
    log.is_deleted = True
    for key in log.objects:
        actor.do(
            Call(
                what=f"the broker deletes {key[-40:]}",
                effect=lambda key=key: objects.remove(key),
                faults=(Fault.STALLED,),
                refusal=RuntimeError,
            )
        )
