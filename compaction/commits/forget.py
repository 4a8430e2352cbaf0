"""What `tierfold forget` would change after an unclean leader election, and what prevents it.

A partition whose log was truncated is refused, because the catalog's row contradicts the newest
leader. `forget` empties the row. Discovery then starts as if the partition were new, and a person
has agreed to lose what the new history lacks.

    in_the_way   the segments that only the row distinguishes from a broker's uploads
    forgetting   what would be live, what would be set apart, and which offsets would be lost
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.discovery.candidates import Candidate, is_foreign, is_orphan
from tierfold.compaction.discovery.drafted_view import orphans_of_diverged
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.overlaps import Comparison
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason, never_claimed
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment

NAMED: Final = 5
"""The maximum number of segments of a kind that a refusal names; it counts the others."""


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
    """The row's live segments, in offset order; empty: there is no row."""
    taken: tuple[Segment, ...]
    """The segments that would be live afterwards, in offset order."""
    set_apart: tuple[Candidate, ...]
    """The segments that would be set apart: listed, never read."""
    vanishing: tuple[OffsetRange, ...]
    """The offsets that readers would no longer find."""

    @property
    def consent(self) -> tuple[str, ...]:
        """Ids of the segments that a person agrees to lose."""
        return tuple(candidate.segment_id for candidate in self.set_apart)


def row_without(
    key: PartitionKey, state: PartitionState | None, consent: Iterable[str]
) -> PartitionState:
    """The row of a forgotten partition; `state` is the present row, if there is one."""
    return (state or never_claimed(key)).emptied(consent)


