"""Brokers at work: they upload what `world_uploads` has drawn, part by part, and not all arrives.

An upload may end before all its parts are there, and a log may be torn: then it is made again at
once, after all the others, or never.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Final

from tests.faults.malformed.malformed_reference import cut_in_batches
from tests.faults.simulation.environment_log import Written, drawn_log
from tests.faults.simulation.environment_store import Objects, VirtualStore
from tests.faults.simulation.environment_uploads import Shipment, drawn_shipments
from tests.faults.simulation.simulation_scheduler import DAY_MS, Actor, Call, Fault
from tests.jobs.tiers import segment_parts
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.kafka.kafka_uuid import new_segment_id
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, Part

BROKER_FAULTS: Final = frozenset({Fault.STALLED, Fault.FAILED})
"""A broker knows which of its uploads ended, and says so where this version does not listen: of two
that both ended nobody here could tell which one counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A segment of which at least one object was to be written."""

    segment_id: str
    keys: dict[Part, str]
    """Its objects, those included that never came."""
    is_torn: bool
    """Its log ends too early."""
    is_foreign: bool
    """It is no part of the log."""


@dataclass(slots=True, kw_only=True)
class History:
    """One partition of one incarnation of a topic, as its producers and brokers wrote it."""

    key: PartitionKey
    written: Written
    to_come: list[Shipment]
    """What is not uploaded yet, in the order in which it is tried."""
    attempts: list[Attempt] = field(default_factory=list)
    moved_away: set[str] = field(default_factory=set)
    """Keys that a person takes out of the tier."""
    put_by: dict[str, bytes] = field(default_factory=dict)
    """Those of them that come back if brokers uploaded them, and their content."""
    is_given_up: bool = False
    """A person has given up what belongs to no history that counts."""
    is_deleted: bool = False
    """The topic was deleted: its broker takes its objects away."""

    @property
    def objects(self) -> list[str]:
        """Keys of all that brokers wrote, or tried to."""
        return [key for attempt in self.attempts for key in attempt.keys.values()]


def history(rng: Random, key: PartitionKey, segments: int) -> History:
    """A log of about so many segments, and how it will be uploaded."""
    written = drawn_log(rng, segments)
    return History(key=key, written=written, to_come=drawn_shipments(rng, written))


def upload(actor: Actor, objects: Objects, log: History, count: int) -> None:
    """The next segments of a log; which way an upload goes that did not end, the dice say."""
    tier = LocalTieredStorage(VirtualStore(actor, objects))
    rng = actor.scheduler.rng
    for _ in range(count):
        if not log.to_come:
            return
        each = log.to_come.pop(0)
        if each.foreign_until and not actor.is_witness:
            continue  # Where its like is not there yet, nobody could tell that it is none.
        while not _is_uploaded(actor, tier, log, each):
            rng = rng.random()
            if rng < 0.5:
                actor.sleep(rng.choice((0, DAY_MS, 4 * DAY_MS)))
                continue
            log.to_come += [each] if rng < 0.8 else []
            break


def _is_uploaded(actor: Actor, tier: LocalTieredStorage, log: History, shipment: Shipment) -> bool:
    """One attempt, under an id of its own; some end on the way and leave what they wrote."""
    rng = actor.scheduler.rng
    content = shipment.upload
    parts = segment_parts(
        content.batches,
        start_offset=content.start_offset,
        aborted=content.aborted,
        producers=content.producers,
        lineage=shipment.lineage,
    )
    order = list(parts)
    if shipment.is_shuffled:
        rng.shuffle(order)
    is_cut = not actor.is_witness and rng.random() < 0.15 and not actor.scheduler.is_calm
    is_torn = is_cut and rng.random() < 0.3
    if is_torn:
        parts[Part.LOG] = _torn(parts[Part.LOG], rng.randrange(1, len(parts[Part.LOG])))
    ends_before = rng.choice((*order, None) if is_torn else order) if is_cut else None
    name = new_segment_id()
    keys = {part: tier.object_key(log.key, name, content.start_offset, part) for part in order}
    log.attempts.append(
        Attempt(
            segment_id=name, keys=keys, is_torn=is_torn, is_foreign=shipment.foreign_until > 0
        )
    )
    for part in order:
        if part is ends_before or not _is_put(tier, keys[part], parts[part]):
            return False
    return not is_torn


def _torn(log: bytes, length: int) -> bytes:
    """The first bytes of a log, one fewer where a batch ends there.

    Nobody could tell such a log from a whole one, so nothing that it shares would be its own.
    """
    return log[: length - (length in accumulate(map(len, cut_in_batches(log))))]


def _is_put(tier: LocalTieredStorage, key: str, content: bytes) -> bool:
    try:
        tier.store.create(key, content)
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


def commit_restore(objects: Objects, log: History) -> None:
    """A person brings back what brokers uploaded, as their metadata says."""
    theirs = log.put_by.keys() & set(log.objects)
    for key in () if log.is_deleted else sorted(theirs):
        objects.put(key, log.put_by[key])
        log.moved_away.discard(key)
    log.put_by.clear()


def move_away(objects: Objects, log: History, attempt: Attempt) -> None:
    """A person takes a segment out of the tier."""
    log.moved_away.update(attempt.keys.values())
    for key in attempt.keys.values():
        objects.remove(key)
