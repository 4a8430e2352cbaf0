"""What happened to a partition, told by its rows: one entry per claim and commit. Pure.

rows, oldest first -> entries -> told: those that a person looks for; at, left_by: the one that a
person means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from compaction.segments import PartitionState


class Event(StrEnum):
    """What a claim or a commit did."""

    FOUND = "found"
    """The first row: the segments that brokers had uploaded."""
    EARLIER = "earlier"
    """The oldest row that is remembered; what made it is not."""
    CLAIMED = "claimed"
    """A run opened the next epoch, and adopted what was new."""
    COMPACTED = "compacted"
    EXPIRED = "expired"
    """Segments were retired by retention, and the log start moved."""
    DELETING = "deleting"
    """The deletion of retired segments began."""
    DELETED = "deleted"
    """Retired segments are gone."""
    RESTORED = "restored"
    RELEASED = "released"
    """A run gave its claim back, and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row, and how it came about."""

    state: PartitionState
    event: Event
    run: str
    """Who wrote it; empty where the rows do not reach back to its claim."""
    segments_in: int
    """Live segments that it retired."""
    segments_out: int
    """Segments that it made live."""


def entries(rows: Sequence[PartitionState]) -> tuple[Entry, ...]:
    """The rows of one partition, in the order in which they were written, each with what it did."""
    if not rows:
        return ()
    run = rows[0].owner_run
    found = [_entry(None, rows[0], _first_event(rows[0]), run)]
    for before, after in pairwise(rows):
        run = after.owner_run if after.epoch > before.epoch else run
        found.append(_entry(before, after, _event(before, after), run))
    return tuple(found)


def _entry(
    before: PartitionState | None, after: PartitionState, event: Event, run: str
) -> Entry:
    was = set() if before is None else {segment.segment_id for segment in before.segments}
    now = {segment.segment_id for segment in after.segments}
    return Entry(
        state=after,
        event=event,
        run=run,
        segments_in=len(was - now),
        segments_out=len(now - was),
    )


def _first_event(row: PartitionState) -> Event:
    is_first_claim = row.epoch == 1 and row.owner_run and not row.cleaner_offsets
    return Event.FOUND if is_first_claim and not row.retired else Event.EARLIER


def _event(before: PartitionState, after: PartitionState) -> Event:
    if after.epoch > before.epoch:
        return Event.CLAIMED
    known = {each.segment.segment_id for each in before.retired}
    if any(segment.segment_id in known for segment in after.segments):
        return Event.RESTORED
    if after.log_start_offset > before.log_start_offset:
        return Event.EXPIRED
    if len(after.whole_retired) < len(before.whole_retired):
        return Event.DELETING
    if len(after.retired) < len(before.retired):
        return Event.DELETED
    if after.cleaner_offsets != before.cleaner_offsets or after.segments != before.segments:
        return Event.COMPACTED
    return Event.RELEASED


def told(found: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries without claims and releases that left what lives, and what can, as it was."""
    return tuple(
        entry
        for entry in found
        if entry.event is not Event.RELEASED
        and (entry.event is not Event.CLAIMED or entry.segments_in or entry.segments_out)
    )


def at(found: Sequence[Entry], time_ms: int) -> Entry | None:
    """The partition at a moment: the last entry that is not later; None: all are."""
    return next(
        (entry for entry in reversed(found) if entry.state.committed_at_ms <= time_ms), None
    )


def left_by(found: Sequence[Entry], run: str) -> tuple[Entry, ...]:
    """How the run, or each run whose name begins so, left the partition; none: there is no such."""
    last = {entry.run: entry for entry in found if entry.run}
    if run in last:
        return (last[run],)
    return tuple(entry for name, entry in last.items() if run and name.startswith(run))
