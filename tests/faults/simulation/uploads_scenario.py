"""A scenario of a tier that `tierfold upload` fills: of two machines per partition, one is deposed.

    played_uploads(seed)   play the scenario of a seed, check every step, and return how it ended

The deposed machine's run often stands still for days, after it has claimed or while it writes, and
then goes on. Whatever it writes, the live segments are those of one history.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.simulation.environment_checks import Violation
from tests.faults.simulation.environment_model import branch_of
from tests.faults.simulation.scenario import Scenario
from tests.faults.simulation.simulation_actors import gives_up_set_apart, restores, runs, vacuums
from tests.faults.simulation.simulation_ending import converge
from tests.faults.simulation.simulation_scheduler import DAY_MS, HOUR_MS, MINUTE_MS, Actor
from tests.faults.simulation.simulation_settings import (
    Environment,
    deterministic,
    drawn_for_uploads,
)
from tests.faults.simulation.uploads_machines import Machine, machines, upload_once
from tierfold.jobs.pipeline.partition_report import NOTHING_TO_DO, UPLOADED

WAITS_MS = (0, MINUTE_MS, 5 * HOUR_MS, DAY_MS, 2 * DAY_MS)


def played_uploads(seed: int) -> Scenario:
    """Play the scenario of a seed to its end, or to the first violation or error."""
    environment = drawn_for_uploads(seed)
    scheduler, failure = environment.scheduler, ""
    with deterministic(environment), TemporaryDirectory(prefix="tierfold-uploads-") as folder:
        try:
            leaders = _begin(environment, Path(folder))
            scheduler.play()
            scheduler.calm_down()
            _end(environment, leaders)
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


def _begin(environment: Environment, folder: Path) -> list[Machine]:
    """Start all actors; return the leaders' machines."""
    rng, scheduler = environment.scheduler.rng, environment.scheduler
    leaders = []
    for machine, is_leader in machines(environment, folder):
        if is_leader:
            leaders.append(machine)
        else:
            machine.roll(rng.randint(1, len(machine.segments)))
        scheduler.spawn(
            "leader" if is_leader else "deposed",
            partial(_uploads, environment, machine),
            after_ms=rng.choice((0, 0, HOUR_MS, DAY_MS)),
            stalls_at=rng.choice((0, 0, 1, 2) if is_leader else (0, 1, 2, 2)),
        )
    for act, count in ((runs, rng.randint(0, 2)), (vacuums, rng.randint(0, 1))):
        for number in range(count):
            scheduler.spawn(
                f"{act.__name__.removesuffix('s')}{number}",
                partial(act, environment),
                after_ms=rng.choice((0, HOUR_MS, DAY_MS)),
            )
    for act, likely in ((restores, 0.3), (gives_up_set_apart, 0.2)):
        if rng.random() < likely:
            after_ms = rng.choice((MINUTE_MS, HOUR_MS, DAY_MS))
            scheduler.spawn("person", partial(act, environment), after_ms=after_ms)
    return leaders


def _uploads(environment: Environment, machine: Machine, actor: Actor) -> None:
    """Roll and upload a few times, as a job scheduler does."""
    rng = environment.scheduler.rng
    for number in range(rng.randint(1, 3)):
        machine.roll(rng.randint(1, 3))
        upload_once(environment, machine, f"{actor.name}.{number}", actor)
        actor.sleep(rng.choice(WAITS_MS))


def _end(environment: Environment, leaders: list[Machine]) -> None:
    """Without faults, upload the rest from the leaders' machines; then everything converges."""
    outcomes: dict[str, str] = {}

    def finish(machine: Machine, number: int, actor: Actor) -> None:
        run = f"last-upload.{number}"
        outcomes[str(machine.key)] = upload_once(environment, machine, run, actor)

    for number in range(2):
        for machine in leaders:
            machine.roll(len(machine.segments))
            environment.scheduler.now_ms += 2 * DAY_MS
            environment.scheduler.spawn("last", partial(finish, machine, number))
            environment.scheduler.play()
        converge(environment)
    for machine in leaders:
        for violation in _unfinished(environment, machine, outcomes[str(machine.key)]):
            raise Violation(f"{machine.key}: {violation}")


def _unfinished(environment: Environment, machine: Machine, outcome: str) -> Iterator[str]:
    """Yield how the leader's log is not in the tier, though no other history is.

    If no row names anything, what a dead run uploaded decides.
    """
    log, row = environment.histories[machine.key], environment.watch.rows.get(machine.key)
    tier = environment.watch.tier(machine.key)
    is_other = bool(tier.set_apart) if tier.row is None else (
        branch_of(log, tier.row) is log.written.lost is not None
    )
    environment.outcomes["the tier has another history"] += is_other
    environment.outcomes["set apart at the end"] += bool(tier.set_apart)
    if is_other or tier.is_diverged:
        return
    if outcome not in {UPLOADED, NOTHING_TO_DO}:
        yield f"the leader's last upload ended with {outcome!r}"
    elif row is None or row.next_offset != log.written.log.next_offset:
        end = None if row is None else row.next_offset
        yield f"the tier ends at {end}, the log at {log.written.log.next_offset}"
