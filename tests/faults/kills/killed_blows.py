"""Blows against a running `tierfold compact`: which process is killed, and when.

Every run spends seconds until Spark is up, so times drawn over the whole run seldom hit the work.
Most are counted from a sign of work that is visible from outside: a new name in the tier, a new
version of the catalog.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.end_to_end.processes import (
    Application,
    awaited,
    daemons,
    python_workers,
    signalled,
)
from tests.faults.kills.killed_checks import catalog_versions

LOOK_EVERY_S: Final = 0.01


class Whom(StrEnum):
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


SURVIVED: Final = frozenset({Whom.WORKER, Whom.DAEMON})
"""The processes whose death a run survives."""


class Sign(StrEnum):
    """The event from which the time of a blow is counted."""

    STARTED = "start"
    """The start of the run's process; if that was longer ago, the blow comes at once."""
    WRITTEN = "new name"
    """The `count`th new name in the tier, hidden files of unfinished objects included."""
    COMMITTED = "version"
    """The `count`th new version of the catalog; the first of a run is its claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """A kill, before it happens."""

    whom: Whom
    sign: Sign
    count: int
    """The number of the sign; 0 for the start."""
    delay_s: float
    """Delay after the sign."""

    def __str__(self) -> str:
        after = str(self.sign) if self.sign is Sign.STARTED else f"{self.sign} {self.count}"
        return f"{after} + {self.delay_s * 1000:.0f} ms"


_WHOM: Final = (*(4 * (Whom.ALL,)), Whom.DRIVER, Whom.JVM, Whom.WORKER, Whom.DAEMON)
_SIGNS: Final = (Sign.STARTED, *(4 * (Sign.WRITTEN,)), *(3 * (Sign.COMMITTED,)))
HAND: Final = len(_WHOM)
"""This many blows in a row cover every process and every sign."""


def blows(seed: int) -> Iterator[Blow]:
    """Yield endless blows; the same for the same seed."""
    rnd = random.Random(seed)
    while True:
        hand = zip(rnd.sample(_WHOM, HAND), rnd.sample(_SIGNS, HAND), strict=True)
        for whom, sign in hand:
            count, most_s = {
                Sign.STARTED: (0, 10.0),
                Sign.WRITTEN: (rnd.randint(1, 30), 0.05),
                Sign.COMMITTED: (rnd.randint(1, 3), 0.6),
            }[sign]
            yield Blow(whom=whom, sign=sign, count=count, delay_s=rnd.uniform(0, most_s))


def struck(blow: Blow, run: Application, tier: Path) -> bool:
    """Wait for the time and kill; False: the run ended before."""
    names, versions = _names(tier), catalog_versions(tier)

    def is_time() -> bool | None:
        if run.process.poll() is not None:
            return False
        match blow.sign:
            case Sign.STARTED:
                return True
            case Sign.WRITTEN:
                return len(_names(tier) - names) >= blow.count or None
            case Sign.COMMITTED:
                return catalog_versions(tier) - versions >= blow.count or None

    if not awaited(f"{blow}", is_time, LOOK_EVERY_S):
        return False
    from_s = run.began_s if blow.sign is Sign.STARTED else time.monotonic()
    time.sleep(max(0, from_s + blow.delay_s - time.monotonic()))

    def targets() -> set[int] | None:
        found = _targets(blow.whom, run)
        return found if found or run.process.poll() is not None else None

    # The JVM or a worker may not have started yet.
    found = awaited(f"a {blow.whom}", targets, LOOK_EVERY_S)
    hits = [signalled(pid, signal.SIGKILL) for pid in found]
    return any(hits)


def _targets(whom: Whom, run: Application) -> set[int]:
    match whom:
        case Whom.ALL:
            return run.session
        case Whom.DRIVER:
            return {run.process.pid}
        case Whom.JVM:
            return run.jvm
        case Whom.WORKER:
            return set(sorted(python_workers(run.session))[:1])
        case Whom.DAEMON:
            return daemons(run.session)


def _names(tier: Path) -> set[str]:
    return {path.name for path in tier.glob("kafka-tiered-storage/*/*")}
