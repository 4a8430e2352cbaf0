"""A story: several runs, a zombie among them, brokers, readers; then calm, and what must be left.

    played(seed)   all that a seed decides, checked after every step; and why it failed, if it did
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from compaction.segments import PartitionKey, PartitionState
from storage.local_tiered_storage import LocalTieredStorage, partition_folder
from storage.segment_check import CheckOrder, read_and_check
from tests.faults.simulation_actors import begin, compact, sweep
from tests.faults.simulation_scheduler import DAY_MS, Actor
from tests.faults.simulation_world import World, deterministic, drawn_world
from tests.faults.world_checks import Broken, keys_of
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
    failure: str
    """The law that was broken, or what else ended it; empty: it came to its good end."""


def played(seed: int) -> Story:
    """Play the story of a seed, to its end or to the first law that is broken."""
    world = drawn_world(seed)
    failure = ""
    with deterministic(world):
        try:
            begin(world)
            world.scheduler.play()
            world.scheduler.calm_down()
            _converge(world)
        except Broken as error:
            failure = str(error)
        except Exception:  # noqa: BLE001 - whatever it is, it was not to happen
            failure = traceback.format_exc()
    scheduler = world.scheduler
    return Story(
        seed=seed,
        trace=tuple(scheduler.trace),
        faults=scheduler.faults,
        outcomes=world.outcomes,
        failure=failure,
    )


def _converge(world: World) -> None:
    """Quiet runs and sweeps, days apart, until there is nothing to do; raises Broken if never.

    What a dead upload left of a partition that nobody has claimed yet, a person must move away.
    """
    for key, log in world.histories.items():
        if key not in world.watch.rows:
            for each in log.abandoned:
                world.objects.remove(each)
    for number in range(ROUNDS_MOST):
        world.scheduler.now_ms += 2 * DAY_MS
        world.due = 0
        for verb in (compact, sweep):
            run = f"last-{verb.__name__}.{number}"
            world.scheduler.spawn("last", partial(verb, world, run))
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
    needed: set[str] = set()
    for key, log in world.histories.items():
        if log.is_deleted:
            continue
        if key not in rows:
            yield f"{key} was never claimed"
            continue
        state = rows[key]
        if state.owner_run.startswith("last"):
            yield f"{key}: {state.owner_run} still holds epoch {state.epoch}"
        is_clean = not state.segments or state.cleaner_offset == state.next_offset
        if not is_clean or state.next_offset != log.next_offset:
            yield f"{key}: clean up to {state.cleaner_offset} of {log.next_offset}"
        found = [
            record for each in state.segments for record in world.watch.records_of(key, each)
        ]
        left = {name: (offset, value) for offset, name, value in found}
        if len(left) < len(found) or left != log.readable(state.log_start_offset, log.next_offset):
            yield f"{key}: at rest there are {found}"
        if state.retired:
            yield f"{key}: still retired: {state.retired}"
        needed |= {each for segment in state.segments for each in keys_of(key, segment)}
        yield from _unsound(world, state)
        yield from _unneeded(world, key, needed)


def _unneeded(world: World, key: PartitionKey, needed: set[str]) -> Iterator[str]:
    """What lies in the partition's folder and no row names."""
    folder = partition_folder(key)
    for each in sorted(world.objects.stored.keys() | world.objects.unfinished.keys()):
        if each.startswith(folder) and each not in needed:
            yield f"{key}: nobody needs {each}"


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
