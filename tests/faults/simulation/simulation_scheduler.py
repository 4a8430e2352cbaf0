"""One seed decides everything: who goes on, how late it is, and what goes wrong at each call.

Each actor is a thread, and exactly one of them runs at a time: it holds the baton. Whatever an
actor asks of the store or of the table is a *point*. There the dice may pass the baton on, let time
pass, put the actor to sleep for hours or days, and choose a fault for the call. No dice are thrown
anywhere else, so that a seed, thrown again, gives the same story to the letter.
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
STEPS_MOST: Final = 100_000
"""More steps than any story of so few actors needs: one of them does not end."""

COMMIT_STALLS_MS: Final = (3 * HOUR_MS, 2 * DAY_MS, 4 * DAY_MS)
"""How long one sleeps over a claim or a commit: most longer than orphans and retired are spared."""

Effect = Callable[[], object]


class Fault(StrEnum):
    """What goes wrong at a call."""

    NONE = "none"
    STALLED = "stalled"
    """The actor sleeps for hours or days, then does it: a zombie."""
    FAILED = "failed"
    """It is not done, and the actor is told so."""
    UNANSWERED = "unanswered"
    """It is done, and the actor is told that it failed."""
    LATE = "late"
    """The actor is told that it failed; it is done later, among the steps of others, or never."""
    TWICE = "twice"
    """A client's retry: the second attempt finds what the first one did."""
    KILLED = "killed"
    """The process dies before it is done."""
    KILLED_AFTER = "killed after"
    """The process dies right after it was done."""


READ_FAULTS: Final = (Fault.STALLED, Fault.FAILED, Fault.KILLED)
WRITE_FAULTS: Final = tuple(each for each in Fault if each is not Fault.NONE)


_REFUSED: Final = frozenset({Fault.FAILED, Fault.UNANSWERED, Fault.LATE})

NOT_TAKEN: Final = "the store did not take the call"
"""What an actor is told of a call that failed."""

OUTAGES: Final = 0.4
"""How often a call that failed is followed by some more: the network is cut off, not one call."""


