"""What `vacuum` may delete of a partition, and whether it still may right before the deletion.

    live      -> retired   it has expired; its objects stay for the grace period
    retired   -> marked    (`starting`) the grace period is over; its objects are deleted
    marked    -> gone      (`going`) an earlier run started to delete it; the rest is deleted
    orphan    -> gone      no row names it, it has no records of its own, no run can commit it
    set apart -> gone      outside the leader epoch lineage, and a person gave it up

Age does not prove that no run can commit an orphan: the run that wrote it may have stalled for
days. Only a newer epoch, opened *after* the listing that showed the orphan, proves it. Age protects
runs at work. (docs/semantics.md, 8 and 9.) `discovery.candidates.is_orphan` decides what an
orphan is, and `deletion.makers` whose orphans may go; `deletion.deletion_checks` compares the plan
with what is found right before the deletion.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tierfold.compaction.commits.commit import (
    FinishDeletion,
    MoveLogStart,
    NoteConsent,
    Requirement,
    RetireSegments,
    SegmentsAreLive,
    SegmentsAreRetired,
    StartDeletion,
    Update,
)
from tierfold.compaction.commits.moved_tier import move_of, place_to_note
from tierfold.compaction.deletion.deletion_notes import (
    on_future,
    on_kept,
    on_named,
    on_unsent,
    on_view,
)
from tierfold.compaction.deletion.dropped import Dropped, dropped_by_brokers
from tierfold.compaction.deletion.expiry import Expired
from tierfold.compaction.deletion.log_start import LogStartMove, expired_beside, move_seen_by
from tierfold.compaction.deletion.makers import (
    deletable_orphans,
    deletable_set_apart,
    deletable_uploads,
    maker_notes,
    named_by_brokers,
)
from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.bindings import Binding, Detached, ServedBy
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState, RetiredSegment
from tierfold.compaction.model.serving import Consent, ConsentKind
from tierfold.compaction.publishing.look import PUBLISHING_GRACE_MS

GRACE_MS: Final = DAY_MS
"""The minimum time for which a retired segment stays, for readers of the earlier row and for
`restore`."""

ORPHAN_AGE_MS: Final = DAY_MS
"""The minimum age of an orphan: longer than a run takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumLimits:
    """The time of one `vacuum`, and its options."""

    now_ms: int
    grace_ms: int = GRACE_MS
    orphan_age_ms: int = ORPHAN_AGE_MS
    takes_set_apart: bool = False
    """Segments outside the leader epoch lineage are deleted, too (`vacuum --diverged`)."""
    least_served_ms: int = PUBLISHING_GRACE_MS
    """The least `grace_ms` of a partition that brokers serve (`served_grace`)."""
    publishes: bool = False
    """Whether brokers may be sent that what they list for deletion is gone."""

    @property
    def listed_grace_ms(self) -> int:
        """How long segments stay after brokers listed them: no event arrives later than that."""
        return max(self.grace_ms, self.least_served_ms)

    def due_ms(self, entry: RetiredSegment, listed: Mapping[str, int]) -> int:
        """When the deletion of a retired segment may start; `listed`: as of `Dropped`."""
        retired_ms = entry.retired_at_ms + self.grace_ms
        since_ms = listed.get(entry.segment.segment_id)
        return retired_ms if since_ms is None else max(retired_ms, since_ms + self.listed_grace_ms)

    def is_past_grace(self, entry: RetiredSegment, listed: Mapping[str, int]) -> bool:
        """Whether the deletion of a retired segment may start; `listed`: as of `due_ms`."""
        return self.now_ms >= self.due_ms(entry, listed) and entry.deletion_started_at_ms is None

    def is_old(self, modified_ms: int) -> bool:
        """Whether an object of that time is too old for a run at work."""
        return self.now_ms - modified_ms >= self.orphan_age_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan:
    """What is deleted of one partition, and why not more."""

    key: PartitionKey
    expired: tuple[Expired, ...] = ()
    log_start_offset: int = 0
    """The log start after the deletion."""
    log_start_move: LogStartMove | None = None
    """Where brokers are asked to move it; None: nowhere."""
    starting: tuple[RetiredSegment, ...] = ()
    """Segments whose deletion starts now; of a deleted topic also those that expire now."""
    going: tuple[RetiredSegment, ...] = ()
    """Segments whose deletion an earlier run started and did not finish."""
    orphans: tuple[ListedSegment, ...] = ()
    set_apart: tuple[ListedSegment, ...] = ()
    """Segments outside the leader epoch lineage that a person gave up."""
    incomplete_uploads: tuple[IncompleteUpload, ...] = ()
    dropped: Dropped | None = None
    """What brokers do not need of what is retired; None: no cluster is known."""
    place_to_note: str = ""
    """Where the tier stands now, which the row has to note first; empty: it has nothing to note."""
    publishes: bool = False
    """Whether the run looks at brokers under its claim, deletes by that look, and sends what
    follows."""
    listed_again: tuple[str, ...] = ()
    """Ids of segments that are to be listed for deletion once more: that is dated in the future."""
    ends_serving: bool = False
    """Whether the row names a cluster, and the user insists that it is no more."""
    notes: tuple[str, ...] = ()
    """What stays although it is not live, and why, a sentence each."""

    @property
    def needs_claim(self) -> bool:
        """Whether the row changes, or objects are deleted that a run could still commit."""
        return bool(
            self.expired
            or self.starting
            or self.going
            or self.orphans
            or self.set_apart
            or self.listed_again
            or self.place_to_note
            or self.ends_serving
            or self.log_start_move
        )

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.needs_claim or self.incomplete_uploads)

    @property
    def gone_events(self) -> int:
        """How many events say that segments are gone, once their objects are."""
        listed = () if self.dropped is None else self.dropped.listed
        return sum(name in listed for name in self.marked_ids)

    @property
    def events(self) -> int:
        """How many events brokers are to be sent."""
        return len(self.listed_again) + self.gone_events

    @property
    def marked_ids(self) -> tuple[str, ...]:
        """Ids of the retired segments whose objects are deleted."""
        return (*_ids(self.going), *_ids(self.starting))

    @property
    def requires(self) -> tuple[Requirement, ...]:
        """What the row must still meet when `updates` are written."""
        expired = _ids(self.expired)
        retired = tuple(one for one in _ids(self.starting) if one not in expired)
        return SegmentsAreLive(ids=expired), SegmentsAreRetired(ids=retired)

    def updates(self, *, at_ms: int, run: str) -> tuple[Update, ...]:
        """The change of the row before anything is deleted; `at_ms` is epoch milliseconds."""
        updates: list[Update] = [*move_of(self.place_to_note, at_ms=at_ms, run=run)]
        if self.ends_serving:
            consent = Consent(kind=ConsentKind.DETACHED, given_at_ms=at_ms, run=run)
            updates.append(NoteConsent(consent=consent))
        if self.expired:
            updates.append(RetireSegments(ids=_ids(self.expired), at_ms=at_ms, run=run))
            updates.append(MoveLogStart(offset=self.log_start_offset))
        if self.starting:
            ids, known = _ids(self.starting), self.dropped or Dropped()
            updates.append(
                StartDeletion(
                    ids=ids,
                    at_ms=at_ms,
                    listed=(known.gone | known.listed.keys()).intersection(ids),
                    never_named=known.never_named.intersection(ids),
                )
            )
        return tuple(updates)

    def last_updates(self, gone: Container[str]) -> tuple[Update, ...]:
        """The change of the row afterwards; `gone`: ids of segments without any object left.

        What brokers still have stays in the row, whatever is left of it.
        """
        known = self.dropped or Dropped()
        finished = tuple(
            one
            for one in self.marked_ids
            if one in gone and (self.dropped is None or one in known.may_leave_row)
        )
        finish = FinishDeletion(
            ids=finished,
            gone=known.gone.intersection(finished),
            never_named=known.never_named.intersection(finished),
        )
        return (finish,) if finished else ()


