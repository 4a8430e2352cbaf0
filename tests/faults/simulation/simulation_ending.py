"""The end of a scenario: without faults, everything completes and the final checks hold.

    converge(environment)   run and vacuum every two days until nothing is due, then check
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from tests.compaction.hash_keys import HASH_KEY
from tests.faults.simulation.environment_broker import Attempt, History, move_away
from tests.faults.simulation.environment_bucket import BucketObjects, store_of
from tests.faults.simulation.environment_checks import Violation, keys_of
from tests.faults.simulation.environment_model import Tier
from tests.faults.simulation.simulation_actors import compact, deletion
from tests.faults.simulation.simulation_forgetting import forget_once
from tests.faults.simulation.simulation_scheduler import DAY_MS, Actor
from tests.faults.simulation.simulation_settings import Environment
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, partition_folder

ROUNDS_MAX: Final = 8
"""Nothing is due after this many runs and vacuums."""


def converge(environment: Environment) -> None:
    """Run and vacuum every two days until nothing is due, then check; raises Violation."""
    _moved_away(environment)
    for number in range(ROUNDS_MAX):
        environment.scheduler.now_ms += 2 * DAY_MS
        environment.due = 0
        _finish_forgetting(environment, number)
        for verb in (compact, deletion):
            _play(environment, partial(verb, environment, f"last-{verb.__name__}.{number}"))
        if not _moved_away(environment) and environment.due == 0:
            break
    else:
        raise Violation(f"{environment.due} partitions stay due")
    for violation in _final_violations(environment):
        raise Violation(violation)


def _play(environment: Environment, body: Callable[[Actor], None]) -> None:
    """Play one actor alone."""
    environment.scheduler.spawn("last", body)
    environment.scheduler.play()


def _finish_forgetting(environment: Environment, number: int) -> None:
    """If a person has begun to forget partitions, forget the diverged ones."""

    def forget(key: PartitionKey, actor: Actor) -> None:
        environment.due += forget_once(environment, key, f"last-forget.{number}", actor)

    for key, log in list(environment.histories.items()):
        if environment.forgets and not log.is_deleted and environment.watch.tier(key).is_diverged:
            _play(environment, partial(forget, key))


def _moved_away(environment: Environment) -> bool:
    """Move away the objects that refusals ask for; return whether there were any."""
    found = [
        (log, keys)
        for key, log in environment.histories.items()
        for keys in (
            *(tuple(attempt.keys.values()) for attempt in _to_move_away(environment, key, log)),
            _keys_of_no_broker(environment, key, log),
        )
        if not environment.objects.stored.keys().isdisjoint(keys)
    ]
    for log, keys in found:
        move_away(environment.objects, log, keys)
    return bool(found)


def _keys_of_no_broker(environment: Environment, key: PartitionKey, log: History) -> list[str]:
    """Return what a zombie wrote after the row was forgotten, if the partition is refused for it.

    If there is a row, `vacuum` deletes these objects.
    """
    if environment.watch.tier(key).row is not None or key not in environment.refused:
        return []
    folder = f"{partition_folder(key)}/"
    inside = {name for name in environment.objects.stored if name.startswith(folder)}
    return sorted(inside - set(log.objects))


def _to_move_away(environment: Environment, key: PartitionKey, log: History) -> Iterator[Attempt]:
    """Yield the uploads to move away: foreign ones, torn ones and, without a row, incomplete ones.

    A row that will be forgotten counts as no row.
    """
    tier = environment.watch.tier(key)
    is_new = tier.row is None or (environment.forgets and tier.is_truncated)
    if not is_new and key not in environment.refused:
        return
    whole = [upload.attempt for upload in tier.held if upload.is_complete]
    for attempt in log.attempts:
        is_incomplete = is_new and attempt not in whole
        if attempt.is_torn or attempt.is_foreign or is_incomplete:
            yield attempt


def _final_violations(environment: Environment) -> Iterator[str]:
    """Yield the violations at the end."""
    for key, log in environment.histories.items():
        if log.is_deleted:
            continue
        tier = environment.watch.tier(key)
        state = environment.watch.rows.get(key)
        violation = _refusal_violation(environment, key, tier)
        if violation:
            yield f"{key}: {violation}"
        if environment.forgets and tier.is_diverged and tier.may_be_forgotten:
            yield f"{key}: cannot be forgotten"
        if state is None:
            continue
        if state.owner_run.startswith("last"):
            yield f"{key}: {state.owner_run} still holds epoch {state.epoch}"
        # Uploads of a truncated log stay until a person acts.
        retired = [
            entry
            for entry in state.retired
            if entry.segment.written_by_run or not (tier.is_truncated or environment.is_bound)
        ]
        if retired:
            yield f"{key}: still retired: {retired}"
        yield from _corruptions(environment, state)
        if tier.row is not None and not tier.is_truncated:
            yield from _unclean(environment, state, tier)
            yield from _unneeded_objects(environment, state, tier)


def _refusal_violation(environment: Environment, key: PartitionKey, tier: Tier) -> str:
    """Return how the final refusal differs from the model's; empty: it does not."""
    if tier.row is None:
        # A partition within one open transaction has nothing to compact, so it is not claimed.
        must = not tier.held or tier.is_refused_without_row or tier.is_open
        is_refused = True
    else:
        must = tier.is_truncated or tier.waits_since(environment.scheduler.now_ms)
        is_refused = key in environment.refused
    if must == is_refused:
        return ""
    why = f"is refused, but must not be: {environment.refused.get(key)}"
    return why if is_refused else "is not refused, but must be refused"


