"""What `vacuum` may delete of a partition; `jobs.verbs.vacuum` carries it out. Pure.

    live      -> retired   expired by retention; its objects stay for the grace period
    retired   -> marked    (`starting`) the grace period is over; its objects are deleted
    marked    -> gone      (`going`) an earlier run began to delete it; what is left of it goes
    orphan    -> gone      no row names it, it holds nothing of its own, no run can commit it
    set apart -> gone      outside the leader epoch lineage, and a person gave it up

Age does not prove that no run can commit an orphan: the run that wrote it may be stalled for days.
It is certain once a newer epoch was opened *after* the listing that showed the orphan. Age only
protects runs that are at work. (docs/semantics.md, 8 and 9.) Which unknown segments are orphans is
decided by `discovery.unknown_segments.is_orphan`.

    deletion_plan_of   what may be deleted, and why not more
    waits_until        what may be deleted later, and when
    run_at_work        the run that must not be disturbed
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tierfold.compaction.commits.commit import (
    FinishDeletion,
    MoveLogStart,
    ReleaseClaim,
    Requirement,
    RetireSegments,
    SegmentsAreLive,
    SegmentsAreRetired,
    StartDeletion,
    Update,
)
from tierfold.compaction.deletion.expiry import Expired, expired_head
from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState, RetiredSegment

GRACE_MS: Final = DAY_MS
"""How long a retired segment stays at least: readers of the earlier row still need it, and
`restore` brings it back."""

ORPHAN_AGE_MS: Final = DAY_MS
"""How old an orphan is at least: longer than a run takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumLimits:
    """The limits of one `vacuum`: the time, how long things stay, and what else is deleted."""

    now_ms: int
    grace_ms: int = GRACE_MS
    orphan_age_ms: int = ORPHAN_AGE_MS
    takes_set_apart: bool = False
    """What lies outside the leader epoch lineage goes, too (`vacuum --diverged`)."""

    def is_old(self, modified_ms: int) -> bool:
        """Whether what was written then is too old to be of a run at work."""
        return self.now_ms - modified_ms >= self.orphan_age_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan:
    """What is deleted of one partition, and why not more."""

    key: PartitionKey
    expired: tuple[Expired, ...] = ()
    log_start_offset: int = 0
    """Afterwards."""
    starting: tuple[RetiredSegment, ...] = ()
    """Their deletion starts now."""
    going: tuple[RetiredSegment, ...] = ()
    """Their deletion was started by an earlier run that did not finish it."""
    orphans: tuple[ListedSegment, ...] = ()
    set_apart: tuple[ListedSegment, ...] = ()
    """Outside the leader epoch lineage, given up by a person."""
    incomplete_uploads: tuple[IncompleteUpload, ...] = ()
    """Left by writes that never ended; no row can ever name them."""
    notes: tuple[str, ...] = ()
    """What stays although it is not live, and why, a sentence each."""

    @property
    def needs_claim(self) -> bool:
        """Whether the row changes, or objects go that a run could still commit."""
        return bool(
            self.expired or self.starting or self.going or self.orphans or self.set_apart
        )

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.needs_claim or self.incomplete_uploads)

    @property
    def marked_ids(self) -> tuple[str, ...]:
        """Ids of the retired segments whose objects are deleted."""
        return tuple(entry.segment.segment_id for entry in (*self.going, *self.starting))

    @property
    def requires(self) -> tuple[Requirement, ...]:
        """What must still hold of the row when `updates` are written."""
        return (
            SegmentsAreLive(
                ids=tuple(expired_segment.segment.segment_id for expired_segment in self.expired)
            ),
            SegmentsAreRetired(ids=tuple(entry.segment.segment_id for entry in self.starting)),
        )

    def updates(self, *, at_ms: int, run: str) -> tuple[Update, ...]:
        """The change of the row before anything is deleted; `at_ms` is epoch milliseconds."""
        expired = tuple(expired_segment.segment.segment_id for expired_segment in self.expired)
        starting = tuple(entry.segment.segment_id for entry in self.starting)
        expiry = (
            RetireSegments(ids=expired, at_ms=at_ms, run=run),
            MoveLogStart(offset=self.log_start_offset),
        )
        return (
            *(expiry if expired else ()),
            *((StartDeletion(ids=starting, at_ms=at_ms),) if starting else ()),
        )

    def last_updates(self, gone: Container[str], *, run: str) -> tuple[Update, ...]:
        """The change of the row afterwards; `gone`: ids of segments of which nothing is left."""
        finished = tuple(marked for marked in self.marked_ids if marked in gone)
        return (*((FinishDeletion(ids=finished),) if finished else ()), ReleaseClaim(run=run))


def run_at_work(state: PartitionState | None, times: VacuumLimits) -> str:
    """The run that may be at work on the partition; empty: none.

    Opening an epoch would discard its work. A run that has been silent for the orphan age is dead
    or a zombie, and is fenced. So is one whose last commit lies as far in the future: with such
    clocks it would hold the partition for as long as they differ.
    """
    if state is None or abs(times.now_ms - state.committed_at_ms) >= times.orphan_age_ms:
        return ""
    return state.owner_run


