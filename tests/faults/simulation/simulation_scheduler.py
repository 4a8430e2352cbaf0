"""A deterministic scheduler: one seed decides who runs, what time it is, and which calls fail.

Each actor is a thread. Exactly one runs at a time: the one that holds the token. Every call of an
actor to the store or the table is a scheduling *point*. There the RNG may pass the token to another
actor, let time pass, stall the actor for hours or days, and draw a fault for the call. Nothing else
is random, so a seed always plays the same scenario.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, Final, NoReturn

from tierfold.compaction.model.errors import TierfoldError

START_MS: Final = 1_700_003_600_000
SECOND_MS: Final = 1000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
STEPS_MAX: Final = 100_000
"""No scenario needs more steps; beyond this, an actor is in an endless loop."""

COMMIT_STALLS_MS: Final = (3 * HOUR_MS, 2 * DAY_MS, 4 * DAY_MS)
"""How long a claim or commit stalls; most of these outlast the grace periods."""

Effect = Callable[[], object]


class Fault(StrEnum):
    """What goes wrong at a call."""

    NONE = "none"
    STALLED = "stalled"
    """The call takes effect hours or days later: the actor is a zombie."""
    FAILED = "failed"
    """The call has no effect and raises an error."""
    UNANSWERED = "unanswered"
    """The call takes effect and raises an error."""
    LATE = "late"
    """The call raises an error and takes effect later, between other steps, or never."""
    TWICE = "twice"
    """The call takes effect, and the client sends it again."""
    KILLED = "killed"
    """The process dies before the call takes effect."""
    KILLED_AFTER = "killed after"
    """The process dies right after the call takes effect."""


READ_FAULTS: Final = (Fault.STALLED, Fault.FAILED, Fault.KILLED)
WRITE_FAULTS: Final = tuple(fault for fault in Fault if fault is not Fault.NONE)

_ERRORS: Final = frozenset({Fault.FAILED, Fault.UNANSWERED, Fault.LATE})

REJECTED: Final = "the store rejected the call"
"""The cause of the error that a failed call raises."""

OUTAGES: Final = 0.4
"""The probability that the calls after a failed one fail too, as in a network outage."""


class Killed(BaseException):
    """The process is killed; the product never catches this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultProfile:
    """How often things go wrong. Each seed draws one profile, so some scenarios are quiet."""

    faults: float
    """The probability that a call fails."""
    switches: float
    """The probability that another actor gets the token."""
    leaps: float
    """The probability that hours or days pass between two calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An actor's call to the store or the table."""

    what: str
    effect: Effect
    faults: Sequence[Fault]
    """The faults that may happen."""
    error: Callable[[str], Exception]
    """Makes the error to raise from its cause."""
    late: Effect | None = None
    """The effect if the call is late; None: `effect`."""
    is_commit: bool = False
    """It changes the table."""
    weight: int = 1
    """How much more often than other calls it fails or gives another actor the token."""


@dataclass(slots=True, kw_only=True, eq=False)
class Actor:
    """A process; all its calls go through this handle, whichever thread makes them."""

    name: str
    scheduler: Scheduler
    allowed: frozenset[Fault] = frozenset(Fault)
    """The faults that its calls may have."""
    is_witness: bool = False
    """It only observes: its calls are not scheduling points."""
    is_dead: bool = False
    wakes_at_ms: int = 0
    outage: int = 0
    """How many of its next calls fail."""
    stalls_at: int = 0
    """Which of its claims and commits, counted from 1, stalls for days; 0: none."""
    gate: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.gate.acquire()

    def do(self, call: Call) -> Any:
        """Make a call: draw a fault at a scheduling point, then apply it and the effect."""
        if self.is_witness:
            return call.effect()
        match self.scheduler.point(self, call):
            case Fault.FAILED:
                raise call.error(REJECTED)
            case Fault.UNANSWERED:
                call.effect()
                raise call.error("the answer was lost")
            case Fault.LATE:
                late = call.late or call.effect
                self.scheduler.in_flight.append((f"{self.name}: {call.what}", late))
                raise call.error("the call timed out")
            case Fault.TWICE:
                call.effect()
            case Fault.KILLED:
                self.die()
            case Fault.KILLED_AFTER:
                call.effect()
                self.die()
        return call.effect()

    def sleep(self, for_ms: int) -> None:
        """Give another actor the token; continue after `for_ms`."""
        self.wakes_at_ms = self.scheduler.now_ms + for_ms
        self.scheduler.pass_on(self)

    def die(self) -> None:
        """Kill this actor: its later calls have no effect, clean-up included."""
        self.is_dead = True
        raise Killed


