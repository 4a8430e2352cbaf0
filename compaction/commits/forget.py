"""What `tierfold forget` would do after an unclean leader election, and what prevents it. Pure.

A partition whose log was cut off is refused, because the catalog's row contradicts the newest
leader. Forgetting empties the row. Discovery then decides as if it saw the partition for the first
time, and a person has agreed to lose what the new history lacks:

    facts with the row    -> `divergence`  -> whether the log was cut off
                          -> `in_the_way`  -> segments that only the row distinguishes from uploads
    facts without the row -> the view that discovery would make
    both                  -> `forgetting`  -> what is taken, what is set apart, which offsets vanish
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.discovery.histories import InspectedSegment
from tierfold.compaction.discovery.overlaps import Comparison
from tierfold.compaction.discovery.unknown_segments import (
    PartitionFacts,
    is_orphan,
    orphans_of_diverged,
)
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason, never_claimed
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment

NAMED: Final = 5
"""Segments of a kind that a refusal names; it counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets, both ends inclusive."""

    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        return f"{self.start_offset}–{self.end_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """What forgetting a partition would change."""

    forgotten: tuple[Segment, ...]
    """The row's live segments, in offset order; empty where there is no row."""
    taken: tuple[Segment, ...]
    """What discovery would take afterwards, in offset order."""
    set_apart: tuple[InspectedSegment, ...]
    """What it would set apart: listed, never read."""
    vanishing: tuple[OffsetRange, ...]
    """Offsets that readers would no longer find."""

    @property
    def consent(self) -> tuple[str, ...]:
        """Ids of the segments that a person agrees to lose."""
        return tuple(segment.listed.segment_id for segment in self.set_apart)


def row_without(
    key: PartitionKey, state: PartitionState | None, consent: Iterable[str]
) -> PartitionState:
    """The row of a forgotten partition; `state` is the present row, None if there is none."""
    return (state or never_claimed(key)).emptied(consent)


