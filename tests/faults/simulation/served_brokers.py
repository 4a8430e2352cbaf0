"""What brokers, their operators and readers do: append, elect, upload, expire, delete, read."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.compaction.builders import KEY
from tests.faults.broker_model.consumers import (
    Fetched,
    ObjectMissing,
    OutOfRange,
    Unavailable,
)
from tests.faults.broker_model.metadata_cache import FINISHED, GONE, LISTED, STARTED
from tests.faults.broker_model.modelled_cluster import BROKERS, Broker
from tests.faults.broker_model.served_log import KEYS
from tests.faults.broker_model.tier_contents import PARTS, Content, Kept, kept
from tests.faults.simulation.served_environment import ServedEnvironment
from tests.faults.simulation.served_segments import upload_event
from tests.faults.simulation.served_table import failure
from tests.faults.simulation.served_verbs import put, remove
from tests.faults.simulation.simulation_scheduler import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Actor,
)
from tierfold.compaction.brokers.events import SegmentState, SegmentUpdated
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import LeaderEpoch

WAITS_MS: Final = (0, SECOND_MS, MINUTE_MS, 40 * MINUTE_MS, 5 * HOUR_MS, DAY_MS)
STRAYS: Final = 0.15
"""How often a deposed leader uploads records that the new one lacks."""

STOPS: Final = 0.1
"""How often an upload is never finished."""


def leads(environment: ServedEnvironment, epoch: int, broker: int, actor: Actor) -> None:
    """Append and upload as the leader of an epoch; an upload at work survives its end."""
    log, rng = environment.cluster.log, environment.rng
    for number in range(rng.randint(3, 8)):
        actor.sleep(rng.choice(WAITS_MS[:-1] if number else WAITS_MS[:3]))
        if log.lineage[-1][0] > epoch:
            return
        try:
            environment.act(
                actor, "append", lambda: log.append(rng.randint(1, 5), environment.now_ms)
            )
            for _ in range(rng.randint(0, 3)):
                upload_next(environment, broker, actor)
        except UnreadableObject as error:
            environment.happened(f"an upload failed: {error}")


def upload_next(environment: ServedEnvironment, broker: int, actor: Actor) -> bool:
    """Upload the local segment that has the next offset; return whether there was one."""
    cluster, rng = environment.cluster, environment.rng

    def begin() -> Content | None:
        if cluster.leader != broker or not cluster.has_leader or not cluster.is_copying:
            return None
        tiered_to = cluster.brokers[broker].cache.highest_offset(cluster.log.lineage)
        found = cluster.log.locals[broker].segment_at(max(tiered_to + 1, cluster.log.log_start))
        if found is None:
            return None
        first, last = found
        return Content(
            environment.new_id(is_own=False),
            first,
            last,
            cluster.log.epochs_of(first, last),
            kept(cluster.log.records[first : last + 1]),
        )

    content: Content | None = environment.act(actor, "look for a segment", begin, is_read=True)
    if content is None:
        return False
    _upload(environment, content, actor, stops=rng.random() < STOPS)
    environment.outcomes["uploads"] += 1
    return True


def _upload(
    environment: ServedEnvironment, content: Content, actor: Actor, *, stops: bool
) -> None:
    environment.tier.contents[content.segment_id] = content
    started = upload_event(content, environment.now_ms)
    environment.send(actor, (started,), len(environment.cluster.sent))
    rng = environment.rng
    for part in PARTS:
        if stops and rng.random() < 0.5:
            return
        put(environment, actor, content, part)
        if not environment.scheduler.is_calm:
            actor.sleep(rng.choice(WAITS_MS) if rng.random() < 0.2 else 0)
    if stops:
        return
    _update(environment, actor, content.segment_id, FINISHED)


def _update(
    environment: ServedEnvironment, actor: Actor, segment_id: str, state: SegmentState
) -> None:
    event = SegmentUpdated(KEY, segment_id, 1, environment.now_ms, b"\1", state)
    environment.send(actor, (event,), len(environment.cluster.sent))


def elects(environment: ServedEnvironment, actor: Actor) -> None:
    """Elect another leader now and then."""
    for _ in range(environment.rng.randint(0, 4)):
        actor.sleep(environment.rng.choice(WAITS_MS))
        elect(environment, actor)


def elect(environment: ServedEnvironment, actor: Actor) -> None:
    """Let the other broker lead, and go on with appends and uploads."""
    cluster = environment.cluster
    if not cluster.brokers[cluster.follower].is_up:
        return

    def elected() -> int | None:
        return cluster.elect(cluster.follower) if environment.may_restart else None

    is_stray = environment.rng.random() < STRAYS and not environment.has_loss
    try:
        is_unclean = is_stray and _uploads_all(environment, actor)
        epoch = environment.act(actor, "elect a leader", elected)
        if epoch is None:
            return
        environment.outcomes["elections"] += 1
        spawn_leader(environment, epoch)
        if is_unclean:
            _upload_stray(environment, actor)
    except UnreadableObject as error:
        environment.happened(f"an upload failed: {error}")


def _uploads_all(environment: ServedEnvironment, actor: Actor) -> bool:
    """Let the leader roll its last segment and upload all; return whether it did."""
    cluster = environment.cluster
    environment.act(actor, "roll", lambda: cluster.log.locals[cluster.leader].roll(cluster.log.end))
    while upload_next(environment, cluster.leader, actor):
        environment.act(actor, "read back", cluster.catch_up_wholly)
    cache = cluster.brokers[cluster.leader].cache
    return cache.highest_offset(cluster.log.lineage) == cluster.log.end - 1


def _upload_stray(environment: ServedEnvironment, actor: Actor) -> None:
    """Upload a segment of the deposed leader whose records the new one does not have."""
    log, rng = environment.cluster.log, environment.rng
    if len(log.lineage) < 2 or log.lineage[-1][1] != log.end:
        return
    if environment.cluster.whole.highest_offset(log.lineage) != log.end - 1:
        return  # Something was appended after the upload, and leaders upload in order.
    (epoch, _), first = log.lineage[-2], log.end
    last = first + rng.randint(0, 5)
    records = [
        Kept(offset, rng.choice(KEYS), "of no log", environment.now_ms)
        for offset in range(first, last + 1)
    ]
    entry = LeaderEpoch(epoch=epoch, start_offset=first)
    segment_id = environment.new_id(is_own=False)
    environment.strays.add(segment_id)
    content = Content(segment_id, first, last, (entry,), tuple(records))
    _upload(environment, content, actor, stops=False)
    environment.outcomes["strays"] += 1


def stops_brokers(environment: ServedEnvironment, actor: Actor) -> None:
    """Stop a broker now and then; meanwhile the other one leads, or none. Then it comes back."""
    for _ in range(environment.rng.randint(1, 3)):
        actor.sleep(environment.rng.choice(WAITS_MS))
        restarts(environment, actor)


def restarts(environment: ServedEnvironment, actor: Actor) -> None:
    """Stop a broker, unless it would forget what must be named again, and start it again."""
    cluster, rng = environment.cluster, environment.rng
    number = rng.randrange(BROKERS)
    if not environment.act(actor, f"stop broker {number}", partial(_stop, environment, number)):
        return
    actor.sleep(rng.choice(WAITS_MS[:-1]))
    if cluster.leader == number and rng.random() < 0.6:
        elect(environment, actor)
        actor.sleep(rng.choice(WAITS_MS[:-1]))
    environment.act(actor, f"start broker {number}", partial(cluster.start, number))
    if cluster.leader == number:
        epoch = environment.act(actor, "elect it again", partial(cluster.elect, number))
        spawn_leader(environment, epoch)


def _stop(environment: ServedEnvironment, number: int) -> bool:
    """Stop a broker, whatever its uploads are at; what it has sent may still arrive."""
    if not (environment.may_restart and environment.cluster.brokers[number].is_up):
        return False
    environment.cluster.stop(number)
    environment.scheduler.kill(f"broker {number} ")
    environment.outcomes["brokers stopped"] += 1
    return True


def spawn_leader(environment: ServedEnvironment, epoch: int) -> None:
    """Start the leader of an epoch."""
    broker = environment.cluster.leader
    environment.scheduler.spawn(
        f"broker {broker} in epoch {epoch}", partial(leads, environment, epoch, broker)
    )


def expires(environment: ServedEnvironment, actor: Actor) -> None:
    """Run the leader's expiry task now and then."""
    for _ in range(environment.rng.randint(2, 5)):
        actor.sleep(environment.rng.choice(WAITS_MS[2:]))
        try:
            expire(environment, actor)
        except UnreadableObject as error:
            environment.happened(f"expiry failed: {error}")


