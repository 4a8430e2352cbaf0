"""The end of a story: nothing goes wrong any more, and what must be left is there.

    converge(world)    quiet runs and vacuums, days apart, until nothing is due; then the last laws
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from tests.faults.simulation.environment_broker import Attempt, History, move_away
from tests.faults.simulation.environment_checks import Broken, keys_of
from tests.faults.simulation.environment_model import Tier
from tests.faults.simulation.environment_store import VirtualStore
from tests.faults.simulation.simulation_actors import compact, deletion
from tests.faults.simulation.simulation_forgetting import take_back
from tests.faults.simulation.simulation_scheduler import DAY_MS, Actor
from tests.faults.simulation.simulation_settings import Environment
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, partition_folder

ROUNDS_MOST: Final = 8
"""So many quiet runs, a day apart, leave nothing to be done."""


def converge(environment: Environment) -> None:
    """quiet runs and vacuums, days apart, until there is nothing to do; raises Broken if never."""
    _tidied(environment)
    for number in range(ROUNDS_MOST):
        environment.scheduler.now_ms += 2 * DAY_MS
        environment.due = 0
        _take_back(environment, number)
        for verb in (compact, deletion):
            run = f"last-{verb.__name__}.{number}"
            environment.scheduler.spawn("last", partial(verb, environment, run))
            environment.scheduler.play()
        if not _tidied(environment) and environment.due == 0:
            break
    else:
        raise Broken(f"{environment.due} partitions are due for ever")
    for fault in _final_faults(environment):
        raise Broken(fault)


def _take_back(environment: Environment, number: int) -> None:
    """Somebody who has begun to forget what was cut off goes on until it is done."""
    for key, log in list(environment.histories.items()):
        if (
            environment.takes_back
            and not log.is_deleted
            and environment.watch.tier(key).is_diverged
        ):
            run = f"last-forget.{number}"
            environment.scheduler.spawn("last", partial(_takes_back, environment, key, run))
            environment.scheduler.play()


def _takes_back(environment: Environment, key: PartitionKey, run: str, actor: Actor) -> None:
    environment.due += take_back(environment, key, run, actor)


def _tidied(environment: Environment) -> bool:
    """A person does what refusals say; whether there was anything to do."""
    candidates = [
        (log, attempt)
        for key, log in environment.histories.items()
        for attempt in _strangers(environment, key, log)
        if environment.objects.stored.keys() & set(attempt.keys.values())
    ]
    for log, attempt in candidates:
        move_away(environment.objects, log, attempt)
    left = [
        (log, name)
        for key, log in environment.histories.items()
        for name in _of_no_broker(environment, key, log)
    ]
    for log, name in left:
        log.moved_away.add(name)
        environment.objects.remove(name)
    return bool(candidates or left)


def _of_no_broker(environment: Environment, key: PartitionKey, log: History) -> list[str]:
    """What a zombie wrote once the row was forgotten, where first sight is refused.

    Where there is a row, `vacuum` needs no hand for it.
    """
    if environment.watch.tier(key).row is not None or key not in environment.refused:
        return []
    folder = f"{partition_folder(key)}/"
    inside = {each for each in environment.objects.stored if each.startswith(folder)}
    return sorted(inside - set(log.objects))


def _strangers(environment: Environment, key: PartitionKey, log: History) -> Iterator[Attempt]:
    """What is to be moved away: what is no upload of the log, or not whole.

    Where there is a row, what merely lacks a part needs no hand: it is taken for what it is; unless
    that row is to be forgotten.
    """
    tier = environment.watch.tier(key)
    is_on_first_sight = tier.row is None or (environment.takes_back and tier.is_cut_off)
    if not is_on_first_sight and key not in environment.refused:
        return
    whole = [upload.attempt for upload in tier.held if upload.is_complete]
    for attempt in log.attempts:
        is_cut_short = is_on_first_sight and attempt not in whole
        if attempt.is_torn or attempt.is_foreign or is_cut_short:
            yield attempt


def _final_faults(environment: Environment) -> Iterator[str]:
    """What is left to be said against a world at rest."""
    for key, log in environment.histories.items():
        if log.is_deleted:
            continue
        tier = environment.watch.tier(key)
        state = environment.watch.rows.get(key)
        fault = _refusal_fault(environment, key, tier)
        if fault:
            yield f"{key}: {fault}"
        if environment.takes_back and tier.is_diverged and tier.may_be_forgotten:
            yield f"{key}: cannot be forgotten"
        if state is None:
            continue
        if state.owner_run.startswith("last"):
            yield f"{key}: {state.owner_run} still holds epoch {state.epoch}"
        # What was uploaded of a log that was cut off stays until a person has looked.
        retired = [
            entry
            for entry in state.retired
            if entry.segment.written_by_run or not tier.is_cut_off
        ]
        if retired:
            yield f"{key}: still retired: {retired}"
        yield from _unsound(environment, state)
        if tier.row is not None and not tier.is_cut_off:
            yield from _unfinished(environment, state, tier)
            yield from _unneeded(environment, state, tier)


def _refusal_fault(environment: Environment, key: PartitionKey, tier: Tier) -> str:
    """How what is refused at rest is not what a person must look at."""
    if tier.row is None:
        # What is all within an open transaction is not claimed either: there is nothing to do.
        must = not tier.held or tier.is_refused_on_first_sight or tier.is_open
        is_refused = True
    else:
        must = tier.is_cut_off or tier.waits_since(environment.scheduler.now_ms)
        is_refused = key in environment.refused
    if must == is_refused:
        return ""
    return (
        f"refused: {environment.refused.get(key)}" if is_refused else "goes on, and must be refused"
    )


def _unfinished(environment: Environment, state: PartitionState, tier: Tier) -> Iterator[str]:
    """What is not clean, or not as the model has it."""
    key = state.key
    if tier.is_open:
        return
    is_clean = not state.segments or state.cleaner_offset == state.next_offset
    if not is_clean or state.next_offset != tier.reach:
        yield f"{key}: clean up to {state.cleaner_offset} of {tier.reach}"
    found = [
        record
        for segment in state.segments
        for record in environment.watch.records_of(key, segment)
    ]
    left = {name: (offset, value) for offset, name, value in found}
    expected = tier.branch.readable(state.log_start_offset, state.next_offset)
    if len(left) < len(found) or left != expected:
        yield f"{key}: at rest there are {found}"


def _unneeded(environment: Environment, state: PartitionState, tier: Tier) -> Iterator[str]:
    """What lies in the partition's folder, no row names, and nobody could miss."""
    folder = partition_folder(state.key)
    needed = {each for segment in state.segments for each in keys_of(state.key, segment)}
    lowest = environment.watch.lowest[state.key]
    for held in tier.held:
        if held.attempt.is_torn or tier.holds_its_own(held, lowest):
            needed.update(held.attempt.keys.values())
    for attempt in tier.log.attempts:
        if attempt.is_torn:
            needed.update(attempt.keys.values())
    for each in sorted(environment.objects.stored.keys() | environment.objects.unfinished.keys()):
        # Below the log start nobody can tell any more what is in whose place.
        is_below = each.rpartition("/")[2] < f"{state.log_start_offset:020d}"
        if each.startswith(folder) and each not in needed and not is_below:
            yield f"{state.key}: nobody needs {each}"


def _unsound(environment: Environment, state: PartitionState) -> Iterator[str]:
    """What `verify` says of each live segment."""
    witness = Actor(name="witness", scheduler=environment.scheduler, is_witness=True)
    tier = LocalTieredStorage(VirtualStore(witness, environment.objects))
    moved_away = environment.histories[state.key].moved_away
    for segment in state.segments:
        if not moved_away.isdisjoint(keys_of(state.key, segment)):
            continue
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