def forgetting(facts: PartitionFacts, bare: PartitionFacts, view: PartitionView) -> Forgetting:
    """What would be lost, and what would stay.

    Args:
        facts: what was read, with the present row.
        bare: the same tier without the row: every listed segment is unknown.
        view: the view that discovery makes of `bare`, with consent to lose what it sets apart.
    """
    live = () if facts.row is None else facts.row.segments
    ids = {segment.segment_id for segment in view.set_apart}
    apart = tuple(segment for segment in bare.inspected if segment.listed.segment_id in ids)
    given = [(segment.start_offset, segment.end_offset) for segment in live]
    given += [
        (inspected.listed.start_offset, inspected.end_offset)
        for inspected in apart
        if inspected.end_offset is not None
    ]
    return Forgetting(
        forgotten=live,
        taken=view.segments,
        set_apart=apart,
        vanishing=tuple(_beyond(view, _united(given))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """Ids of listed segments that only the row distinguishes from a broker's uploads.

    Without the row they would count as uploads. Records that compaction removed, and what a dead
    run wrote, would be part of the log again.
    """

    written: tuple[str, ...]
    """Live ones that tierfold wrote."""
    retired: tuple[str, ...]
    orphans: tuple[str, ...]
    doubtful: tuple[str, ...] = ()
    """Orphans that fit the new leader's log beyond what it shares with the row, so that `vacuum`
    keeps them. A dead run may have written them. Beside uploads, their batches show that; beside
    live segments that tierfold wrote, nothing does."""

    def refusal(self, uploads_at: str) -> Refusal:
        """What to do first, in this order: a restore needs what a later step deletes.

        Args:
            uploads_at: the time of a state that can be restored and whose live segments are all
                uploads; empty if there is none.
        """
        kinds = (
            ("of the live segments tierfold wrote", self.written),
            ("retired", self.retired),
            ("orphaned", self.orphans),
            ("orphaned, and the new log may need them", self.doubtful),
        )
        found = "; ".join(f"{what}: {_named(ids)}" for what, ids in kinds if ids)
        return Refusal(
            reason=RefusalReason.LINEAGE_DIVERGED,
            detail=f"only its row tells these segments from a broker's uploads: {found}",
            remedy=" ".join((*self._ways_out(uploads_at), "Then forget.")),
        )

    def _ways_out(self, uploads_at: str) -> Iterator[str]:
        if self.written and uploads_at:
            yield (
                "First go back to what brokers uploaded: `tierfold restore TIER PARTITION --to"
                f" {uploads_at}`."
            )
        first = "" if not self.written or uploads_at else "First "
        if self.retired or (self.written and uploads_at):
            yield (
                f"{first}`tierfold vacuum` deletes retired segments once their grace period is"
                " over; those that brokers uploaded only with tier.binding=detached."
            )
        if self.orphans:
            yield (
                f"{first}`tierfold vacuum` with tier.binding=detached deletes orphans once they are"
                " old."
            )
        if self.written and not uploads_at:
            # Then `vacuum` refuses the partition for what is gone, so this comes last.
            yield (
                "No state from before the first compaction can be restored any more. Move the"
                " objects of these live segments out of the tier and keep them. Uploads that"
                " compaction retired count again if they are still there; the log loses the records"
                " that only the moved segments hold."
            )
        if self.doubtful and not (self.written and uploads_at):
            yield (
                "`tierfold vacuum` spares what the new log may need, but a run that died may have"
                " written it. While no run is at work, move it out of the tier, too. Once the"
                " partition is forgotten, and before the next run, bring back what brokers"
                " uploaded."
            )


def in_the_way(facts: PartitionFacts, unlike: Collection[str] = ()) -> Obstacles | None:
    """The obstacles to emptying the row; None: there are none.

    Args:
        facts: what was read, with the present row.
        unlike: ids of the segments that were found to differ by `comparisons_with_live`.
    """
    row = facts.row
    if row is None:
        return None
    ours = {segment.segment_id for segment in row.segments if segment.written_by_run}
    known_ids = [segment.segment_id for segment in facts.classified.known]
    # Originals of compacted segments are whole uploads: discovery without a row may take them, but
    # not beside what was made of them. `vacuum` keeps them while the row names tierfold's segments.
    by_us = {entry.segment.segment_id for entry in row.retired if entry.segment.written_by_run}
    retired_ids = [segment.segment_id for segment in facts.classified.retired]
    spared_ids = [segment.listed.segment_id for segment in _spared(facts, row)]
    found = Obstacles(
        written=tuple(known_id for known_id in known_ids if known_id in ours),
        retired=tuple(
            retired_id for retired_id in retired_ids if retired_id in by_us or not ours
        ),
        orphans=tuple(orphan.segment_id for orphan in orphans_of_diverged(facts)),
        doubtful=tuple(spared_id for spared_id in spared_ids if ours or spared_id in unlike),
    )
    is_any = found.written or found.retired or found.orphans or found.doubtful
    return found if is_any else None


def comparisons_with_live(facts: PartitionFacts) -> Iterator[Comparison]:
    """Stretches to compare: a segment of a dead run lacks batches of the live upload there.

    One that has all of them is as good as an upload. `second` is the unknown segment.
    """
    row = facts.row
    if row is None:
        return
    known = {segment.segment_id for segment in facts.classified.known}
    for spared in _spared(facts, row):
        for live in row.segments:
            start = max(live.start_offset, spared.listed.start_offset)
            end = min(live.end_offset, spared.end_offset or 0)
            is_there = live.segment_id in known and not live.written_by_run
            if is_there and spared.segment is not None and start <= end:
                yield Comparison(
                    first=live, second=spared.segment, start_offset=start, end_offset=end
                )


def _spared(facts: PartitionFacts, row: PartitionState) -> list[InspectedSegment]:
    """Orphans that `vacuum` keeps and that a tierfold run may have written."""
    deletable = {orphan.segment_id for orphan in orphans_of_diverged(facts)}
    return [
        inspected
        for inspected in facts.inspected
        if is_orphan(inspected, row)
        and inspected.listed.segment_id not in deletable
        and not _begins_amid_upload(inspected, row)
    ]


def _begins_amid_upload(segment: InspectedSegment, row: PartitionState) -> bool:
    """Whether it begins inside a live upload, so that a broker wrote it.

    A run's segments begin where one of its row's does, and a live upload was whole in every row.
    The end of a `.log` shows nothing: compaction may have removed the last batches of a group.
    """
    return any(
        live.start_offset < segment.listed.start_offset <= live.end_offset
        for live in row.segments
        if not live.written_by_run
    )


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return f"{', '.join(ids[:NAMED])}{more}"


def _united(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The spans in order, joined where they touch or overlap."""
    first = last = None
    for start, end in sorted(spans):
        if first is None or last is None:
            first, last = start, end
        elif start <= last + 1:
            last = max(last, end)
        else:
            yield first, last
            first, last = start, end
    if first is not None and last is not None:
        yield first, last


def _beyond(view: PartitionView, spans: Iterable[tuple[int, int]]) -> Iterator[OffsetRange]:
    """The parts of the spans outside the view's offsets, which have no gap."""
    reached = view.next_offset - 1
    for start, end in spans:
        if start < view.log_start_offset:
            before = min(end, view.log_start_offset - 1)
            yield OffsetRange(start_offset=start, end_offset=before)
        if end > reached:
            yield OffsetRange(start_offset=max(start, reached + 1), end_offset=end)