def _ids(entries: Sequence[Expired] | Sequence[RetiredSegment]) -> tuple[str, ...]:
    return tuple(entry.segment.segment_id for entry in entries)


def deletion_plan_of(
    view: PartitionView,
    rules: Rules,
    binding: Binding,
    times: VacuumLimits,
    *,
    incomplete_uploads: Sequence[IncompleteUpload] = (),
    is_refused: bool = False,
) -> DeletionPlan:
    """What may be deleted; without a row, only expired segments.

    `is_refused`: its log was truncated, so nothing expires, and the remedy needs the originals.
    """
    if place := place_to_note(view.state, binding):
        return only_noting(state_with_new(view), place)
    is_detached = isinstance(binding, Detached)
    due, expired = expired_beside(view, rules, binding, times.now_ms, is_refused=is_refused)
    retired = _retired(view, rules, binding, times, is_refused=is_refused)
    move = move_seen_by(view, rules, times.now_ms) if retired.publishes else None
    set_apart = _old(deletable_set_apart(view, binding), times) if times.takes_set_apart else ()
    doubted, uploads = _doubted(view, () if view.state is None else _old(incomplete_uploads, times))
    stay = {
        "expired": 0 if is_refused or move is not None else len(due) - len(expired),
        "retired": retired.staying,
        **named_by_brokers(view, binding, uploads),
        "set apart": 0 if is_detached or not times.takes_set_apart else len(view.set_apart),
    }
    return DeletionPlan(
        key=view.key,
        expired=expired,
        log_start_offset=max([view.log_start_offset, *(e.segment.next_offset for e in expired)]),
        log_start_move=move,
        starting=retired.starting,
        going=retired.going,
        orphans=_old(deletable_orphans(view, binding), times),
        set_apart=set_apart,
        incomplete_uploads=deletable_uploads(uploads, view, binding),
        dropped=retired.dropped,
        publishes=retired.publishes,
        listed_again=retired.listed_again,
        ends_serving=is_detached and view.state is not None and view.state.is_served,
        notes=(
            *on_view(view, expired or (move.expired if move else ()), set_apart),
            *on_kept(retired.originals, len(doubted)),
            *on_named(stay, binding),
            *on_unsent(view, rules, binding, is_on=times.publishes),
            *on_future(len(retired.listed_again)),
            *maker_notes(view, binding, uploads),
        ),
    )