class Scheduler:
    """Hands out the token, keeps the time, draws faults, and records the trace."""

    def __init__(self, rng: Random, fault_profile: FaultProfile) -> None:
        self.rng = rng
        self.fault_profile = fault_profile
        self.now_ms = START_MS
        self.is_calm = False
        """The end of the scenario: no faults, no leaps in time, no sleep."""
        self.in_flight: list[tuple[str, Effect]] = []
        """Writes that timed out and may still take effect."""
        self.trace: list[str] = []
        self.faults: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._actors: list[Actor] = []
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()

    @property
    def steps(self) -> int:
        """The length of the trace."""
        return len(self.trace)

    def spawn(
        self,
        name: str,
        body: Callable[[Actor], None],
        *,
        allowed: frozenset[Fault] = frozenset(Fault),
        after_ms: int = 0,
        stalls_at: int = 0,
    ) -> None:
        """Start an actor that calls `body` with its handle after `after_ms`."""
        actor = Actor(
            name=name,
            scheduler=self,
            allowed=allowed,
            wakes_at_ms=self.now_ms + after_ms,
            stalls_at=stalls_at,
        )
        thread = threading.Thread(target=self._run, args=(actor, body), name=name)
        self._actors.append(actor)
        self._threads.append(thread)
        thread.start()

    def play(self) -> None:
        """Run until every actor has ended; raises the first error of an actor or a check."""
        if self._actors:
            self._over.clear()
            self._chosen().gate.release()
            self._over.wait()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if self.failure is not None:
            raise self.failure

    def count(self, what: str) -> None:
        """Count a fault that the caller causes, and add it to the trace."""
        self.faults[what] += 1
        self.note(what)

    def pause(self, for_ms: int) -> None:
        """Let time pass."""
        self.now_ms += for_ms

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now_ms - START_MS:>11} {what}")

    def calm_down(self) -> None:
        """Stop all faults; writes in flight take effect now or never."""
        self.is_calm = True
        while self.in_flight:
            self._land(is_lost=self.rng.random() < 0.3)

    def point(self, actor: Actor, call: Call) -> Fault:
        """Return the fault of a call that `actor`, which holds the token, is about to make."""
        if actor.is_dead:
            raise Killed
        fault = self._fault(actor, call)
        if fault is Fault.STALLED:
            for_ms = self.rng.choice(COMMIT_STALLS_MS) if call.is_commit else self._long_ms()
            actor.wakes_at_ms = self.now_ms + for_ms
        if fault is Fault.STALLED or self.rng.random() < self.fault_profile.switches * call.weight:
            self.pass_on(actor)
        self._let_time_pass()
        self.note(f"{actor.name}: {call.what}{'' if fault is Fault.NONE else f' [{fault}]'}")
        self.faults[fault] += fault is not Fault.NONE
        if self.steps > STEPS_MAX:
            self.fail(AssertionError(f"{actor.name} never ends"))
        return fault

    def fail(self, error: BaseException) -> NoReturn:
        """End the scenario with this error; the product cannot catch it."""
        self._stop(error)
        raise Killed

    def kill(self, names: str) -> None:
        """Kill all actors whose names begin so, wherever they are."""
        for actor in self._actors:
            actor.is_dead = actor.is_dead or actor.name.startswith(names)

    def pass_on(self, actor: Actor) -> None:
        """Give the token to an actor drawn from those that are awake."""
        chosen = self._chosen()
        if chosen is not actor:
            chosen.gate.release()
            actor.gate.acquire()
            if actor.is_dead:
                raise Killed

    def _run(self, actor: Actor, body: Callable[[Actor], None]) -> None:
        actor.gate.acquire()
        try:
            if not actor.is_dead:
                body(actor)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - `play` raises it in the main thread
            self._stop(error)
        self._actors.remove(actor)
        if self._actors:
            self._chosen().gate.release()
        else:
            self._over.set()

    def _stop(self, error: BaseException) -> None:
        """Kill every actor at its next call; keep the first failure."""
        self.failure = self.failure or error
        for actor in self._actors:
            actor.is_dead = True

    def _chosen(self) -> Actor:
        """Draw an actor that is awake; if all sleep, skip to the time when one wakes."""
        if self.is_calm or self.failure is not None:
            return self.rng.choice(self._actors)
        awake = [actor for actor in self._actors if actor.wakes_at_ms <= self.now_ms]
        if not awake:
            self.now_ms = min(actor.wakes_at_ms for actor in self._actors)
            awake = [actor for actor in self._actors if actor.wakes_at_ms <= self.now_ms]
        return self.rng.choice(awake)

    def _fault(self, actor: Actor, call: Call) -> Fault:
        if self.is_calm:
            return Fault.NONE
        if call.is_commit and actor.stalls_at:
            actor.stalls_at -= 1
            if not actor.stalls_at:
                return Fault.STALLED
        if actor.outage:
            actor.outage -= 1
            return Fault.FAILED
        if self.rng.random() >= self.fault_profile.faults * call.weight:
            return Fault.NONE
        fault = self.rng.choice(call.faults)
        if fault not in actor.allowed:
            return Fault.NONE
        if fault in _ERRORS and self.rng.random() < OUTAGES:
            actor.outage = self.rng.randint(1, 6)
        return fault

    def _let_time_pass(self) -> None:
        self.now_ms += self.rng.randrange(2 * SECOND_MS)
        if self.is_calm:
            return
        if self.rng.random() < self.fault_profile.leaps:
            self.now_ms += self._long_ms()
        if self.in_flight and self.rng.random() < 0.05:
            self._land(is_lost=self.rng.random() < 0.3)

    def _land(self, *, is_lost: bool) -> None:
        """Let a late write take effect or lose it; no actor sees its error."""
        what, effect = self.in_flight.pop(self.rng.randrange(len(self.in_flight)))
        self.note(f"{what} [{'never lands' if is_lost else 'lands'}]")
        self.faults["never lands" if is_lost else "lands"] += 1
        if not is_lost:
            with contextlib.suppress(TierfoldError):
                effect()

    def _long_ms(self) -> int:
        return self.rng.choice((HOUR_MS // 2, 3 * HOUR_MS, DAY_MS, 4 * DAY_MS))