def forgetting(facts: PartitionFacts, bare: PartitionFacts, view: PartitionView) -> Forgetting:
    """What would be lost, and what would stay.

    `facts` has the present row; `bare` is the same tier without it, so that every listed segment is
    unknown. `view` is the view of `bare`, with consent to lose what it sets apart.
    """
    live = () if facts.row is None else facts.row.segments
    ids = {segment.segment_id for segment in view.set_apart}
    apart = tuple(found for found in bare.candidates if found.segment_id in ids)
    held = [(segment.start_offset, segment.end_offset) for segment in live]
    held += [
        (found.start_offset, found.end_offset) for found in apart if found.end_offset is not None
    ]
    return Forgetting(
        forgotten=live,
        taken=view.segments,
        set_apart=apart,
        vanishing=tuple(_beyond(view, _united(held))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """Ids of listed segments that only the row distinguishes from a broker's uploads.

    Without the row they would count as uploads. Records that compaction removed, and those that a
    dead run wrote, would be part of the log again.
    """

    written: tuple[str, ...]
    """Live segments that tierfold wrote."""
    retired: tuple[str, ...]
    orphans: tuple[str, ...]
    doubtful: tuple[str, ...] = ()
    """Orphans that a dead run may have written, and that `vacuum` keeps, because they fit the new
    leader's log beyond what it shares with the row. A comparison with live uploads shows who wrote
    them; a comparison with live segments that tierfold wrote does not."""
    foreign: tuple[str, ...] = ()
    """What another catalog's runs wrote within the row's range; `vacuum` keeps it."""

    @property
    def is_any(self) -> bool:
        """Whether there is an obstacle."""
        return bool(
            self.written or self.retired or self.orphans or self.doubtful or self.foreign
        )

    def refusal(self, uploads_at: str) -> Refusal:
        """A refusal with the steps to do first; a restore needs segments that a later step deletes.

        `uploads_at` is the time of a state that can be restored and whose live segments are all
        uploads; empty: there is none.
        """
        kinds = (
            ("live and written by tierfold", self.written),
            ("retired", self.retired),
            ("orphaned", self.orphans),
            ("orphaned, and the new log may need them", self.doubtful),
            ("another catalog's", self.foreign),
        )
        found = "; ".join(f"{what}: {_named(ids)}" for what, ids in kinds if ids)
        return Refusal(
            reason=RefusalReason.LINEAGE_DIVERGED,
            detail="without the catalog's row these segments would count as a broker's uploads:"
            f" {found}",
            remedy=" ".join(self._steps(uploads_at)),
        )

    def _steps(self, uploads_at: str) -> Iterator[str]:
        if self.written and uploads_at:
            yield (
                "First make the uploads live again: `tierfold restore TIER PARTITION --to"
                f" {uploads_at}`."
            )
        run = "Run" if not self.written or uploads_at else "First run"
        if self.retired or (self.written and uploads_at):
            yield (
                f"{run} `tierfold vacuum`: it deletes retired segments after their grace"
                " period, and those that brokers uploaded only with tier.binding=detached."
            )
        if self.orphans:
            yield (
                f"{run} `tierfold vacuum` with tier.binding=detached: it deletes orphans older"
                " than --orphan-age."
            )
        if self.written and not uploads_at:
            # This comes last, because `vacuum` refuses a partition whose live segments are gone.
            yield (
                "No state from before the first compaction can be restored. Move the objects of"
                " these live segments out of the tier and keep them. Retired uploads that are still"
                " in the tier count again; the log loses the records that only the moved segments"
                " hold."
            )
        moves_orphans = self.doubtful and not (self.written and uploads_at)
        if moves_orphans:
            yield (
                "`tierfold vacuum` keeps the orphans that the new log may need, but a dead run may"
                " have written them. While no run is at work, move them out of the tier, too."
            )
        if self.foreign:
            yield (
                "Move the segments of another catalog out of the tier while no run of it is at"
                " work, and keep them."
            )
        yield "Then run `tierfold forget` again."
        if moves_orphans:
            yield "Before any other run, bring back those of the orphans that brokers uploaded."


def in_the_way(facts: PartitionFacts, unlike: Collection[str] = ()) -> Obstacles | None:
    """The obstacles to emptying the row; None: there are none.

    `unlike`: ids of the segments that differ in `comparisons_with_live`.
    """
    row = facts.row
    if row is None:
        return None
    ours = {segment.segment_id for segment in row.segments if not segment.is_upload}
    known_ids = [segment.segment_id for segment in facts.classified.known]
    # A retired original is a whole upload, which discovery may use, but not beside the segments
    # compacted from it. `vacuum` keeps originals as long as the row names tierfold's segments.
    by_us = {
        entry.segment.segment_id for entry in row.retired if not entry.segment.is_upload
    }
    retired_ids = [segment.segment_id for segment in facts.classified.retired]
    spared_ids = [candidate.segment_id for candidate in _spared(facts, row)]
    found = Obstacles(
        written=tuple(known_id for known_id in known_ids if known_id in ours),
        retired=tuple(
            retired_id for retired_id in retired_ids if retired_id in by_us or not ours
        ),
        orphans=tuple(orphan.segment_id for orphan in orphans_of_diverged(facts)),
        doubtful=tuple(spared_id for spared_id in spared_ids if ours or spared_id in unlike),
        foreign=tuple(one.segment_id for one in facts.candidates if is_foreign(one, row)),
    )
    return found if found.is_any else None


def comparisons_with_live(facts: PartitionFacts) -> Iterator[Comparison]:
    """Stretches to compare: a dead run's segment lacks batches of the live upload there.

    A segment that has all of them is as good as an upload. `second` is the unknown segment.
    """
    row = facts.row
    if row is None:
        return
    known = {segment.segment_id for segment in facts.classified.known}
    for spared in _spared(facts, row):
        for live in row.segments:
            start = max(live.start_offset, spared.start_offset)
            end = min(live.end_offset, spared.end_offset or 0)
            is_there = live.segment_id in known and live.is_upload
            if is_there and spared.segment is not None and start <= end:
                yield Comparison(
                    first=live, second=spared.segment, start_offset=start, end_offset=end
                )


def _spared(facts: PartitionFacts, row: PartitionState) -> list[Candidate]:
    """Orphans that `vacuum` keeps and that a tierfold run may have written."""
    deletable = {orphan.segment_id for orphan in orphans_of_diverged(facts)}
    return [
        found
        for found in facts.candidates
        if is_orphan(found, row)
        and found.segment_id not in deletable
        and not _starts_inside_upload(found, row)
    ]


def _starts_inside_upload(candidate: Candidate, row: PartitionState) -> bool:
    """Whether it starts inside a live upload, so that a broker must have written it.

    A run's segment starts where a segment of its row does, and every row had the live upload whole.
    The end of a `.log` proves nothing: compaction may have removed the last batches of a group.
    """
    return any(
        live.start_offset < candidate.start_offset <= live.end_offset
        for live in row.segments
        if live.is_upload
    )


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return f"{', '.join(ids[:NAMED])}{more}"


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, joined where they touch or overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _beyond(view: PartitionView, spans: Iterable[tuple[int, int]]) -> Iterator[OffsetRange]:
    """The parts of the spans outside the view's offsets, which are contiguous."""
    reached = view.next_offset - 1
    for start, end in spans:
        if start < view.log_start_offset:
            before = min(end, view.log_start_offset - 1)
            yield OffsetRange(start_offset=start, end_offset=before)
        if end > reached:
            yield OffsetRange(start_offset=max(start, reached + 1), end_offset=end)
