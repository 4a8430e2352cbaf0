"""A story: several runs, a zombie among them, brokers, readers; then calm, and what must be left.

    played(seed)   everything that a seed decides, checked after every step; raises Broken
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compaction.chunks import UNBOUND
from compaction.errors import TierfoldError
from compaction.rules import DAY_MS
from compaction.segments import PartitionState
from jobs.survey import Scope, in_order_of_work, survey
from jobs.waves import Waves
from storage.local_tiered_storage import LocalTieredStorage
from storage.segment_check import CheckOrder, read_and_check
from tests.faults.simulation_pipeline import VirtualPipeline
from tests.faults.simulation_scheduler import HOUR_MS, Actor
from tests.faults.simulation_world import World, deterministic, drawn_world
from tests.faults.world_broker import BROKER_FAULTS, History, upload
from tests.faults.world_checks import Broken
from tests.faults.world_store import VirtualStore

ROUNDS_MOST: Final = 8
"""So many quiet runs, a day apart, leave nothing to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened under one seed."""

    seed: int
    trace: tuple[str, ...]
    faults: Counter[str]
    outcomes: Counter[str]


def played(seed: int) -> Story:
    """Play the story of a seed; raises Broken, or whatever else was not to happen."""
    world = drawn_world(seed)
    with deterministic(world):
        _begin(world)
        world.scheduler.play()
        world.scheduler.calm_down()
        _converge(world)
    scheduler = world.scheduler
    return Story(
        seed=seed,
        trace=tuple(scheduler.trace),
        faults=scheduler.faults,
        outcomes=world.outcomes,
    )


def _begin(world: World) -> None:
    rng, scheduler = world.scheduler.rng, world.scheduler
    for log in tuple(world.histories.values()):
        begun = rng.randint(0, len(log.uploads))
        scheduler.spawn(
            f"broker of {log.key.topic}", partial(_broker, world, log, begun), allowed=BROKER_FAULTS
        )
    for number in range(rng.randint(2, 4)):
        after_ms = rng.choice((0, 0, 0, HOUR_MS, DAY_MS))
        scheduler.spawn(f"run{number}", partial(_runs, world), after_ms=after_ms)
    for number in range(rng.randint(0, 2)):
        after_ms = rng.choice((MINUTE_MS, HOUR_MS, DAY_MS))
        allowed = frozenset({Fault.STALLED})
        scheduler.spawn(f"reader{number}", partial(_reader, world), allowed=allowed)
    if rng.random() < 0.2:
        log = rng.choice(tuple(world.histories.values()))
        scheduler.spawn(
            "admin",
            partial(_made_anew, world, log),
            allowed=BROKER_FAULTS,
            after_ms=rng.choice((MINUTE_MS, HOUR_MS)),
        )


def _runs(world: World, actor: Actor) -> None:
    """A scheduler's runs, one after the other."""
    for number in range(world.scheduler.rng.randint(1, 3)):
        compact(world, actor, f"{actor.name}.{number}")


def compact(world: World, actor: Actor, run: str) -> None:
    """What `jobs.compact_job.compact` does, without a session of Spark."""
    live = world.wired(actor, run)
    try:
        surveyed = survey(live, world.settings, Scope())
    except TierfoldError as error:
        world.happened(f"{run}: survey failed", error.what)
        return
    due = in_order_of_work(surveyed)
    world.due = len(due)
    waves = Waves(
        live=live,
        pipeline=VirtualPipeline(driver=actor, objects=world.objects, tier=live.tier),
        budget=UNBOUND,
        started_at_ms=live.now_ms,
        record=lambda chunks, began_at_ms: None,
    )
    for report in waves.run(due):
        world.happened(f"{run}: {report.outcome}", f"{report.key}: {report.reason}")
    for each in surveyed:
        if isinstance(each.choice, Refusal):
            world.happened(f"{run}: refused", f"{each.key}: {each.choice.detail}")


def _broker(world: World, log: History, begun: int, actor: Actor) -> None:
    """Some segments at once, the others as time goes by, until the topic is deleted."""
    upload(actor, world.objects, log, begun)
    while log.uploaded < len(log.uploads) and not log.is_deleted:
        upload(actor, world.objects, log, 1)


def _made_anew(world: World, log: History, actor: Actor) -> None:
    """A topic is deleted and created again: its name stays, its id does not."""
    delete_topic(actor, world.objects, log)
    anew = history(world.scheduler.rng, replace(log.key, topic_id=new_segment_id()), 2)
    world.histories[anew.key] = anew
    upload(actor, world.objects, anew, len(anew.uploads))


def _reader(world: World, actor: Actor) -> None:
    """Reads a row, and then what it names: for the grace period all of it is there."""
    live = world.wired(actor, actor.name)
    for _ in range(4):
        began_ms, rows = world.scheduler.now_ms, live.catalog.read()
        for key in (key for state in rows.values() for s in state.segments for key in keys_of(state.key, s)):
            ...


def _converge(world: World) -> None:
    """Quiet runs, a day apart, until there is nothing to do; raises Broken where that is never.

    What a dead upload left of a partition that nobody has claimed yet, a person must move away.
    """
    for key, log in world.histories.items():
        if key not in world.watch.rows:
            for each in log.abandoned:
                world.objects.remove(each)
    for number in range(ROUNDS_MOST):
        world.scheduler.now_ms += DAY_MS
        world.scheduler.spawn(f"last{number}", lambda actor: compact(world, actor))
        world.scheduler.play()
        if world.due == 0:
            break
    else:
        raise Broken(f"{world.due} partitions are due for ever")
    for fault in _final_faults(world):
        raise Broken(fault)


def _final_faults(world: World) -> Iterator[str]:
    """What is left to be said against a world at rest."""
    rows = world.watch.rows
    for key, log in world.histories.items():
        if key not in rows:
            yield f"{key} was never claimed"
            continue
        state = rows[key]
        if state.owner_run:
            yield f"{key}: {state.owner_run} still holds epoch {state.epoch}"
        if state.cleaner_offset != state.next_offset != log.next_offset:
            yield f"{key}: clean up to {state.cleaner_offset} of {log.next_offset}"
        found = [
            record for each in state.segments for record in world.watch.records_of(key, each)
        ]
        left = {name: (offset, value) for offset, name, value in found}
        if len(left) < len(found) or left != log.readable(0, log.next_offset):
            yield f"{key}: at rest there are {found}"
        yield from _unsound(world, state)


def _unsound(world: World, state: PartitionState) -> Iterator[str]:
    """What `verify` says of each live segment."""
    witness = Actor(name="witness", scheduler=world.scheduler, is_witness=True)
    tier = LocalTieredStorage(VirtualStore(witness, world.objects))
    for segment in state.segments:
        order = CheckOrder(
            key=state.key,
            segment=segment,
            is_live=True,
            is_last=segment is state.segments[-1],
            index_interval_bytes=4096,
            buckets=1,
            aborted_now=None,
            aborted_before=None,
        )
        yield from read_and_check(tier, order).checked.faults
