"""Reads the clocks before a run writes, and stops or warns (`compaction.commits.clocks`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tierfold.compaction.commits.clocks import (
    ClockEffect,
    ClockFinding,
    ClockReason,
    Clocks,
    EarlyHorizons,
    WritingVerb,
    clock_findings,
    early_horizons,
)
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.wording import counted, duration
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.storage.clock import now_ms

PARTITIONS_MAX: Final = 5
"""A sentence names at most this many partitions, and counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClocks:
    """Compares the clocks for one run."""

    verb: WritingVerb
    where: str
    """The tier, for messages."""
    store_now_ms: Callable[[], int | None]
    """Returns the store's time, epoch milliseconds; None: it cannot be learned."""
    given_ms: int | None = None
    """`--now`."""
    insists: bool = False
    """`--clock-is-right`."""
    warn: Callable[[str], None]
    """Logs a warning that the result repeats."""
    warnings: list[str] = field(default_factory=list)
    """For the result."""

    def check(self, rows: Sequence[PartitionState]) -> None:
        """Compare the clocks with these rows and the store; warn of what is only doubtful.

        Raises BadSettings if the run must not write.
        """
        newest = max(rows, key=lambda row: row.committed_at_ms, default=None)
        clocks = Clocks(
            machine_ms=now_ms(),
            store_ms=self.store_now_ms(),
            newest_commit_ms=None if newest is None else newest.committed_at_ms,
            given_ms=self.given_ms,
        )
        of_key = "" if newest is None else str(newest.key)
        for finding in clock_findings(clocks, self.verb, insists=self.insists):
            what = _what(finding, clocks, of_key)
            if finding.effect is ClockEffect.STOPS:
                raise BadSettings(what, where=self.where, remedy=_remedy(finding.reason))
            sentence = f"{what}{self._consequence(finding.reason, clocks, rows)}."
            self.warnings.append(sentence)
            self.warn(sentence)

    def _consequence(
        self, reason: ClockReason, clocks: Clocks, rows: Sequence[PartitionState]
    ) -> str:
        if reason is not ClockReason.NOW_AHEAD or clocks.given_ms is None:
            return "; --clock-is-right was given, so the run goes on"
        stop = "runs without --now stop until the clock has reached its commits"
        if self.verb is not WritingVerb.COMPACT:
            return f": {stop}"
        early = early_horizons(rows, clocks.machine_ms, clocks.given_ms)
        return (
            ": horizons pass early, of tombstones and transaction markers (delete.retention.ms) and"
            f" of records (min.compaction.lag.ms, max.compaction.lag.ms){_named(early)}, and {stop}"
        )


def _what(finding: ClockFinding, clocks: Clocks, of_key: str) -> str:
    """What is wrong, a sentence without its period."""
    machine = f"this machine's clock says {timestamp_text(clocks.machine_ms)}"
    by = duration(finding.by_ms)
    given = "" if clocks.given_ms is None else f"--now is {timestamp_text(clocks.given_ms)}"
    newest = "" if clocks.newest_commit_ms is None else timestamp_text(clocks.newest_commit_ms)
    store = "" if clocks.store_ms is None else timestamp_text(clocks.store_ms)
    match finding.reason:
        case ClockReason.NOW_BELOW_COMMIT:
            return f"{given}, {by} before the newest commit, of {of_key} at {newest}"
        case ClockReason.NOW_AHEAD:
            return f"{given}, {by} ahead of this machine's clock"
        case ClockReason.BEHIND_COMMIT:
            return f"{machine}, {by} before the newest commit, of {of_key} at {newest}"
        case ClockReason.BEHIND_STORE:
            return f"{machine}, {by} behind the store's, which says {store}"


def _remedy(reason: ClockReason) -> str:
    match reason:
        case ClockReason.NOW_BELOW_COMMIT:
            return (
                "Nothing was changed. Leave --now out, or give the time of that commit or a later"
                " one. A retry cannot repeat the --now of a try that has committed."
            )
        case ClockReason.NOW_AHEAD:
            return (
                "Grace periods would end early, so nothing was deleted. Leave --now out; with"
                " --dry-run it shows what would be deleted then."
            )
        case ClockReason.BEHIND_COMMIT | ClockReason.BEHIND_STORE:
            return (
                "Nothing was changed. Set this machine's clock, for example with NTP. If it is"
                " right and the other is wrong, add --clock-is-right."
            )


def _named(early: Sequence[EarlyHorizons]) -> str:
    """Which known horizons pass early, as a clause; empty if none is known."""
    if not early:
        return ""
    more = len(early) - PARTITIONS_MAX
    named = "; ".join(
        f"{one.key}: {counted(one.segments, 'segment')}, the first at"
        f" {timestamp_text(one.first_ms)}"
        for one in early[:PARTITIONS_MAX]
    )
    return f" ({named}{f'; and {more} more' if more > 0 else ''})"
