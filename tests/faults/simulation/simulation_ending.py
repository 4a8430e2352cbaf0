"""The end of a scenario: without faults everything is finished, and the final checks hold.

    converge(environment)   quiet runs and vacuums, days apart, until nothing is due; then checks
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from tests.faults.simulation.environment_broker import Attempt, History, move_away
from tests.faults.simulation.environment_bucket import BucketObjects, store_of
from tests.faults.simulation.environment_checks import Broken, keys_of
from tests.faults.simulation.environment_model import Tier
from tests.faults.simulation.simulation_actors import compact, deletion
from tests.faults.simulation.simulation_forgetting import take_back
from tests.faults.simulation.simulation_scheduler import DAY_MS, Actor
from tests.faults.simulation.simulation_settings import Environment
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, partition_folder

ROUNDS_MOST: Final = 8
"""After this many quiet runs, days apart, nothing is due."""


def converge(environment: Environment) -> None:
    """Run quiet runs and vacuums, days apart, until nothing is due; raises Broken if never."""
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
    """Finish `tierfold forget` on the partitions that are diverged, if a person began it."""
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
    """Move away what refusals ask for; returns whether there was anything."""
    found = [
        (log, keys)
        for key, log in environment.histories.items()
        for keys in (
            *(tuple(attempt.keys.values()) for attempt in _to_move_away(environment, key, log)),
            _of_no_broker(environment, key, log),
        )
        if not environment.objects.stored.keys().isdisjoint(keys)
    ]
    for log, keys in found:
        move_away(environment.objects, log, keys)
    return bool(found)


def _of_no_broker(environment: Environment, key: PartitionKey, log: History) -> list[str]:
    """Return the keys that a zombie wrote after the row was forgotten, if that causes a refusal.

    If there is a row, `vacuum` deletes them.
    """
    if environment.watch.tier(key).row is not None or key not in environment.refused:
        return []
    folder = f"{partition_folder(key)}/"
    inside = {name for name in environment.objects.stored if name.startswith(folder)}
    return sorted(inside - set(log.objects))


def _to_move_away(environment: Environment, key: PartitionKey, log: History) -> Iterator[Attempt]:
    """Yield the uploads to move away: foreign, torn, or, without a row, incomplete.

    A row that is about to be forgotten counts as none.
    """
    tier = environment.watch.tier(key)
    is_new = tier.row is None or (environment.takes_back and tier.is_cut_off)
    if not is_new and key not in environment.refused:
        return
    whole = [upload.attempt for upload in tier.held if upload.is_complete]
    for attempt in log.attempts:
        is_cut_short = is_new and attempt not in whole
        if attempt.is_torn or attempt.is_foreign or is_cut_short:
            yield attempt


def _final_faults(environment: Environment) -> Iterator[str]:
    """Yield the violations in an environment at rest."""
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
        # Uploads of a log that was truncated stay until a person acts.
        retired = [
            entry
            for entry in state.retired
            if entry.segment.written_by_run or not (tier.is_cut_off or environment.is_bound)
        ]
        if retired:
            yield f"{key}: still retired: {retired}"
        yield from _unsound(environment, state)
        if tier.row is not None and not tier.is_cut_off:
            yield from _unfinished(environment, state, tier)
            yield from _unneeded(environment, state, tier)


def _refusal_fault(environment: Environment, key: PartitionKey, tier: Tier) -> str:
    """Return how a refusal at rest differs from the model's; empty: it does not."""
    if tier.row is None:
        # A partition wholly within an open transaction is not claimed: there is nothing to do.
        must = not tier.held or tier.is_refused_without_row or tier.is_open
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
    """Yield what is not clean, or differs from the model."""
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
    """Yield objects in the partition's folder that should have been deleted."""
    folder = partition_folder(state.key)
    yield from _uploads_left(environment, folder)
    if environment.is_bound:
        return
    needed = {name for segment in state.segments for name in keys_of(state.key, segment)}
    lowest = environment.watch.lowest[state.key]
    for held in tier.held:
        if held.attempt.is_torn or tier.holds_its_own(held, lowest):
            needed.update(held.attempt.keys.values())
    for attempt in tier.log.attempts:
        if attempt.is_torn:
            needed.update(attempt.keys.values())
    for name in sorted(environment.objects.stored.keys() | environment.objects.unfinished.keys()):
        # Below the log start it is unknown which segment replaced which.
        is_below = name.rpartition("/")[2] < f"{state.log_start_offset:020d}"
        if name.startswith(folder) and name not in needed and not is_below:
            yield f"{state.key}: {name} is not needed"


def _uploads_left(environment: Environment, folder: str) -> Iterator[str]:
    """Yield the unfinished uploads in a partition's folder that should have been aborted."""
    objects = environment.objects
    for upload in objects.uploads.values() if isinstance(objects, BucketObjects) else ():
        if upload.key.startswith(folder) and not (upload.is_brokers and environment.is_bound):
            yield f"the upload of {upload.key} was neither completed nor aborted"


def _unsound(environment: Environment, state: PartitionState) -> Iterator[str]:
    """Yield the corruptions that `verify` finds in the live segments."""
    witness = Actor(name="witness", scheduler=environment.scheduler, is_witness=True)
    tier = LocalTieredStorage(store_of(witness, environment.objects))
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
        yield from read_and_check(tier, order).checked.corruptions
