"""A person runs `tierfold forget`, at the right time or not, and follows its refusals.

    takes_back(environment, actor)            a person of the scenario, who tries a few times
    take_back(environment, key, run, actor)   one try, and what its refusal asks for
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
from tierfold.jobs.verbs.forget import forget
from tierfold.jobs.verbs.restore import restore
from tierfold.storage.tiers.local_tiered_storage import partition_folder

_RESTORE_TO: Final = re.compile(r"--to (\S+)`")
_NOT_RESTORABLE: Final = "objects of these live segments out of the tier"
_AT_FIRST: Final = "First run `tierfold vacuum`"
_LACKING: Final = re.compile(r"segment ([\w-]{22}) \(start \d+\) lacks ")
_DOUBTFUL: Final = re.compile(r"the new log may need them: ([\w, -]+)")
_ID_LENGTH: Final = 22


def takes_back(environment: Environment, actor: Actor) -> None:
    """Forget a few partitions, cut off or not; `converge` forgets the rest of the cut-off ones."""
    rng = environment.scheduler.rng
    environment.takes_back = True
    for number in range(rng.randint(2, 4)):
        keys = sorted(environment.histories)
        cut_off = [key for key in keys if environment.watch.tier(key).is_diverged]
        key = rng.choice(cut_off if cut_off and rng.random() < 0.8 else keys)
        is_dry_run = rng.random() < 0.1
        take_back(environment, key, f"{actor.name}.{number}", actor, is_dry_run=is_dry_run)
        actor.sleep(rng.choice((0, HOUR_MS, DAY_MS, 2 * DAY_MS)))


def take_back(
    environment: Environment, key: PartitionKey, run: str, actor: Actor, *, is_dry_run: bool = False
) -> bool:
    """Run `tierfold forget` once and do what a refusal asks for; returns whether that changed."""
    try:
        done = forget(
            environment.run_context(actor, run),
            f"{key}-{key.topic_id}",
            is_dry_run=is_dry_run,
        )
    except TierfoldError as error:
        environment.happened(run, "forget: no look", error.what)
        return False
    report = done.report
    environment.happened(run, f"forget: {report.outcome}", f"{key}: {report.reason}")
    if environment.watch.tier(key).row is None:
        bring_back(environment.objects, environment.histories[key])
    if report.outcome != REFUSED:
        return report.outcome == FORGOTTEN
    found = _RESTORE_TO.search(report.reason)
    if found is not None:
        return _went_back(environment, key, found[1], f"{run}.back", actor)
    if _AT_FIRST in report.reason:
        return False
    is_moved = _NOT_RESTORABLE in report.reason and _moved_away(environment, key, run)
    # While a run is at work, a segment that lacks an object may still get it.
    if environment.scheduler.is_calm:
        is_moved = _dead_moved_away(environment, key, report.reason, run) or is_moved
    return _put_by(environment, key, report.reason, run) or is_moved


def _went_back(
    environment: Environment, key: PartitionKey, to: str, run: str, actor: Actor
) -> bool:
    try:
        report = restore(
            environment.run_context(actor, run), f"{key}-{key.topic_id}", to
        ).report
    except TierfoldError as error:
        environment.happened(run, "restore: no look", error.what)
        return False
    environment.happened(run, f"restore: {report.outcome}", f"{key}: {report.reason}")
    return report.outcome == RESTORED


def _moved_away(environment: Environment, key: PartitionKey, run: str) -> bool:
    """Move the live segments that tierfold wrote out of the tier."""
    ours = [segment for segment in environment.watch.rows[key].segments if segment.written_by_run]
    names = [name for segment in ours for name in keys_of(key, segment)]
    is_any = bool(environment.objects.stored.keys() & set(names))
    environment.happened(run, "live segments moved away", f"{key}: {len(ours)}")
    move_away(environment.objects, environment.histories[key], names)
    return is_any


def _dead_moved_away(environment: Environment, key: PartitionKey, refusal: str, run: str) -> bool:
    """Move incomplete segments of dead runs out of the tier; `converge` moves those of brokers."""
    log = environment.histories[key]
    found = _objects_of(environment, key, _LACKING.findall(refusal))
    names = [name for name in found if name not in log.objects]
    if names:
        environment.happened(run, "dead uploads moved away", f"{key}: {len(names)} objects")
        move_away(environment.objects, log, names)
    return bool(names)


def _put_by(environment: Environment, key: PartitionKey, refusal: str, run: str) -> bool:
    """Move segments out of the tier for a while: the new log may need them, or a dead run's."""
    found, log = _DOUBTFUL.search(refusal), environment.histories[key]
    if found is None:
        return False
    ids = [word[:_ID_LENGTH] for word in found[1].split(", ")]
    environment.happened(run, "doubtful segments moved away", f"{key}: {len(ids)}")
    names = _objects_of(environment, key, ids)
    log.put_by |= {name: bytes(environment.objects.stored[name].data) for name in names}
    move_away(environment.objects, log, names)
    return True


def _objects_of(environment: Environment, key: PartitionKey, ids: Sequence[str]) -> list[str]:
    """Return the keys of all objects of these segments in the tier."""
    folder = f"{partition_folder(key)}/"
    return sorted(
        name
        for name in environment.objects.stored
        if name.startswith(folder) and any(segment_id in name for segment_id in ids)
    )
