"""A scenario of a partition that brokers serve: first with faults, then until nothing is left.

    played_served(seed)   play the scenario of a seed, check every step, and return how it ended
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from functools import partial
from typing import Final

from tests.compaction.hash_keys import FINGERPRINT
from tests.faults.broker_model.modelled_cluster import BROKERS
from tests.faults.broker_model.tier_contents import PARTS
from tests.faults.simulation.environment_checks import Violation
from tests.faults.simulation.scenario import Scenario
from tests.faults.simulation.served_brokers import (
    WAITS_MS,
    deletes_records,
    elects,
    expire,
    expires,
    reads,
    spawn_leader,
    stops_brokers,
    upload_next,
)
from tests.faults.simulation.served_environment import ServedEnvironment, drawn_served
from tests.faults.simulation.served_rebuild import (
    copies_on,
    loses_metadata,
    move_out_what_a_loss_left,
    rebuild,
)
from tests.faults.simulation.served_restore import restore
from tests.faults.simulation.served_verbs import compact, compact_detached, vacuum
from tests.faults.simulation.simulation_scheduler import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Actor,
    Fault,
)
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.discovery.metadata_loss import is_known_since
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.publishing.steps import Done

ROUNDS_MAX: Final = 12
"""So many rounds of calm runs complete whatever was left open."""


def played_served(seed: int) -> Scenario:
    """Play the served scenario of a seed to its end, or to the first violation or error."""
    environment = drawn_served(seed)
    scheduler, failure = environment.scheduler, ""
    try:
        _begin(environment)
        scheduler.play()
        scheduler.calm_down()
        scheduler.spawn("calm", partial(_converge, environment))
        scheduler.play()
    except Violation as error:
        failure = str(error)
    except Exception:  # noqa: BLE001 - any error is a failure of the scenario
        failure = traceback.format_exc()
    return Scenario(
        seed=seed,
        trace=tuple(scheduler.trace),
        faults=scheduler.faults,
        outcomes=environment.outcomes,
        failure=failure,
    )


def _begin(environment: ServedEnvironment) -> None:
    """Append and upload a few segments, and start all actors."""
    rng, scheduler = environment.rng, environment.scheduler
    cluster = environment.cluster
    before = Actor(name="broker before", scheduler=scheduler, is_witness=True)
    environment.scheduler.is_calm = True
    cluster.log.append(rng.randint(8, 24), environment.now_ms)
    while rng.random() < 0.9 and upload_next(environment, cluster.leader, before):
        scheduler.pause(MINUTE_MS)
        cluster.catch_up()
    if rng.random() < 0.2 and not environment.has_loss:
        compact_detached(environment, Actor(name="d", scheduler=scheduler, is_witness=True))
        environment.outcomes["compacted before"] += 1
    environment.scheduler.is_calm = False
    spawn_leader(environment, 0)
    scheduler.spawn("broker's controller", partial(elects, environment), allowed=frozenset())
    scheduler.spawn("run at an election", partial(_runs_at_elections, environment))
    scheduler.spawn("broker's expiry task", partial(expires, environment))
    for number in range(rng.randint(2, 3)):
        scheduler.spawn(
            f"run{number}",
            partial(_runs, environment),
            after_ms=rng.choice((0, MINUTE_MS, HOUR_MS, DAY_MS)),
            stalls_at=rng.choice((0, 1, 2)) if number == 0 else 0,
        )
    for number in range(rng.randint(1, 2)):
        after_ms = rng.choice((HOUR_MS, 8 * HOUR_MS, DAY_MS))
        scheduler.spawn(f"vacuum{number}", partial(_vacuums, environment), after_ms=after_ms)
    if environment.has_restores:
        scheduler.spawn("person", partial(_restores, environment))
    if environment.has_loss:
        scheduler.spawn("loss", partial(loses_metadata, environment), allowed=frozenset())
    if rng.random() < 0.3:
        scheduler.spawn("admin", partial(deletes_records, environment), allowed=frozenset())
    if environment.has_stops:
        scheduler.spawn("operator", partial(stops_brokers, environment), allowed=frozenset())
    for number in range(rng.randint(2, 4)):
        allowed = frozenset({Fault.STALLED})
        scheduler.spawn(f"reader{number}", partial(reads, environment), allowed=allowed)


def _runs(environment: ServedEnvironment, actor: Actor) -> None:
    for number in range(environment.rng.randint(1, 3)):
        compact(environment, actor, f"{actor.name}.{number}", passes=environment.rng.randint(0, 2))
        actor.sleep(environment.rng.choice(WAITS_MS))


def _runs_at_elections(environment: ServedEnvironment, actor: Actor) -> None:
    """Run while a new leader uploads once more what the old one has uploaded."""
    lineage, seen = environment.cluster.log.lineage, 1
    for _ in range(20):
        actor.sleep(environment.rng.choice((SECOND_MS, MINUTE_MS, 3 * HOUR_MS)))
        if len(lineage) > seen:
            seen = len(lineage)
            compact(environment, actor, f"{actor.name} {seen}", passes=2)


def _restores(environment: ServedEnvironment, actor: Actor) -> None:
    for number in range(environment.rng.randint(1, 4)):
        actor.sleep(environment.rng.choice((MINUTE_MS, HOUR_MS // 2, HOUR_MS, 8 * HOUR_MS)))
        restore(environment, actor, f"{actor.name}.{number}")


def _vacuums(environment: ServedEnvironment, actor: Actor) -> None:
    for number in range(environment.rng.randint(1, 3)):
        vacuum(environment, actor, f"{actor.name}.{number}")
        actor.sleep(environment.rng.choice(WAITS_MS))


def _converge(environment: ServedEnvironment, actor: Actor) -> None:
    """Run everything without faults until nothing is left to do, and check what is left."""
    scheduler, cluster = environment.scheduler, environment.cluster
    broker = Actor(name="broker", scheduler=scheduler, is_witness=True)
    calm = Actor(name="calm", scheduler=scheduler, is_witness=True)
    for number in range(ROUNDS_MAX):
        scheduler.pause(8 * HOUR_MS)
        if number == ROUNDS_MAX // 2 and environment.has_loss and environment.may_restart:
            _restart_all(environment)
        cluster.catch_up()
        _rebuild_calmly(environment, broker, calm, f"rebuild calm{number}")
        # Without new records a dead upload holds its group until another one covers it.
        cluster.log.locals[cluster.leader].roll(cluster.log.end)
        while upload_next(environment, cluster.leader, broker):
            cluster.catch_up_wholly()
        expire(environment, broker)
        step = compact(environment, calm, f"calm{number}", passes=0)
        cluster.catch_up_wholly()
        scheduler.pause(DAY_MS)
        move_out_what_a_loss_left(environment, calm)
        vacuum(environment, calm, f"vacuum{number}")
        cluster.catch_up_wholly()
        if isinstance(step, Done) and not _left(environment):
            return
    environment.fail(f"{step} after {ROUNDS_MAX} rounds: {_left(environment)}")


def _rebuild_calmly(
    environment: ServedEnvironment, broker: Actor, calm: Actor, name: str
) -> None:
    """Name all again, if it is due, once brokers have deleted what lies below the log start."""
    for number in range(2):
        if environment.is_rebuild_due:
            expire(environment, broker)
            rebuild(environment, calm, f"{name}.{number}")
            environment.cluster.catch_up_wholly()
    copies_on(environment)


def _restart_all(environment: ServedEnvironment) -> None:
    """Restart the brokers one by one: of what was retired they remember more than the topic."""
    cluster = environment.cluster
    for number in range(BROKERS):
        cluster.stop(number)
        cluster.start(number)
        cluster.catch_up_wholly()
    cluster.elect(cluster.leader)
    environment.outcomes["brokers restarted at the end"] += 1


def _left(environment: ServedEnvironment) -> str:
    """What is not as it must be at the end, or ""."""
    cluster, row = environment.cluster, environment.table.row
    if holes := cluster.holes(cluster.whole):
        return f"offsets {holes} are out of range"
    if environment.is_rebuild_due or any(broker.lacks for broker in cluster.brokers):
        return "brokers do not have what the tier has"
    if row.retired:
        return f"still retired: {sorted(row.retired_ids)}"
    if unpublished := sorted(_unpublished(environment)):
        return f"live and not published: {unpublished}"
    live = {one.segment_id for one in row.segments}
    for segment in cluster.whole.segments.values():
        is_right = segment.segment_id in live and segment.state is SegmentState.COPY_FINISHED
        # A rebuild names uploads, too; those that others cover stay as any dead one.
        is_ours = maker_of(segment.segment_id, FINGERPRINT) is Maker.THIS_CATALOG
        if is_ours and not is_right:
            return f"brokers have {segment.segment_id} in {segment.state.name}"
    for segment_id in environment.tier.present() - live:
        written_ms = max(environment.tier.objects.get((segment_id, part), 0) for part in PARTS)
        is_known = is_known_since(row, cluster.metadata_start, written_ms)
        if maker_of(segment_id, FINGERPRINT) is Maker.THIS_CATALOG and is_known:
            return f"an object of {segment_id} is left"
    return ""


def _unpublished(environment: ServedEnvironment) -> Iterator[str]:
    """What is live, and brokers do not have of it what they must.

    An upload that its leader never finished, or that another one contains, is read through others.
    """
    cluster = environment.cluster
    offsets = range(cluster.log.log_start, cluster.log.end)
    found = cluster.whole.all_found(cluster.log.lineage, offsets)
    finished = {one.segment_id for one in cluster.whole.in_state(SegmentState.COPY_FINISHED)}
    for segment in environment.table.row.segments:
        its = set(range(segment.own_start_offset, segment.end_offset + 1)).intersection(offsets)
        is_upload = segment.is_named_by_brokers
        if its and (segment.segment_id not in finished) and not (is_upload and its <= found.keys()):
            yield segment.segment_id
