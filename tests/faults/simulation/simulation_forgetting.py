"""A person runs `tierfold forget`, at the right time or not, and does what its refusals ask for.

    forgets(environment, actor)                 an actor that tries a few times
    forget_once(environment, key, run, actor)   one try, and what its refusal asks for
    restore_once(…)                             one `tierfold restore`
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tests.faults.simulation.environment_broker import bring_back, move_away
from tests.faults.simulation.environment_checks import keys_of
from tests.faults.simulation.simulation_scheduler import DAY_MS, HOUR_MS, Actor
from tests.faults.simulation.simulation_settings import Environment
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.pipeline.partition_report import FORGOTTEN, REFUSED, RESTORED
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.forget import forget
from tierfold.jobs.verbs.restore import restore
from tierfold.storage.tiers.local_tiered_storage import partition_folder

_RESTORE_TO: Final = re.compile(r"--to (\S+)`")
_NOT_RESTORABLE: Final = "objects of these live segments out of the tier"
_AT_WORK: Final = "is at work on it"
_VACUUM_FIRST: Final = "First run `tierfold vacuum`"
_LACKING: Final = re.compile(r"segment ([\w-]{22}) \(start \d+\) lacks ")
_DOUBTFUL: Final = re.compile(r"the new log may need them: ([\w, -]+)")
_ID_LENGTH: Final = 22


def forgets(environment: Environment, actor: Actor) -> None:
    """Forget a few partitions, truncated or not; `converge` forgets the other truncated ones."""
    rng = environment.scheduler.rng
    environment.forgets = True
    for number in range(rng.randint(2, 4)):
        keys = sorted(environment.histories)
        diverged = [key for key in keys if environment.watch.tier(key).is_diverged]
        key = rng.choice(diverged if diverged and rng.random() < 0.8 else keys)
        is_dry_run = rng.random() < 0.1
        forget_once(environment, key, f"{actor.name}.{number}", actor, is_dry_run=is_dry_run)
        actor.sleep(rng.choice((0, HOUR_MS, DAY_MS, 2 * DAY_MS)))


def forget_once(
    environment: Environment, key: PartitionKey, run: str, actor: Actor, *, is_dry_run: bool = False
) -> bool:
    """Run `tierfold forget` and do what a refusal asks for; return whether to run it again.

    Something changed, or another run was at work.
    """
    try:
        context = environment.run_context(actor, run)
        name = f"{key}-{key.topic_id}"
        report = forget(context, environment.settings, name, is_dry_run=is_dry_run).report
    except TierfoldError as error:
        environment.happened(run, "forget: error", error.what)
        return False
    environment.happened(run, f"forget: {report.outcome}", f"{key}: {report.reason}")
    if environment.watch.tier(key).row is None:
        bring_back(environment.objects, environment.histories[key])
    if report.outcome != REFUSED:
        return report.outcome == FORGOTTEN
    found = _RESTORE_TO.search(report.reason)
    if found is not None:
        return restore_once(environment, key, found[1], f"{run}.restore", actor)
    if _AT_WORK in report.reason:
        return True
    if _VACUUM_FIRST in report.reason:
        return False
    is_moved = _NOT_RESTORABLE in report.reason and _move_live_segments_away(environment, key, run)
    # A segment that lacks an object may still get it while runs are at work.
    if environment.scheduler.is_calm:
        is_moved = _move_dead_uploads_away(environment, key, report.reason, run) or is_moved
    return _set_aside(environment, key, report.reason, run) or is_moved


def restore_once(
    environment: Environment, key: PartitionKey, to: str, run: str, actor: Actor
) -> bool:
    """Run `tierfold restore --to`; return whether it changed the row."""
    try:
        context, name = environment.run_context(actor, run), f"{key}-{key.topic_id}"
        report = restore(context, resolve([]), name, to).report
    except TierfoldError as error:
        environment.happened(run, "restore: error", error.what)
        return False
    environment.happened(run, f"restore: {report.outcome}", f"{key}: {report.reason}")
    return report.outcome == RESTORED


def _move_live_segments_away(environment: Environment, key: PartitionKey, run: str) -> bool:
    """Move the live segments that tierfold wrote; return whether any object was there."""
    ours = [segment for segment in environment.watch.rows[key].segments if segment.written_by_run]
    names = [name for segment in ours for name in keys_of(key, segment)]
    is_any = bool(environment.objects.stored.keys() & set(names))
    environment.happened(run, "live segments moved away", f"{key}: {len(ours)}")
    move_away(environment.objects, environment.histories[key], names)
    return is_any


def _move_dead_uploads_away(
    environment: Environment, key: PartitionKey, refusal: str, run: str
) -> bool:
    """Move incomplete segments of dead runs; `converge` moves incomplete uploads of brokers."""
    log = environment.histories[key]
    found = _objects_of(environment, key, _LACKING.findall(refusal))
    names = [name for name in found if name not in log.objects]
    if names:
        environment.happened(run, "dead uploads moved away", f"{key}: {len(names)} objects")
        move_away(environment.objects, log, names)
    return bool(names)


def _set_aside(environment: Environment, key: PartitionKey, refusal: str, run: str) -> bool:
    """Set segments aside: a broker or a dead run wrote them, and the new log may need them."""
    found, log = _DOUBTFUL.search(refusal), environment.histories[key]
    if found is None:
        return False
    ids = [word[:_ID_LENGTH] for word in found[1].split(", ")]
    environment.happened(run, "doubtful segments moved away", f"{key}: {len(ids)}")
    names = _objects_of(environment, key, ids)
    log.set_aside |= {name: bytes(environment.objects.stored[name].data) for name in names}
    move_away(environment.objects, log, names)
    return True


def _objects_of(environment: Environment, key: PartitionKey, ids: Sequence[str]) -> list[str]:
    """Return the keys of these segments' objects in the tier."""
    folder = f"{partition_folder(key)}/"
    return sorted(
        name
        for name in environment.objects.stored
        if name.startswith(folder) and any(segment_id in name for segment_id in ids)
    )