def _doubted(
    view: PartitionView, old: tuple[IncompleteUpload, ...]
) -> tuple[tuple[IncompleteUpload, ...], tuple[IncompleteUpload, ...]]:
    """Unfinished uploads that may be another cluster's, and the others."""
    return (old, ()) if view.doubtful else ((), old)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retired:
    """Retired segments, by what becomes of them now."""

    starting: tuple[RetiredSegment, ...]
    going: tuple[RetiredSegment, ...]
    originals: int
    """How many stay for a restore."""
    staying: int
    """How many stay after the grace period, too, because brokers may need them."""
    listed_again: tuple[str, ...]
    """Ids of those whose deletion is dated in the future."""
    dropped: Dropped | None
    publishes: bool


def _retired(
    view: PartitionView, rules: Rules, binding: Binding, times: VacuumLimits, *, is_refused: bool
) -> _Retired:
    is_detached = isinstance(binding, Detached)
    retired = () if view.state is None else view.state.retired
    publishes = not is_refused and publishes_for(view, rules, binding, times)
    dropped = dropped_by_brokers(view, binding, publishes=publishes)
    listed = {} if dropped is None else dropped.listed
    past_grace = [entry for entry in retired if times.is_past_grace(entry, listed)]
    may_go = tuple(entry for entry in past_grace if is_detached or _may_go(entry, dropped))
    aged = retired if dropped is None else past_grace  # Without an answer, those of any age stay.
    starting = _without_originals(may_go, view) if is_refused else may_go
    return _Retired(
        starting=starting,
        going=tuple(
            entry
            for entry in retired
            if _goes_on(entry, dropped)
            and not _waits_again(entry.segment.segment_id, listed, times)
        ),
        originals=len(may_go) - len(starting),
        staying=sum(not is_detached and not _may_go(entry, dropped) for entry in aged),
        listed_again=tuple(sorted(one for one in listed if listed[one] > times.now_ms)),
        dropped=dropped,
        publishes=publishes,
    )


