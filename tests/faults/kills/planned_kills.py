"""Kills of a running `tierfold compact`: which process, and when.

Spark takes seconds to start, so a kill at a random time seldom hits the work. Most kills follow a
trigger that is visible from outside: a new name in the tier, an upload that has begun, or a new
version of the catalog. A run without Spark is one process, and starts its work sooner.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from tests.end_to_end.processes import Application, awaited, daemons, python_workers, signalled
from tests.faults.kills.killed_places import Place


class Target(StrEnum):
    """Which process is killed."""

    ALL = "all"
    """Every process of the run at once, as when the machine loses power."""
    DRIVER = "driver"
    """The Python process that the user started."""
    JVM = "JVM"
    WORKER = "worker"
    """One Python worker of Spark."""
    DAEMON = "daemon"
    """The parent of the Python workers."""


SURVIVED: Final = frozenset({Target.WORKER, Target.DAEMON})
"""The processes whose death a run survives."""


class Trigger(StrEnum):
    """The event that a kill follows."""

    STARTED = "start"
    """The start of the run's process; if the delay has already passed, the kill follows at once."""
    WRITTEN = "new name"
    """The `count`th new name in the tier, hidden files of unfinished objects included."""
    UPLOADING = "upload"
    """An unfinished upload is listed."""
    COMMITTED = "version"
    """The `count`th new version of the catalog; the first of a run is its claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKill:
    """A kill, before it happens."""

    target: Target
    trigger: Trigger
    count: int
    """How many such events make the trigger; 0: the first."""
    delay_s: float
    """Delay after the trigger."""
    on_spark: bool
    """Whether a new run uses Spark; a run that is under way is killed whether or not it does."""

    def __str__(self) -> str:
        number = f" {self.count}" if self.count else ""
        return f"{self.trigger}{number} + {self.delay_s * 1000:.0f} ms"


KILLS_PER_ROUND: Final = 8
"""This many consecutive kills cover every target and every trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRound:
    """What a round of kills covers, and which of its runs use Spark."""

    targets: tuple[Target, ...]
    triggers: tuple[Trigger, ...]
    on_spark: frozenset[Target]
    """The targets whose runs use Spark. The run that finishes a tier uses it if ALL is here."""


ON_SPARK: Final = KillRound(
    targets=(*(4 * (Target.ALL,)), Target.DRIVER, Target.JVM, Target.WORKER, Target.DAEMON),
    triggers=(Trigger.STARTED, *(4 * (Trigger.WRITTEN,)), *(3 * (Trigger.COMMITTED,))),
    on_spark=frozenset(Target),
)
ON_BOTH: Final = replace(ON_SPARK, on_spark=frozenset(Target) - {Target.ALL})
"""Runs that lose all processes do not use Spark: they reach the same work sooner without it."""

IN_ONE_PROCESS: Final = KillRound(
    targets=8 * (Target.ALL,),
    triggers=(
        Trigger.STARTED,
        *(3 * (Trigger.WRITTEN,)),
        *(2 * (Trigger.UPLOADING,)),
        *(2 * (Trigger.COMMITTED,)),
    ),
    on_spark=frozenset(),
)


def _delay_max_s(trigger: Trigger, *, on_spark: bool) -> float:
    """The longest delay between trigger and kill."""
    match trigger:
        case Trigger.STARTED:
            return 10.0 if on_spark else 3.0
        case Trigger.COMMITTED:
            return 0.6
        case Trigger.WRITTEN | Trigger.UPLOADING:
            return 0.05


def planned_kills(seed: int, kinds: KillRound) -> Iterator[PlannedKill]:
    """Yield kills without end; the same seed yields the same kills."""
    rnd = random.Random(seed)
    while True:
        targets = rnd.sample(kinds.targets, KILLS_PER_ROUND)
        triggers = rnd.sample(kinds.triggers, KILLS_PER_ROUND)
        for target, trigger in zip(targets, triggers, strict=True):
            written, committed = rnd.randint(1, 30), rnd.randint(1, 3)
            count = {Trigger.WRITTEN: written, Trigger.COMMITTED: committed}.get(trigger, 0)
            on_spark = target in kinds.on_spark
            delay_s = rnd.uniform(0, _delay_max_s(trigger, on_spark=on_spark))
            yield PlannedKill(
                target=target, trigger=trigger, count=count, delay_s=delay_s, on_spark=on_spark
            )


def carried_out(planned: PlannedKill, run: Application, place: Place) -> bool:
    """Wait for the trigger and the delay, then kill; False: the run ended first."""
    names, uploads, versions = place.names(), place.uploads(), place.versions()

    def has_fired() -> bool | None:
        if run.process.poll() is not None:
            return False
        match planned.trigger:
            case Trigger.STARTED:
                return True
            case Trigger.WRITTEN:
                return len(place.names() - names) >= planned.count or None
            case Trigger.UPLOADING:
                return bool(place.uploads() - uploads) or None
            case Trigger.COMMITTED:
                return place.versions() - versions >= planned.count or None

    if not awaited(str(planned), has_fired, place.look_every_s):
        return False
    from_s = run.began_s if planned.trigger is Trigger.STARTED else time.monotonic()
    time.sleep(max(0, from_s + planned.delay_s - time.monotonic()))

    def targets() -> set[int] | None:
        found = _targets(planned.target, run)
        return found if found or run.process.poll() is not None else None

    # The JVM or a worker may not have started yet.
    found = awaited(f"a {planned.target}", targets, place.look_every_s)
    hits = [signalled(pid, signal.SIGKILL) for pid in found]
    return any(hits)


def _targets(target: Target, run: Application) -> set[int]:
    match target:
        case Target.ALL:
            return run.session
        case Target.DRIVER:
            return {run.process.pid}
        case Target.JVM:
            return run.jvm
        case Target.WORKER:
            return set(sorted(python_workers(run.session))[:1])
        case Target.DAEMON:
            return daemons(run.session)