def _unclean(environment: Environment, state: PartitionState, tier: Tier) -> Iterator[str]:
    """Yield how the partition is not clean or differs from the model."""
    key = state.key
    if tier.is_open:
        return
    is_clean = not state.segments or state.cleaner_offset == state.next_offset
    if not is_clean or state.next_offset != tier.reach:
        yield f"{key}: clean up to {state.cleaner_offset}, but uploads reach {tier.reach}"
    found = [
        record
        for segment in state.segments
        for record in environment.watch.records_of(key, segment)
    ]
    left = {name: (offset, value) for offset, name, value in found}
    expected = tier.branch.readable(state.log_start_offset, state.next_offset)
    if len(left) < len(found) or left != expected:
        yield f"{key}: the live records are {found}, not {expected}"


def _unneeded_objects(environment: Environment, state: PartitionState, tier: Tier) -> Iterator[str]:
    """Yield objects in the partition's folder that `vacuum` should have deleted."""
    folder = partition_folder(state.key)
    yield from _uploads_left(environment, folder)
    if environment.is_bound:
        return
    needed = {name for segment in state.segments for name in keys_of(state.key, segment)}
    lowest = environment.watch.lowest[state.key]
    for held in tier.held:
        if held.attempt.is_torn or tier.holds_unique_records(held, lowest):
            needed.update(held.attempt.keys.values())
    for attempt in tier.log.attempts:
        if attempt.is_torn:
            needed.update(attempt.keys.values())
    for name in sorted(environment.objects.stored.keys() | environment.objects.unfinished.keys()):
        # Below the log start the model does not know which segment replaced which.
        is_below = name.rpartition("/")[2] < f"{state.log_start_offset:020d}"
        if name.startswith(folder) and name not in needed and not is_below:
            yield f"{state.key}: {name} is not needed"


def _uploads_left(environment: Environment, folder: str) -> Iterator[str]:
    """Yield the unfinished uploads in a partition's folder that `vacuum` should have aborted."""
    objects = environment.objects
    for upload in objects.uploads.values() if isinstance(objects, BucketObjects) else ():
        if upload.key.startswith(folder) and not (upload.is_from_broker and environment.is_bound):
            yield f"the upload of {upload.key} was neither completed nor aborted"


def _corruptions(environment: Environment, state: PartitionState) -> Iterator[str]:
    """Yield the corruptions that `verify` finds in the live segments."""
    witness = Actor(name="witness", scheduler=environment.scheduler, is_witness=True)
    tier = LocalTieredStorage(store_of(witness, environment.objects))
    moved_away = environment.histories[state.key].moved_away
    for segment in state.segments:
        if not moved_away.isdisjoint(keys_of(state.key, segment)):
            continue
        order = CheckOrder(
            hash_key=HASH_KEY,
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
