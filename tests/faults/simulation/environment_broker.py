"""Brokers upload the segments that `environment_uploads` draws, object by object; some fail midway.

An upload may lack objects, and its `.log` may be torn. The broker then uploads the segment again:
at once, after all the others, or never.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from tests.faults.malformed.malformed_reference import cut_in_batches
from tests.faults.simulation.environment_bucket import BucketObjects, VirtualS3, store_of
from tests.faults.simulation.environment_log import Written, drawn_log
from tests.faults.simulation.environment_store import Objects
from tests.faults.simulation.environment_uploads import Shipment, drawn_shipments
from tests.faults.simulation.simulation_scheduler import DAY_MS, HOUR_MS, Actor, Call, Fault
from tests.jobs.tiers import segment_parts
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid
from tierfold.storage.tiers.local_tiered_storage import part_key
from tierfold.storage.tiers.remote_tier import Part, SegmentAddress

BROKER_FAULTS: Final = frozenset({Fault.STALLED, Fault.FAILED})
"""No unanswered writes: they lead to two complete uploads of one segment. A broker knows which one
counts, but tierfold does not read that, so it could not choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try to upload a segment, with its own segment id."""

    segment_id: str
    keys: dict[Part, str]
    """Keys of its objects, even those that never arrive."""
    is_torn: bool
    """Its `.log` is incomplete."""
    is_foreign: bool
    """Its records are not in this partition's log."""
    is_of_directory: bool = False
    """`tierfold upload` made it of a log directory, which has its records still."""


@dataclass(slots=True, kw_only=True)
class History:
    """A partition of one topic id, as its producers and brokers wrote it."""

    key: PartitionKey
    written: Written
    to_come: list[Shipment]
    """Segments that are not uploaded yet, in order."""
    attempts: list[Attempt] = field(default_factory=list)
    moved_away: set[str] = field(default_factory=set)
    """Keys of objects that a person moved out of the tier."""
    set_aside: dict[str, bytes] = field(default_factory=dict)
    """Content by key of objects moved away for a while; a person brings back those of brokers."""
    is_given_up: bool = False
    """A person gave up the segments that are set apart."""
    is_deleted: bool = False
    """The topic was deleted, so its broker removes its objects."""

    @property
    def objects(self) -> list[str]:
        """Keys of all objects that brokers wrote or tried to write."""
        return [key for attempt in self.attempts for key in attempt.keys.values()]


def history(rng: Random, key: PartitionKey, segments: int) -> History:
    """Draw a log of about `segments` segments and its uploads."""
    written = drawn_log(rng, segments)
    return History(key=key, written=written, to_come=drawn_shipments(rng, written))


def upload(actor: Actor, objects: Objects, log: History, count: int) -> None:
    """Upload the next `count` segments; a failed upload is retried, postponed or dropped."""
    rng = actor.scheduler.rng
    for _ in range(count):
        if not log.to_come:
            return
        shipment = log.to_come.pop(0)
        if shipment.foreign_until and not actor.is_witness:
            continue  # Nothing shows that it is foreign, unless the true segment is there too.
        while not _is_uploaded(actor, objects, log, shipment):
            draw = rng.random()
            if draw < 0.5:
                actor.sleep(rng.choice((0, DAY_MS, 4 * DAY_MS)))
                continue
            log.to_come += [shipment] if draw < 0.8 else []
            break


def _is_uploaded(actor: Actor, objects: Objects, log: History, shipment: Shipment) -> bool:
    """Make one attempt, with a new segment id; some stop midway and leave objects behind."""
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
    name = new_kafka_uuid()
    address = SegmentAddress(log.key, name, content.start_offset)
    keys = {part: part_key(address, part) for part in order}
    log.attempts.append(
        Attempt(
            segment_id=name, keys=keys, is_torn=is_torn, is_foreign=shipment.foreign_until > 0
        )
    )
    for part in order:
        if part is ends_before or not _is_put(actor, objects, keys[part], parts[part]):
            return False
    return not is_torn


def _torn(log: bytes, length: int) -> bytes:
    """Return the first bytes of a log, one byte fewer if a batch ends there.

    A log that ends with a whole batch would look complete.
    """
    return log[: length - (length in accumulate(map(len, cut_in_batches(log))))]


def _is_put(actor: Actor, objects: Objects, key: str, content: bytes) -> bool:
    try:
        if isinstance(objects, BucketObjects):
            _put_in_bucket(actor, objects, key, content)
        else:
            store_of(actor, objects).create(key, content)
    except (UnreadableObject, ClientError, BotoCoreError):
        return False
    return True


def _put_in_bucket(actor: Actor, objects: BucketObjects, key: str, content: bytes) -> None:
    """Upload slowly, as a broker's plugin does; if that fails, parts may stay behind."""
    s3, rng = VirtualS3(actor, objects, is_from_broker=True), actor.scheduler.rng
    if len(content) <= objects.part_bytes:
        s3.put_object(Key=key, Body=content)
        return
    name = s3.create_multipart_upload(Key=key)["UploadId"]
    parts = []
    try:
        for number, at in enumerate(range(0, len(content), objects.part_bytes), 1):
            body = content[at : at + objects.part_bytes]
            s3.upload_part(Key=key, UploadId=name, PartNumber=number, Body=body)
            parts.append({"PartNumber": number})
            if not actor.is_witness:
                actor.sleep(rng.choice((0, 0, 0, HOUR_MS, 2 * DAY_MS)))
        s3.complete_multipart_upload(Key=key, UploadId=name, MultipartUpload={"Parts": parts})
    except (ClientError, BotoCoreError):
        if rng.random() < 0.5:
            with suppress(ClientError, BotoCoreError):
                s3.abort_multipart_upload(Key=key, UploadId=name)
        raise


def delete_topic(actor: Actor, objects: Objects, log: History) -> None:
    """Delete a topic: its broker removes its objects one by one."""
    log.is_deleted = True
    for key in log.objects:
        actor.do(
            Call(
                what=f"the broker deletes {key[-40:]}",
                effect=lambda key=key: objects.remove(key),
                faults=(Fault.STALLED,),
                error=RuntimeError,
            )
        )


def bring_back(objects: Objects, log: History) -> None:
    """Bring back the objects set aside that brokers uploaded, as their metadata shows."""
    theirs = log.set_aside.keys() & set(log.objects)
    for key in () if log.is_deleted else sorted(theirs):
        objects.put(key, log.set_aside[key])
        log.moved_away.discard(key)
    log.set_aside.clear()


def move_away(objects: Objects, log: History, keys: Collection[str]) -> None:
    """Move objects out of the tier, as a person does."""
    log.moved_away.update(keys)
    for key in keys:
        objects.remove(key)
