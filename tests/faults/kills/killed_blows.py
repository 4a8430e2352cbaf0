"""Blows against a running `tierfold compact`: who is killed, and at which instant.

Seconds of every run pass before Spark is up, so instants that are drawn over the whole run hit
little of the work. Most are counted from a sign of work that is seen from outside: a new name in
the tier, a new version of the catalog.
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

LOOK_EVERY_S: Final = 0.002


class Whom(StrEnum):
    """Who is killed."""

    ALL = "all"
    """Every process of the run at once, as when the machine's memory or power fails."""
    DRIVER = "driver"
    """The Python process that the user started."""
    JVM = "JVM"
    WORKER = "worker"
    """One Python worker of Spark."""
    DAEMON = "daemon"
    """The parent of the Python workers."""


SURVIVED: Final = frozenset({Whom.WORKER, Whom.DAEMON})
"""Those whose death a run gets over."""


class Sign(StrEnum):
    """What an instant is counted from."""

    STARTED = "start"
    """Of the run's process; where that is longer ago, the blow falls at once."""
    WRITTEN = "new name"
    """The tier has so many new names; hidden ones of objects being written count."""
    COMMITTED = "version"
    """The catalog has so many new versions; the first of a run is its claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """A kill, before it happens."""

    whom: Whom
    sign: Sign
    count: int
    """Of the sign; 0 for the start."""
    delay_s: float
    """From the sign on."""

    def __str__(self) -> str:
        after = str(self.sign) if self.sign is Sign.STARTED else f"{self.sign} {self.count}"
        return f"{after} + {self.delay_s * 1000:.0f} ms"


_WHOM: Final = (*(4 * (Whom.ALL,)), Whom.DRIVER, Whom.JVM, Whom.WORKER, Whom.DAEMON)
_SIGNS: Final = (Sign.STARTED, *(4 * (Sign.WRITTEN,)), *(3 * (Sign.COMMITTED,)))
HAND: Final = len(_WHOM)
"""So many blows in a row have everybody killed, and every sign."""


def blows(seed: int) -> Iterator[Blow]:
    """Without end; the same for the same seed."""
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
    """Waits for the instant and kills; False: the run had ended before."""
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

    # Spark may not have come so far that there is a JVM, or a worker.
    found = awaited(f"a {blow.whom}", targets, LOOK_EVERY_S)
    told = [signalled(pid, signal.SIGKILL) for pid in found]
    return any(told)


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