def only_noting(row: PartitionState, place: str) -> DeletionPlan:
    """Nothing is deleted before the row names the place where it would be deleted."""
    return DeletionPlan(
        key=row.key,
        log_start_offset=row.log_start_offset,
        place_to_note=place,
        notes=(f"only the tier's new place, {place}, is noted; the next run deletes",),
    )


def publishes_for(
    view: PartitionView, rules: Rules, binding: Binding, times: VacuumLimits
) -> bool:
    """Whether brokers may be sent anything for the partition, which they serve by its row."""
    is_served = view.state is not None and view.state.is_served
    return times.publishes and rules.publish and is_served and isinstance(binding, ServedBy)


def waits_until(
    view: PartitionView, rules: Rules, binding: Binding, times: VacuumLimits
) -> dict[str, tuple[int, ...]]:
    """What is not due yet, by its name, with the due time of each, epoch milliseconds."""
    publishes = publishes_for(view, rules, binding, times)
    dropped = dropped_by_brokers(view, binding, publishes=publishes)
    listed = {} if dropped is None else dropped.listed
    retired = () if view.state is None else view.state.whole_retired
    if not isinstance(binding, Detached):
        retired = tuple(entry for entry in retired if _may_go(entry, dropped))
    orphans = deletable_orphans(view, binding)
    set_apart = deletable_set_apart(view, binding) if times.takes_set_apart else ()
    ends_ms = {
        "retired segment": [times.due_ms(entry, listed) for entry in retired],
        "orphan": [orphan.modified_ms + times.orphan_age_ms for orphan in orphans],
        "segment set apart": [apart.modified_ms + times.orphan_age_ms for apart in set_apart],
    }
    to_come = {
        what: tuple(end_ms for end_ms in ends if end_ms > times.now_ms)
        for what, ends in ends_ms.items()
    }
    return {what: ends for what, ends in to_come.items() if ends}


_Aged = TypeVar("_Aged", ListedSegment, IncompleteUpload)


def _old(found: Sequence[_Aged], times: VacuumLimits) -> tuple[_Aged, ...]:
    """Those too old for a run or a broker at work."""
    return tuple(aged for aged in found if times.is_old(aged.modified_ms))


def _is_ours(entry: RetiredSegment) -> bool:
    """Whether tierfold wrote it, so that no broker names it."""
    return not entry.segment.is_named_by_brokers


def _may_go(entry: RetiredSegment, dropped: Dropped | None) -> bool:
    """Whether its objects may go from a tier that brokers may serve."""
    return _is_ours(entry) if dropped is None else entry.segment.segment_id in dropped.ids


def _without_originals(
    may_go: Iterable[RetiredSegment], view: PartitionView
) -> tuple[RetiredSegment, ...]:
    """Those that the remedy of a truncated log does not need: all, if no live one is compacted."""
    needs_originals = not all(segment.is_upload for segment in view.segments)
    return tuple(entry for entry in may_go if _is_ours(entry) or not needs_originals)


def _waits_again(segment_id: str, listed: Mapping[str, int], times: VacuumLimits) -> bool:
    """Whether brokers listed a segment so lately that nothing more of it may go yet."""
    since_ms = listed.get(segment_id)
    return since_ms is not None and times.now_ms - since_ms < times.listed_grace_ms


def _goes_on(entry: RetiredSegment, dropped: Dropped | None) -> bool:
    """Whether a deletion that has started goes on: not if brokers have the segment again."""
    is_started = entry.deletion_started_at_ms is not None
    return is_started and (dropped is None or entry.segment.segment_id in dropped.ids)
