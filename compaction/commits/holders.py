"""Decides whether a partition that another run holds is claimed, left to it, or waited for.

    owner of the row, signs of life, --if-held  ->  decided  ->  Claim | Skip | Wait

A run that is at work writes a sign of life every minute. Signs are compared by the times that the
store gave them, one with the other, and never with the clock of a machine. A sign is a hint: if it
is lost, late or forged, a partition is taken over or skipped, and the epoch in its row still fences
every run that lost it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Outcome
from tierfold.compaction.model.wording import duration

SIGN_EVERY_MS: Final = 60_000
"""How often a run at work gives a sign of life."""

SILENT_MS: Final = 10 * SIGN_EVERY_MS
"""A run without a sign for so long is dead, or so slow that others need not wait for it."""

INSIST: Final = "--if-held take-over"
"""The option that claims a partition also from a run at work."""


class IfHeld(StrEnum):
    """What a run does with partitions that a live run holds; `--if-held`."""

    SKIP = "skip"
    WAIT = "wait"
    TAKE_OVER = "take-over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """The newest sign of life of a run."""

    run: str
    modified_ms: int
    """When it was written, as the store says; epoch milliseconds of the store's clock."""
    host: str = ""
    """The machine of the run, as it says itself; empty: unknown."""
    process: int | None = None
    """Its process there."""
    verb: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignsSeen:
    """The signs of life in the store, at the time of this run's own newest one."""

    own_ms: int | None = None
    """When the store wrote this run's own sign; None: it wrote none, so no age is known."""
    by_run: Mapping[str, Sign] = field(default_factory=dict)

    def age_ms(self, run: str) -> int | None:
        """How old the sign of that run is; None: it has none, or its age is unknown.

        A sign that is newer than the own one is as young as possible. One from so far in the future
        that no run can have just written it has no age.
        """
        sign = self.by_run.get(run)
        if sign is None or self.own_ms is None:
            return None
        age_ms = self.own_ms - sign.modified_ms
        return None if age_ms <= -SILENT_MS else max(0, age_ms)


NO_SIGNS: Final = SignsSeen()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The other run that has a partition, or was faster."""

    run: str
    """Empty: it has ended, and its name is not known."""
    host: str = ""
    process: int | None = None
    verb: str = ""
    sign_age_ms: int | None = None
    """How old its last sign of life was; None: it has given none that counts."""

    @property
    def named(self) -> str:
        """Its name, and where it runs if that is known."""
        if not self.run:
            return "another run"
        process = "" if self.process is None else f" (process {self.process})"
        on = f" on {self.host}{process}" if self.host else ""
        verb = f" of `{self.verb}`" if self.verb else ""
        return f"run {self.run}{verb}{on}"

    @property
    def alive(self) -> str:
        """A clause on its last sign of life; empty: there is none."""
        if self.sign_age_ms is None:
            return ""
        seconds_ms = self.sign_age_ms // 1000 * 1000
        age = duration(seconds_ms) if seconds_ms else "less than a second"
        return f"its last sign of life is {age} old"

    @property
    def sentence(self) -> str:
        """Who is at work on a partition, as part of a sentence."""
        return f"{self.named} is at work on it, {self.alive}" if self.alive else self.named

    @property
    def why_left(self) -> str:
        """Why a partition is left to it, a clause."""
        return self.sentence if self.run else "another run changed it since this run planned it"


class WhyClaimed(StrEnum):
    """Why a partition is claimed."""

    FREE = "no other run holds it"
    SILENT = "the run that holds it has given no sign of life for ten minutes"
    INSISTED = "the user asked to take it over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Open the next epoch of the partition."""

    why: WhyClaimed


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Leave the partition to the live run that holds it."""

    holder: Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Plan the partition again once that run is done or silent."""

    holder: Holder


Decision: TypeAlias = Claim | Skip | Wait

NotClaimed: TypeAlias = Outcome | TierfoldError | Skip | Wait
"""Why a partition was not claimed: how the claim ended, an error, or the live run that holds it."""

ENDED_RUN: Final = Holder(run="")


def decided(owner_run: str, own_run: str, seen: SignsSeen, if_held: IfHeld) -> Decision:
    """Decide on a partition whose row names `owner_run`; empty: no run holds it."""
    if owner_run in {"", own_run}:
        return Claim(why=WhyClaimed.FREE)
    if if_held is IfHeld.TAKE_OVER:
        return Claim(why=WhyClaimed.INSISTED)
    age_ms = seen.age_ms(owner_run)
    if age_ms is None or age_ms >= SILENT_MS:
        return Claim(why=WhyClaimed.SILENT)
    holder = holder_of(owner_run, seen)
    return Wait(holder=holder) if if_held is IfHeld.WAIT else Skip(holder=holder)


def holder_of(run: str, seen: SignsSeen) -> Holder:
    """Name a run by its newest sign of life, as far as there is one."""
    sign = seen.by_run.get(run)
    if sign is None:
        return Holder(run=run)
    return Holder(
        run=run,
        host=sign.host,
        process=sign.process,
        verb=sign.verb,
        sign_age_ms=seen.age_ms(run),
    )
