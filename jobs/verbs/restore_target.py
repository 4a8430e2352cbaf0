"""Which earlier state `--to` names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierfold.compaction.commits.history import Entry, at, left_by
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.context.timestamps import timestamp_text

SHOWN_MAX: Final = 5
"""Maximum runs that a sentence lists."""


def earlier_state(entries: Iterator[Entry], to: str, time_ms: int | None, place: str) -> Entry:
    """The state at the time, or after the run `to` if that is no time; raises BadSettings.

    `place`: the arguments that name the partition.
    """
    history = f"`tierfold history {place}` shows times and runs."
    if time_ms is None:
        return _after_run(entries, to, history)
    return _at_time(entries, time_ms, history)


def _at_time(entries: Iterator[Entry], time_ms: int, history: str) -> Entry:
    """The state at that time; raises BadSettings if the catalog has none."""
    found = at(entries, time_ms)
    if found is not None:
        return found
    raise BadSettings(
        f"the catalog has no state of {timestamp_text(time_ms)} or earlier",
        where="--to",
        remedy=history,
    )


def _after_run(entries: Iterator[Entry], to: str, history: str) -> Entry:
    """The state after the run; raises BadSettings if `to` matches no run, or several."""
    found = left_by(entries, to)
    if len(found) == 1:
        return found[0]
    if found:
        runs = ", ".join(entry.run for entry in found[:SHOWN_MAX])
        raise BadSettings(
            f"{to!r} is a prefix of {len(found)} runs: {runs}",
            where="--to",
            remedy="Give more of the name.",
        )
    raise BadSettings(
        f"{to!r} is neither a timestamp nor the name of a run that changed the partition",
        where="--to",
        remedy=history,
    )