def deletion_plan_of(
    view: PartitionView,
    rules: Rules,
    times: VacuumLimits,
    *,
    incomplete_uploads: Sequence[IncompleteUpload] = (),
    is_refused: bool = False,
) -> DeletionPlan:
    """What may be deleted; only what has expired where the catalog has no row yet.

    Args:
        view: the listing compared with the row.
        rules: the topic's settings.
        times: now, and how long things stay.
        incomplete_uploads: what unfinished writes left in the partition's folder.
        is_refused: the partition's log was cut off. Nothing of it expires until a person looked,
            and the originals of what was compacted stay, as the remedy needs them.
    """
    due = expired_head(view.segments, rules, view.log_start_offset, times.now_ms)
    expired = due if rules.is_detached and not is_refused else ()
    state = view.state
    past_grace = _past_grace(state, times)
    may_go = tuple(entry for entry in past_grace if rules.is_detached or _is_ours(entry))
    needs_originals = is_refused and any(segment.written_by_run for segment in view.segments)
    starting = tuple(entry for entry in may_go if _is_ours(entry) or not needs_originals)
    orphans = _old(view.orphans, times) if rules.is_detached else ()
    given_up = [segment for segment in view.set_apart if segment.segment_id not in view.needed]
    set_apart = _old(given_up, times) if rules.is_detached and times.takes_set_apart else ()
    stay = {
        "expired": 0 if is_refused else len(due) - len(expired),
        "retired": len(past_grace) - len(may_go),
        "orphaned": 0 if rules.is_detached else len(view.orphans),
        "set apart": 0 if rules.is_detached or not times.takes_set_apart else len(view.set_apart),
    }
    return DeletionPlan(
        key=view.key,
        expired=expired,
        log_start_offset=max([view.log_start_offset, *(e.segment.next_offset for e in expired)]),
        starting=starting,
        going=() if state is None else _going(state),
        orphans=orphans,
        set_apart=set_apart,
        incomplete_uploads=() if state is None else _old(incomplete_uploads, times),
        notes=(
            *_emptied(view, expired),
            *_without(view.notes, set_apart),
            *_kept(may_go, starting),
            *_stay(stay),
        ),
    )


def waits_until(
    view: PartitionView, rules: Rules, times: VacuumLimits
) -> dict[str, tuple[int, ...]]:
    """What is not due yet: its name, and when each of it is, epoch milliseconds."""
    retired = () if view.state is None else view.state.whole_retired
    orphans = view.orphans if rules.is_detached else ()
    set_apart = view.set_apart if rules.is_detached and times.takes_set_apart else ()
    ends_ms = {
        "retired segment": [entry.retired_at_ms + times.grace_ms for entry in retired],
        "orphan": [orphan.modified_ms + times.orphan_age_ms for orphan in orphans],
        "segment set apart": [apart.modified_ms + times.orphan_age_ms for apart in set_apart],
    }
    to_come = {
        what: tuple(end_ms for end_ms in ends if end_ms > times.now_ms)
        for what, ends in ends_ms.items()
    }
    return {what: ends for what, ends in to_come.items() if ends}


def _without(notes: Sequence[str], going: Sequence[ListedSegment]) -> tuple[str, ...]:
    """The notes without those on segments that are deleted now."""
    return tuple(note for note in notes if not any(segment.segment_id in note for segment in going))


def _kept(may_go: Sequence[RetiredSegment], starting: Sequence[RetiredSegment]) -> tuple[str, ...]:
    """A note on originals that stay, so that a nightly vacuum leaves a restore possible."""
    if len(may_go) == len(starting):
        return ()
    count = len(may_go) - len(starting)
    return (f"{count} retired originals stay: `tierfold restore` can go back to them",)


_Aged = TypeVar("_Aged", ListedSegment, IncompleteUpload)


def _old(found: Sequence[_Aged], times: VacuumLimits) -> tuple[_Aged, ...]:
    """Those that are too old to be of a run or a broker at work."""
    return tuple(aged for aged in found if times.is_old(aged.modified_ms))


def _going(state: PartitionState) -> tuple[RetiredSegment, ...]:
    return tuple(entry for entry in state.retired if entry.deletion_started_at_ms is not None)


def _past_grace(state: PartitionState | None, times: VacuumLimits) -> tuple[RetiredSegment, ...]:
    retired = () if state is None else state.whole_retired
    return tuple(entry for entry in retired if times.now_ms - entry.retired_at_ms >= times.grace_ms)


def _is_ours(entry: RetiredSegment) -> bool:
    """Whether tierfold wrote it: then no broker names it."""
    return bool(entry.segment.written_by_run)


def _emptied(view: PartitionView, expired: Sequence[Expired]) -> tuple[str, ...]:
    """A note where every live segment expires, in case a setting is mistyped."""
    if not expired or len(expired) < len(view.segments):
        return ()
    return ("all that lives expires",)


def _stay(counts: Mapping[str, int]) -> tuple[str, ...]:
    """A note on how much of what stays because a broker may still name it."""
    listed = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if not listed:
        return ()
    return (
        f"segments that stay, for a broker may still name them: {listed}. Where no broker"
        " serves this tier, say tier.binding=detached",
    )
