"""Whether a run may write by the time that it takes as now.

A wrong time makes delete horizons and grace periods end early, and data are gone. So the machine's
clock is compared with the newest commit and with the store's clock, and `--now` with both the
machine's clock and the newest commit. All times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tierfold.compaction.model.segments import PartitionKey, PartitionState

BEHIND_MAX_MS: Final = 600_000
"""How far the machine's clock may be behind: clocks of one cluster differ by less."""


class WritingVerb(StrEnum):
    """The verbs that write."""

    COMPACT = "compact"
    VACUUM = "vacuum"
    RESTORE = "restore"
    FORGET = "forget"
    REBUILD = "rebuild"
    UPLOAD = "upload"


class ClockReason(StrEnum):
    """What is wrong with the time of a run."""

    NOW_BELOW_COMMIT = "--now is below the newest commit"
    NOW_AHEAD = "--now is ahead of the machine's clock"
    BEHIND_COMMIT = "the machine's clock is behind the newest commit"
    BEHIND_STORE = "the machine's clock is behind the store's"


class ClockEffect(StrEnum):
    """What follows for the run."""

    STOPS = "nothing is written"
    WARNS = "the run goes on, with a warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The times that a run can know."""

    machine_ms: int
    store_ms: int | None = None
    """None: the store does not say."""
    newest_commit_ms: int | None = None
    """None: there is no commit yet."""
    given_ms: int | None = None
    """`--now`; None: the machine's clock decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFinding:
    """What is wrong, by how much, and what follows."""

    reason: ClockReason
    effect: ClockEffect
    by_ms: int
    """The distance of the two times; positive."""


def clock_findings(
    clocks: Clocks, verb: WritingVerb, *, insists: bool = False
) -> tuple[ClockFinding, ...]:
    """Return all that is wrong with the time of a run that writes, in the order of `ClockReason`.

    `insists`: a person said that the machine's clock is right (`--clock-is-right`), which answers
    for that clock, and not for `--now`.
    """
    behind = ClockEffect.WARNS if insists else ClockEffect.STOPS
    ahead = ClockEffect.STOPS if verb is WritingVerb.VACUUM else ClockEffect.WARNS

    def found() -> Iterator[ClockFinding]:
        machine_ms, given_ms = clocks.machine_ms, clocks.given_ms
        newest_ms = clocks.newest_commit_ms
        if given_ms is not None and newest_ms is not None and given_ms < newest_ms:
            reason = ClockReason.NOW_BELOW_COMMIT
            yield ClockFinding(
                reason=reason, effect=ClockEffect.STOPS, by_ms=newest_ms - given_ms
            )
        if given_ms is not None and given_ms > machine_ms:
            by_ms = given_ms - machine_ms
            yield ClockFinding(reason=ClockReason.NOW_AHEAD, effect=ahead, by_ms=by_ms)
        for reason, other_ms in (
            (ClockReason.BEHIND_COMMIT, newest_ms),
            (ClockReason.BEHIND_STORE, clocks.store_ms),
        ):
            if other_ms is not None and other_ms - machine_ms > BEHIND_MAX_MS:
                yield ClockFinding(reason=reason, effect=behind, by_ms=other_ms - machine_ms)

    return tuple(found())


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyHorizons:
    """The delete horizons of one partition that a time ahead of the clock lets pass early."""

    key: PartitionKey
    segments: int
    first_ms: int
    """The earliest of them."""


def early_horizons(
    rows: Iterable[PartitionState], machine_ms: int, given_ms: int
) -> tuple[EarlyHorizons, ...]:
    """Return the horizons in live segments above `machine_ms`, up to `given_ms`, by partition.

    A row knows only the earliest horizon of a segment (`Segment.earliest_due_ms`).
    """
    found = []
    for row in rows:
        due_ms = [
            segment.earliest_due_ms
            for segment in row.segments
            if segment.earliest_due_ms is not None
            and machine_ms < segment.earliest_due_ms <= given_ms
        ]
        if due_ms:
            found.append(EarlyHorizons(key=row.key, segments=len(due_ms), first_ms=min(due_ms)))
    return tuple(found)