class Killed(BaseException):
    """The end of a process: nothing of the product catches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultProfile:
    """How wild a story is; drawn once per seed, so that some are quiet and some are not."""

    faults: float
    """How often a call goes wrong."""
    switches: float
    """How often the baton passes on."""
    leaps: float
    """How often hours or days pass between two calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What an actor asks of the store or of the table."""

    what: str
    effect: Effect
    faults: Sequence[Fault]
    """What may go wrong with it."""
    refusal: Callable[[str], Exception]
    """How its actor is told, given the cause."""
    late: Effect | None = None
    """What lands of it once nobody waits any more; None: the effect itself."""
    is_commit: bool = False
    """It would change the table."""
    weight: int = 1
    """How much more often than others it goes wrong, and lets somebody else go first."""


@dataclass(slots=True, kw_only=True, eq=False)
class Actor:
    """A process of its own. It is known by the handle that it calls through, not by its thread."""

    name: str
    scheduler: Scheduler
    allowed: frozenset[Fault] = frozenset(Fault)
    """What may go wrong with its calls."""
    is_witness: bool = False
    """It looks on from outside: its calls are no points."""
    is_dead: bool = False
    wakes_at_ms: int = 0
    outage: int = 0
    """How many of its next calls fail."""
    naps_at: int = 0
    """At which of its claims and commits, counted from 1, it sleeps for days; 0: at none."""
    gate: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.gate.acquire()

    def do(self, call: Call) -> Any:
        """The point, then the effect, as the dice have it."""
        if self.is_witness:
            return call.effect()
        match self.scheduler.point(self, call):
            case Fault.FAILED:
                raise call.refusal(NOT_TAKEN)
            case Fault.UNANSWERED:
                call.effect()
                raise call.refusal("the answer was lost")
            case Fault.LATE:
                late = call.late or call.effect
                self.scheduler.in_flight.append((f"{self.name}: {call.what}", late))
                raise call.refusal("the call timed out")
            case Fault.TWICE:
                call.effect()
            case Fault.KILLED:
                self.die()
            case Fault.KILLED_AFTER:
                call.effect()
                self.die()
        return call.effect()

    def sleep(self, for_ms: int) -> None:
        """Nothing to be done for so long."""
        self.wakes_at_ms = self.scheduler.now_ms + for_ms
        self.scheduler.pass_on(self)

    def die(self) -> None:
        """Nothing that this actor asks for from now on is done, not even by its clean-up."""
        self.is_dead = True
        raise Killed


class Scheduler:
    """Passes the baton, keeps the time, chooses the faults, and writes down what happened."""

    def __init__(self, rng: Random, fault_profile: FaultProfile) -> None:
        self.rng = rng
        self.fault_profile = fault_profile
        self.now_ms = START_MS
        self.is_calm = False
        """No faults, leaps or sleep any more: the story comes to its end."""
        self.in_flight: list[tuple[str, Effect]] = []
        """Writes that time out, and may land yet."""
        self.trace: list[str] = []
        self.faults: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._actors: list[Actor] = []
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()

    @property
    def steps(self) -> int:
        """How many calls there were."""
        return len(self.trace)

    def spawn(
        self,
        name: str,
        body: Callable[[Actor], None],
        *,
        allowed: frozenset[Fault] = frozenset(Fault),
        after_ms: int = 0,
        naps_at: int = 0,
    ) -> None:
        """An actor that begins once `after_ms` have passed; `body` gets it as its handle."""
        actor = Actor(
            name=name,
            scheduler=self,
            allowed=allowed,
            wakes_at_ms=self.now_ms + after_ms,
            naps_at=naps_at,
        )
        thread = threading.Thread(target=self._lived, args=(actor, body), name=name)
        self._actors.append(actor)
        self._threads.append(thread)
        thread.start()

    def play(self) -> None:
        """Until every actor has ended; raises what any of them, or a check, has raised."""
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
        """Something else that went wrong."""
        self.faults[what] += 1
        self.note(what)

    def pause(self, for_ms: int) -> None:
        """Somebody waits."""
        self.now_ms += for_ms

    def note(self, what: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.now_ms - START_MS:>11} {what}")

    def calm_down(self) -> None:
        """From here on nothing goes wrong; what is in flight lands now, or is lost for good."""
        self.is_calm = True
        while self.in_flight:
            self._land(is_lost=self.rng.random() < 0.3)

    def point(self, actor: Actor, call: Call) -> Fault:
        """Called by `actor`, which holds the baton, before its call; what goes wrong with it."""
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
        if self.steps > STEPS_MOST:
            self.fail(AssertionError(f"{actor.name} does not end"))
        return fault

    def fail(self, error: BaseException) -> NoReturn:
        """A law is broken: the story ends here, whatever the code that runs now would catch."""
        self._stop(error)
        raise Killed

    def pass_on(self, actor: Actor) -> None:
        """The baton goes to whoever the dice choose among those that are awake."""
        chosen = self._chosen()
        if chosen is not actor:
            chosen.gate.release()
            actor.gate.acquire()
            if actor.is_dead:
                raise Killed

    def _lived(self, actor: Actor, body: Callable[[Actor], None]) -> None:
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
        """Everybody ends at their next call, and the first failure is told."""
        self.failure = self.failure or error
        for actor in self._actors:
            actor.is_dead = True

    def _chosen(self) -> Actor:
        """One that is awake; where all sleep, time goes on until one wakes."""
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
        if call.is_commit and actor.naps_at:
            actor.naps_at -= 1
            if not actor.naps_at:
                return Fault.STALLED
        if actor.outage:
            actor.outage -= 1
            return Fault.FAILED
        if self.rng.random() >= self.fault_profile.faults * call.weight:
            return Fault.NONE
        fault = self.rng.choice(call.faults)
        if fault not in actor.allowed:
            return Fault.NONE
        if fault in _REFUSED and self.rng.random() < OUTAGES:
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
        """A write of long ago: what refuses it now refuses it there, where nobody listens."""
        what, effect = self.in_flight.pop(self.rng.randrange(len(self.in_flight)))
        self.note(f"{what} [{'never lands' if is_lost else 'lands'}]")
        self.faults["never lands" if is_lost else "lands"] += 1
        if not is_lost:
            with contextlib.suppress(TierfoldError):
                effect()

    def _long_ms(self) -> int:
        return self.rng.choice((HOUR_MS // 2, 3 * HOUR_MS, DAY_MS, 4 * DAY_MS))