def expire(environment: ServedEnvironment, actor: Actor) -> bool:
    """Delete what lies below the log start or is too old; return whether there was something."""
    environment.act(actor, "expire", partial(_expire_by_age, environment))
    is_any = False
    while (segment_id := environment.act(actor, "list", partial(_next_over, environment))):
        is_any = True
        _delete(environment, actor, segment_id)
    return is_any


def _expire_by_age(environment: ServedEnvironment) -> None:
    """Move the log start behind segments at the head that are too old."""
    cluster = environment.cluster
    if environment.retention_ms < 0 or not cluster.has_leader:
        return
    cache = cluster.brokers[cluster.leader].cache
    for segment in cache.in_state(FINISHED):
        added = segment.added
        if added.start_offset > cluster.log.log_start:
            return
        if environment.now_ms - added.max_timestamp_ms <= environment.retention_ms:
            return
        cluster.move_log_start(added.end_offset + 1)


def _next_over(environment: ServedEnvironment) -> str:
    """The id of a segment that the leader deletes next; "": there is none."""
    cluster = environment.cluster
    if not cluster.has_leader:
        return ""
    cache = cluster.brokers[cluster.leader].cache
    for segment in cache.in_state(STARTED, FINISHED, LISTED):
        if segment.added.end_offset < cluster.log.log_start:
            return segment.segment_id
    if cluster.deletes_listed:
        epochs = [epoch for epoch, _ in cluster.log.lineage]
        found = cache.first_at_the_head(epochs, cluster.log.log_start)
        if found is not None:
            environment.outcomes["brokers deleted at the head"] += 1
            return found.segment_id
    return ""


