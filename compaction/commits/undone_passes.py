"""Which passes an unclean leader election undoes: they dropped values for records that it cut off.

A pass drops a value because a later record of its key supersedes it. Once that record is cut off,
the value is the newest one again, and only segments from before the pass have it:

    offset     0           30            60     70
    uploads    |U0  U1  U2 |U3  U4  U5   |               retired by the pass
    the pass   |S------------------------|               lacks what records from 30 on superseded
    the log    |           |V-------------------|        a new leader's, from 30 on

So `forget` begins with the row as it was before the first such pass, as far as that is of the log:
U0, U1 and U2. A retired id never lives again, so they become live as copies.

Where they are gone, S alone has what is left of the log below the cut. Then a copy of S becomes
live that ends there, and what the pass dropped is lost.

    undone_passes   that row; or that its segments are gone; or that no election cut anything off

What a pass read is not noted as such. It may have read all that was live when it was committed. It
did not read what lies beyond the cleaner offset, if that commit raised it; a forced pass does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tierfold.compaction.commits.restore import as_now
from tierfold.compaction.discovery.histories import History
from tierfold.compaction.model.leader_epochs import epochs_in, is_within_lineage
from tierfold.compaction.model.segments import PartitionState, RetiredSegment, Segment
from tierfold.compaction.model.serving import ConsentKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesLost:
    """The passes cannot be undone: no whole segments have what they dropped."""

    cut_at: int
    """The first offset that was cut off."""
    gone: tuple[Segment, ...]
    """What would be needed and is gone, in offset order; empty: the catalog does not know it."""

    @property
    def note(self) -> str:
        """What is lost, and what mends it if anything does, sentences."""
        what = (
            f"An unclean leader election cut the log off at offset {self.cut_at}. Older values that"
            " records from there on had superseded may be lost: compaction had dropped them, and"
            " they are in no whole segment."
        )
        if not self.gone:
            return what
        return (
            f"{what} If a backup has the objects of {self._gone_ids}, only a `forget` that finds"
            " them copied back brings these values back; a later one does not."
        )

    @property
    def bring_back(self) -> str:
        """What mends it, a sentence; empty: the catalog does not know."""
        if not self.gone:
            return ""
        return f"If a backup has the objects of {self._gone_ids}, copy them back and run again."

    @property
    def _gone_ids(self) -> str:
        return ", ".join(segment.segment_id for segment in self.gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The row as it was before the passes, as far as it is of the log."""

    row: PartitionState
    """Its live segments are of the log; all others that the present row names are retired."""
    back: tuple[Segment, ...]
    """The live ones of it that become live as copies, in offset order.

    The present row has retired them; or it has the only one as live, which ends behind the cut and
    here at it.
    """
    lost: ValuesLost | None = None
    """What is lost all the same; None: nothing, as far as is known."""


UndonePasses: TypeAlias = Undone | ValuesLost | None
"""None: no election cut off what the row has, or nothing of it is of the log."""


def undone_passes(
    row: PartitionState,
    rows: Iterable[PartitionState],
    history: History,
    whole: Collection[str],
    log_start: int,
) -> UndonePasses:
    """Go back before the passes that may have read what was cut off.

    `rows`: `row` and those before it, newest first, read as far as needed. `history`: of what
    brokers have. `whole`: ids of the segments whose objects are all in the tier. `log_start`: the
    brokers'.
    """
    cut_at = _cut_at(row, history)
    if cut_at is None:
        return None
    before = _before(row, rows, cut_at)
    if before is None:
        lost = ValuesLost(cut_at=cut_at, gone=())
        return _cut_off(row, lost, history, whole, log_start) or lost
    needed = [
        segment
        for segment in as_now(before, row).values()
        if segment.end_offset >= log_start and is_within_lineage(segment, history.lineage)
    ]
    if not needed:
        return None
    back = tuple(segment for segment in needed if segment.segment_id not in row.live_ids)
    if gone := tuple(segment for segment in back if segment.segment_id not in whole):
        lost = ValuesLost(cut_at=cut_at, gone=gone)
        return _cut_off(row, lost, history, whole, log_start) or lost
    return Undone(row=_with_live(row, needed, history), back=back)


def _cut_off(
    row: PartitionState,
    lost: ValuesLost,
    history: History,
    whole: Collection[str],
    log_start: int,
) -> Undone | None:
    """The present row up to the cut, if a whole live segment lies on both sides of it; or None."""
    last = lost.cut_at - 1
    over = [one for one in row.segments if one.start_offset <= last < one.end_offset]
    if not over or over[0].segment_id not in whole or last < log_start:
        return None
    below = [
        segment
        for segment in row.segments
        if segment.end_offset <= last and segment.end_offset >= log_start
    ]
    back = replace(
        over[0],
        end_offset=last,
        leader_epochs=epochs_in(over[0].leader_epochs, over[0].own_start_offset, last),
    )
    return Undone(row=_with_live(row, (*below, back), history), back=(back,), lost=lost)


def _cut_at(row: PartitionState, history: History) -> int | None:
    """The first offset that live segments have of one leader and the log of another; None: none."""
    found = (history.against_live(segment) for segment in row.segments)
    return min((one.offset for one in found if one is not None), default=None)


def _before(
    row: PartitionState, rows: Iterable[PartitionState], cut_at: int
) -> PartitionState | None:
    """The row before the first pass that may have read from an offset on; None: it is not known.

    That is the present row if no pass did. What an earlier `forget` adopted is as brokers had it.
    """
    before = after = row
    for earlier in rows:
        if earlier.is_forgotten or _adoptions(earlier) < _adoptions(row):
            break
        if _may_have_read(earlier, after, cut_at):
            before = earlier
        after = earlier
        if earlier.next_offset <= cut_at:
            return before
    # Nothing says what passes had read that are older than the oldest row.
    return before if all(segment.is_upload for segment in after.segments) else None


def _adoptions(row: PartitionState) -> int:
    return sum(consent.kind == ConsentKind.ADOPTED for consent in row.consents)


def _may_have_read(before: PartitionState, after: PartitionState, cut_at: int) -> bool:
    """Whether a commit wrote replacements, and may have read offsets from `cut_at` on for them."""
    known = {segment.first_id for segment in before.named_segments}
    if all(segment.is_upload or segment.first_id in known for segment in after.segments):
        return False
    reached, clean = after.cleaner_offset or 0, before.cleaner_offset
    has_risen = reached > (before.log_start_offset if clean is None else clean)
    return not (has_risen and reached <= cut_at)


def _with_live(
    row: PartitionState, live: Iterable[Segment], history: History
) -> PartitionState:
    """The row with these live segments in place of its own, which are retired."""
    segments = tuple(live)
    ids = {segment.segment_id for segment in segments}
    replaced = (
        RetiredSegment(
            segment=segment,
            retired_at_ms=row.committed_at_ms,
            retired_by_epoch=row.epoch,
            retired_by_run=row.owner_run,
        )
        for segment in row.segments
    )
    retired = (one for one in (*row.retired, *replaced) if one.segment.segment_id not in ids)
    found = replace(row, segments=segments, lineage=history.lineage, retired=tuple(retired))
    return found.with_live_notes()
