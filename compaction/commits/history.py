"""The history of a partition, from its rows: one entry per claim and commit.

Rows are read lazily, newest first, because each one opens a version of the catalog's table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tierfold.compaction.model.segments import PartitionState


class Event(StrEnum):
    """What a claim or a commit did."""

    FOUND = "found"
    """The first row, or the first after `forget`, with the segments that brokers had uploaded."""
    EARLIER = "earlier"
    """The oldest row that is kept; its event is unknown."""
    CLAIMED = "claimed"
    """A run opened the next epoch and adopted new segments."""
    COMPACTED = "compacted"
    EXPIRED = "expired"
    """Segments were retired by retention, and the log start moved."""
    DELETING = "deleting"
    """The deletion of retired segments began."""
    DELETED = "deleted"
    """The objects of retired segments were deleted."""
    RESTORED = "restored"
    FORGOTTEN = "forgotten"
    """`tierfold forget` emptied the row of a log that was truncated."""
    CONSENTED = "consented"
    """The row notes what a person agreed to, and nothing else changed."""
    RELEASED = "released"
    """A run released its claim and changed nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row, and the event that made it."""

    state: PartitionState
    event: Event
    run: str
    """The run that wrote it; empty: its claim is older than the rows."""
    claimed_at_ms: int
    """The time of that run's claim, or of the oldest row of its epoch."""
    segments_in: int
    """The number of live segments that it retired."""
    segments_out: int
    """The number of segments that it made live."""


def entries(rows: Iterable[PartitionState]) -> Iterator[Entry]:
    """One entry per row of a partition, newest first; lazy, epoch by epoch."""
    of_epoch: list[PartitionState] = []
    for row in rows:
        if of_epoch and row.epoch != of_epoch[-1].epoch:
            yield from _changes([*of_epoch, row], of_epoch[-1])
            of_epoch = []
        of_epoch.append(row)
    if of_epoch:
        first = of_epoch[-1]
        yield from _changes(of_epoch, first)
        yield _entry(None, first, _first_event(first), first)


def _changes(rows: Sequence[PartitionState], claim: PartitionState) -> Iterator[Entry]:
    """One entry per row except the oldest, with which the second oldest is compared."""
    for after, before in pairwise(rows):
        yield _entry(before, after, _event(before, after), claim)


def _entry(
    before: PartitionState | None, after: PartitionState, event: Event, claim: PartitionState
) -> Entry:
    was = frozenset[str]() if before is None else before.live_ids
    now = after.live_ids
    return Entry(
        state=after,
        event=event,
        run=claim.owner_run,
        claimed_at_ms=claim.committed_at_ms,
        segments_in=len(was - now),
        segments_out=len(now - was),
    )


def _first_event(row: PartitionState) -> Event:
    if row.is_forgotten:
        return Event.CLAIMED
    is_first_claim = row.epoch == 1 and row.owner_run and not row.cleaner_offsets
    return Event.FOUND if is_first_claim and not row.retired else Event.EARLIER


def _event(before: PartitionState, after: PartitionState) -> Event:
    if after.epoch > before.epoch:
        return Event.FOUND if before.is_forgotten and not after.is_forgotten else Event.CLAIMED
    if after.is_forgotten and after.forgotten != before.forgotten:
        return Event.FORGOTTEN
    if after.live_ids & before.retired_ids or _has_new_copies(before, after):
        return Event.RESTORED
    if after.log_start_offset > before.log_start_offset:
        return Event.EXPIRED
    if len(after.whole_retired) < len(before.whole_retired):
        return Event.DELETING
    if len(after.retired) < len(before.retired):
        return Event.DELETED
    if after.cleaner_offsets != before.cleaner_offsets or after.segments != before.segments:
        return Event.COMPACTED
    return Event.CONSENTED if after.consents != before.consents else Event.RELEASED


def _has_new_copies(before: PartitionState, after: PartitionState) -> bool:
    return any(s.copy_of and s.segment_id not in before.named_ids for s in after.segments)


def notable(found: Iterable[Entry]) -> Iterator[Entry]:
    """The entries without claims and releases that changed no live segment."""
    return (
        entry
        for entry in found
        if entry.event is not Event.RELEASED
        and (entry.event is not Event.CLAIMED or entry.segments_in or entry.segments_out)
    )


def at(found: Iterable[Entry], time_ms: int) -> Entry | None:
    """The newest entry of exactly that time, or else the newest before it; None: all are later.

    Commit times may fall, because clocks differ and `--now` sets a run's time. So an exact time,
    copied from the history, always selects its own entry.
    """
    before = None
    for entry in found:
        if entry.state.committed_at_ms == time_ms:
            return entry
        if before is None and entry.state.committed_at_ms < time_ms:
            before = entry
    return before


def left_by(found: Iterable[Entry], run: str) -> tuple[Entry, ...]:
    """The last entry of the run, or of each run whose name has that prefix; empty: none has."""
    if not run:
        return ()
    by_run: dict[str, Entry] = {}
    for entry in found:
        if entry.run == run:
            return (entry,)
        if entry.run.startswith(run):
            by_run.setdefault(entry.run, entry)
    return tuple(by_run.values())