def _delete(environment: ServedEnvironment, actor: Actor, segment_id: str) -> None:
    cluster = environment.cluster
    broker = cluster.brokers[cluster.leader]
    known = broker.cache.segments.get(segment_id)
    if known is not None and known.state is not LISTED:
        _update(environment, actor, segment_id, LISTED)
    for part in PARTS:
        _ensure_up(broker)
        remove(environment, actor, segment_id, part)
    _ensure_up(broker)
    _update(environment, actor, segment_id, GONE)
    environment.outcomes["segments expired"] += 1
    # The broker waits until its own cache shows the event.
    environment.act(actor, "read back", cluster.catch_up_wholly)


def _ensure_up(broker: Broker) -> None:
    """Raise UnreadableObject if the broker has stopped meanwhile, also if it is back."""
    if not broker.is_up:
        raise failure("the broker stopped")


def deletes_records(environment: ServedEnvironment, actor: Actor) -> None:
    """A person moves the log start, once or twice."""
    for _ in range(environment.rng.randint(1, 2)):
        actor.sleep(environment.rng.choice(WAITS_MS[2:]))
        log = environment.cluster.log
        offset = environment.rng.randint(log.log_start, max(log.log_start, log.end))
        environment.act(
            actor, f"DeleteRecords to {offset}", partial(environment.cluster.move_log_start, offset)
        )
        environment.outcomes["DeleteRecords"] += 1


