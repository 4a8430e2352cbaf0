"""Lifetimes of one partition, row by row: uploads, compactions, expiry, deletion, restores.

Every row is made as the catalog makes it, by `claimed` and `applied`; all uploads and the
segments whose deletion has started are kept beside the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from tests.compaction.builders import KEY, a_chain, a_segment, a_state, segment_id
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdvanceCleanerOffset,
    CommitProposal,
    FinishDeletion,
    MoveLogStart,
    NoteStrategy,
    ReleaseClaim,
    RetireSegments,
    StartDeletion,
    Update,
)
from tierfold.compaction.commits.invariants import (
    CLAIM_INVARIANTS,
    COMMIT_INVARIANTS,
    RESTORE_INVARIANTS,
    violations,
)
from tierfold.compaction.commits.restore import RestorePlan, restore_plan_of
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import PartitionState, Segment

Step = tuple[str, int, int]
"""What is done, and two numbers that choose the segments."""

KINDS = ("upload", "compact", "expire", "mark", "forget", "undo", "copy")
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 7), st.integers(0, 7)), max_size=12
)


@dataclass(slots=True)
class Life:
    """One partition."""

    rows: list[PartitionState] = field(default_factory=list)
    """Oldest first; each was committed one millisecond after the one before."""
    uploads: list[Segment] = field(default_factory=list)
    """All that brokers ever uploaded, in offset order."""
    going: set[str] = field(default_factory=set)
    """Ids whose deletion has started."""
    copies: dict[str, str] = field(default_factory=dict)
    """By the id of each copy, the id under which its bytes were first written."""

    @property
    def now(self) -> PartitionState:
        """The present row."""
        return self.rows[-1]

    def take(self, step: Step) -> None:
        """One run, which claims and commits, unless it has nothing to do."""
        kind, first, second = step
        updates = getattr(self, f"_{kind}")(first, second)
        if updates is not None:
            self.commit(*updates, ReleaseClaim(run=self.now.owner_run))

    def commit(self, *updates: Update) -> None:
        """A commit under the present epoch."""
        before = self.now
        proposal = CommitProposal(
            key=KEY,
            commit_id=f"commit {len(self.rows)}",
            requires=(),
            updates=updates,
            at_ms=len(self.rows),
        )
        after = applied(proposal, before)
        invariants = RESTORE_INVARIANTS if proposal.is_restore else COMMIT_INVARIANTS
        assert not violations(before, after, invariants)
        self.rows.append(after)

    def restore(self, restore_plan: RestorePlan, *, by_copy: bool = False) -> None:
        """A run that restores; by copies, if so asked."""
        self.claim(self.now)
        run = self.now.owner_run
        copies = [
            segment.copied(segment_id(f"copy {len(self.rows)}/{number}"), run)
            for number, segment in enumerate(restore_plan.back)
            if by_copy
        ]
        self.copies |= {copy.segment_id: copy.first_id for copy in copies}
        update = restore_plan.update(at_ms=len(self.rows), run=run, copies=copies)
        self.commit(update, ReleaseClaim(run=run))

    def is_gone(self, first_id: str) -> bool:
        """Whether neither the segment nor a copy of it is whole."""
        same = {first_id, *(copy for copy, first in self.copies.items() if first == first_id)}
        return same <= self.going

    def claim(self, read: PartitionState) -> None:
        """A new run takes the partition over, as it read it."""
        number = len(self.rows)
        after = claimed(read, run=f"run {number}", commit_id=f"claim {number}", at_ms=number)
        assert not violations(self.rows[-1] if self.rows else read, after, CLAIM_INVARIANTS)
        self.rows.append(after)

    def _upload(self, first: int, second: int) -> Sequence[Update]:
        came = a_chain(*[1 + second] * (1 + first % 2), start_offset=self.now.next_offset)
        came = tuple(
            replace(segment, segment_id=segment_id(f"up {len(self.uploads) + i}"))
            for i, segment in enumerate(came)
        )
        self.uploads += came
        self.claim(replace(self.now, segments=(*self.now.segments, *came)))
        return ()

    def _compact(self, first: int, second: int) -> Sequence[Update] | None:
        """A stretch of live segments becomes one; if `first` is 7, nothing changes."""
        live = self.now.segments
        if not live:
            return None
        self.claim(self.now)
        row = self.now
        at = first % len(live)
        sources = live[at : at + 1 + second % 3]
        merged = a_segment(
            sources[0].start_offset,
            sources[-1].end_offset,
            segment_id=segment_id(f"by {len(self.rows)}"),
            origin=Compacted(row.owner_run),
        )
        ids = tuple(source.segment_id for source in sources)
        offset = max(row.cleaner_offset or 0, merged.next_offset)
        swap = (
            RetireSegments(ids=ids, at_ms=len(self.rows), run=row.owner_run),
            AddSegments(segments=(merged,)),
        )
        return (
            *(() if first == 7 else swap),
            AdvanceCleanerOffset(epoch=row.epoch, offset=offset),
            *((NoteStrategy(name="timestamp"),) if second == 7 else ()),
        )

    def _expire(self, first: int, _second: int) -> Sequence[Update] | None:
        live = self.now.segments
        if not live:
            return None
        self.claim(self.now)
        head = live[: 1 + first % len(live)]
        ids = tuple(segment.segment_id for segment in head)
        return (
            RetireSegments(ids=ids, at_ms=len(self.rows), run=self.now.owner_run),
            MoveLogStart(offset=head[-1].next_offset),
        )

    def _mark(self, first: int, second: int) -> Sequence[Update] | None:
        whole = [entry.segment.segment_id for entry in self.now.whole_retired]
        if not whole:
            return None
        self.claim(self.now)
        ids = tuple(whole[first % len(whole) :][: 1 + second % 3])
        self.going |= set(ids)
        return (StartDeletion(ids=ids, at_ms=len(self.rows)),)

    def _forget(self, _first: int, _second: int) -> Sequence[Update]:
        self.claim(self.now)
        return (FinishDeletion(ids=tuple(sorted(self.going & self.now.retired_ids))),)

    def _undo(self, first: int, second: int, *, by_copy: bool = False) -> None:
        restore_plan = restore_plan_of(self.rows[(first * 8 + second) % len(self.rows)], self.now)
        if isinstance(restore_plan, RestorePlan) and not restore_plan.is_nothing:
            self.restore(restore_plan, by_copy=by_copy)

    def _copy(self, first: int, second: int) -> None:
        self._undo(first, second, by_copy=True)


def lived(steps: Sequence[Step]) -> Life:
    """A lifetime of these steps, after three uploads and the claim that found them."""
    life = Life(uploads=list(a_chain(10, 10, 10)))
    life.claim(a_state(life.uploads))
    life.commit(ReleaseClaim(run=life.now.owner_run))
    for step in steps:
        life.take(step)
    return life
