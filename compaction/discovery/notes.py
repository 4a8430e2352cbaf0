"""Notes: which candidates are kept and not read, and why, a sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tierfold.compaction.discovery.candidates import (
    Candidate,
    is_foreign,
    is_in_hole,
    lowest_named,
)
from tierfold.compaction.discovery.draft import PartitionDraft
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.refusals import missing_below
from tierfold.compaction.model.segments import Hole
from tierfold.compaction.model.wording import counted, spaced


def hole_notes(holes: Sequence[Hole]) -> Iterator[str]:
    """How many gaps are taken for holes, and the one that is most like a missing segment."""
    if holes:
        largest = max(holes, key=lambda hole: hole.end_offset - hole.start_offset)
        gaps = counted(len(holes), "gap")
        yield f"{gaps} between segments taken for holes, the largest at {largest}"


def consent_notes(facts: PartitionFacts) -> Iterator[str]:
    """How many segments a person says to leave alone."""
    if count := len(facts.classified.left_alone):
        yield f"{counted(count, 'segment')} that a person says to leave alone: kept, not read"


def foreign_notes(facts: PartitionFacts) -> Iterator[str]:
    """Which candidates would be orphans, if they were not another catalog's."""
    for found in facts.candidates:
        if is_foreign(found, facts.row):
            yield (
                f"{found.listed} is kept, not read: its id says that it is another catalog's"
            )


def _unreadable(waiting: Sequence[Candidate]) -> Iterator[str]:
    """What cannot be read, and why; once if the same keeps several from being read."""
    first = {one.obstacle.partition(": ")[2]: one for one in reversed(waiting)}
    counts = Counter(one.obstacle.partition(": ")[2] for one in waiting)
    for what, count in counts.items():
        one = first[what]
        others = f" and {spaced(count - 1)} more are" if count > 1 else " is"
        yield f"{one.listed}{others} kept, not read: {one.obstacle}"


def notes_of(draft: PartitionDraft, waiting: Sequence[Candidate]) -> Iterator[str]:
    """Why each candidate that is kept is not read; what is corrupt in those that are."""
    row, reached = draft.facts.row, draft.chain.reached
    taken = {segment.segment_id for segment in draft.chain.taken}
    needed = draft.history.needed(reached)
    for apart in draft.history.apart:
        if apart.segment_id not in needed:
            yield f"{apart} is set apart, outside the leader epoch lineage: kept, not read"
    for unproven in draft.history.unproven:
        yield (
            f"{unproven} is kept, not read: its leader epochs do not continue the log's, and do not"
            " contradict them at an offset that both cover"
        )
    for fitting in draft.history.fitting:
        if row is not None and is_in_hole(fitting, row):
            yield f"{fitting} has offsets that were taken for a hole: kept, not read"
            continue
        is_taken = fitting.segment_id in taken
        if row is not None and not is_taken and fitting.start_offset < lowest_named(row):
            yield (
                f"{fitting} starts below the log start {row.log_start_offset}, and the catalog"
                " lists no segment there: kept, not read"
            )
        if is_taken and fitting.index_corruptions:
            yield (
                f"{fitting} has a corrupt index ({'; '.join(fitting.index_corruptions)}): a"
                " rewrite of the segment builds it again from the .log"
            )
    yield from _unreadable([late for late in waiting if late.obstacle])
    why_not = missing_below(draft.facts, draft.history, draft.chain)
    for late in waiting:
        if late.obstacle:
            continue
        if late.segment_id in needed:
            shared = late.shared_until(draft.history.lineage)
            yield (
                f"{late} is set apart, although it is part of the log up to offset {shared}, where"
                " the log was truncated: kept, not read"
            )
        elif late in draft.history.unproven:
            continue
        elif late.is_without_end and late.start_offset == reached + 1:
            yield f"{late} is not used yet: the next segment will show where it ends"
        elif late.segment is not None:
            yield f"{late} is not used yet: {why_not}"
        else:
            yield f"{late} lacks {late.listed.lacking}: not used until its upload is complete"