def reads(environment: ServedEnvironment, actor: Actor) -> None:
    """Read from the start to the end, once or twice."""
    for _ in range(environment.rng.randint(1, 3)):
        actor.sleep(environment.rng.choice(WAITS_MS))
        environment.outcomes[f"reader: {_read(environment, actor)}"] += 1


def _read(environment: ServedEnvironment, actor: Actor) -> str:
    """Read from the log start to the end, with pauses; return how it ended."""
    cluster, rng = environment.cluster, environment.rng
    position, began_ms = cluster.log.log_start, environment.now_ms
    counting: dict[str, tuple[Kept, bool]] = {}
    is_forgotten = False
    # Half of them pause once, for most of the time in which they must see every tombstone.
    pauses_at = rng.randint(position, cluster.log.end) if rng.random() < 0.5 else -1
    while position < cluster.log.end:
        if pauses_at < 0:
            actor.sleep(rng.choice(WAITS_MS) if rng.random() < 0.3 else 0)
        elif position >= pauses_at:
            pauses_at = cluster.log.end
            actor.sleep(rng.randint(0, environment.delete_retention_ms))
        found = environment.act(
            actor, f"fetch {position}", partial(cluster.fetch, position), is_read=True
        )
        match found:
            case Unavailable():
                environment.outcomes["readers without a leader"] += 1
                actor.sleep(rng.choice(WAITS_MS[1:]))
            case OutOfRange():
                if position < cluster.log.log_start:
                    return "reset"
                if cluster.brokers[cluster.leader].lacks:
                    return "out of range without lost metadata"
                if position not in environment.excused:
                    environment.fail(f"a reader at {position} is out of range")
                return "out of range beside an upload"
            case ObjectMissing(segment_id=segment_id):
                if position < cluster.log.log_start:
                    return "reset"
                environment.fail(f"a reader at {position} misses an object of {segment_id}")
            case Fetched():
                is_forgotten |= cluster.brokers[cluster.leader].lacks
                taken = found.records[: rng.randint(1, 4)]
                position = found.position
                if len(taken) < len(found.records):
                    position = taken[-1].offset + 1
                for record in taken:
                    if record.key not in counting or record.rank > counting[record.key][0].rank:
                        counting[record.key] = (record, found.is_local)
    if is_forgotten:
        return "read without lost metadata"
    return _judge(environment, counting, position, began_ms)


def _judge(
    environment: ServedEnvironment,
    counting: dict[str, tuple[Kept, bool]],
    position: int,
    began_ms: int,
) -> str:
    """Compare what a reader has at the end of the log with what is right.

    `counting`: the record of each key that counts, and whether a local copy had it.
    """
    log = environment.cluster.log
    # A reader that began before the local copies of what was compacted before were gone may keep a
    # deleted key: a person has agreed to that.
    is_quick = environment.now_ms - began_ms <= environment.delete_retention_ms
    copies_ms = environment.cluster.local_retention_ms + HOUR_MS
    is_quick = is_quick and began_ms > environment.caught_up_ms + copies_ms
    # By versions a tombstone that is back may lie where a reader on its way has been.
    is_quick = is_quick and began_ms > environment.restored_ms
    newest = {one.key: one for one in sorted(log.records[:position], key=lambda one: one.rank)}
    for key, right in newest.items():
        value = counting[key][0].value if key in counting else None
        if right.offset < log.log_start:
            continue
        if right.value is not None and value != right.value:
            environment.fail(f"a reader has {key} = {value} instead of {right.value}")
        if right.value is None and value is not None and is_quick:
            if any(environment.late_with(value)):
                return "saw a late upload"
            if not log.has_outlived(key, value, position, is_local=counting[key][1]):
                environment.fail(f"a reader kept {key} = {value}, which was deleted")
            environment.outcomes["late records outlived a tombstone"] += 1
    return "in time" if is_quick else "too slow for tombstones"
