"""What `retain` may do to a partition: decided here, carried out by `jobs.retain_job`. Pure.

    live      -> retired   expired by retention; its objects stay for the grace period
    retired   -> going     the grace period is over; its objects are deleted from now on
    going     -> gone      an earlier run began to delete it; what is left of it goes
    orphan    -> gone      no row names it, and nobody can commit it any more

That nobody can commit an orphan is not a matter of age: the run that wrote it may be stalled for
days. It is certain once a newer epoch was opened *after* the listing that showed the orphan. Age
only spares runs that are at work. (SEMANTICS 8 and 9.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compaction.listing import Leftover, ListedSegment
from compaction.retention import Expired, expired_head
from compaction.rules import DAY_MS, Rules
from compaction.segments import PartitionKey, PartitionState, RetiredSegment
from compaction.view import PartitionView

GRACE_MS: Final = DAY_MS
"""How long a retired segment stays at least: readers that know the row of before still need it,
and `restore` brings it back."""

ORPHAN_AGE_MS: Final = DAY_MS
"""How old an orphan is at least: longer than a run takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTimes:
    """When it is, and how long things stay; milliseconds."""

    now_ms: int
    grace_ms: int = GRACE_MS
    orphan_age_ms: int = ORPHAN_AGE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is to go of one partition, and why not more."""

    key: PartitionKey
    expired: tuple[Expired, ...] = ()
    log_start_offset: int = 0
    """After it."""
    starting: tuple[RetiredSegment, ...] = ()
    """Their deletion starts now."""
    going: tuple[RetiredSegment, ...] = ()
    """Their deletion was started by an earlier run that did not finish it."""
    orphans: tuple[ListedSegment, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    """Of writes that never ended; no row can ever name them."""
    notes: tuple[str, ...] = ()
    """What stays though it is not live, and why, a sentence each."""

    @property
    def needs_claim(self) -> bool:
        """The row changes, or objects go that a run could still commit."""
        return bool(self.expired or self.starting or self.going or self.orphans)

    @property
    def is_nothing(self) -> bool:
        """There is nothing to do."""
        return not (self.needs_claim or self.leftovers)


def holder(state: PartitionState | None, times: SweepTimes) -> str:
    """The run that may be at work on the partition; empty: none.

    Opening an epoch would throw its work away. One that has been silent for the orphan age is dead
    or a zombie, and is fenced.
    """
    if state is None or times.now_ms - state.committed_at_ms >= times.orphan_age_ms:
        return ""
    return state.owner_run


def old_orphans(
    view: PartitionView, rules: Rules, times: SweepTimes
) -> tuple[ListedSegment, ...]:
    """The orphans that are old enough, where no broker can still name them."""
    if not rules.is_detached:
        return ()
    return tuple(
        each
        for each in view.orphans
        if times.now_ms - each.modified_ms >= times.orphan_age_ms
    )


def sweep_of(
    view: PartitionView,
    rules: Rules,
    times: SweepTimes,
    *,
    ends: Mapping[str, int | None],
    leftovers: Sequence[Leftover] = (),
) -> Sweep:
    """What may go; nothing where the catalog has no row of the partition.

    Args:
        view: the listing held against the row.
        rules: the topic's settings.
        times: now, and how long things stay.
        ends: of every complete one of `old_orphans`, by id, the last offset it holds; None: it
            cannot be read.
        leftovers: what unfinished writes left in the partition's folder.
    """
    state = view.state
    if state is None:
        return Sweep(key=view.key)
    expired = (
        expired_head(state.segments, rules, state.log_start_offset, times.now_ms)
        if rules.is_detached
        else ()
    )
    past_grace = [
        each
        for each in state.whole_retired
        if times.now_ms - each.retired_at_ms >= times.grace_ms
    ]
    starting = tuple(each for each in past_grace if rules.is_detached or _is_ours(each))
    orphans = old_orphans(view, rules, times)
    covered = tuple(each for each in orphans if _is_covered(each, view, ends))
    kept = [each for each in orphans if each not in covered]
    return Sweep(
        key=view.key,
        expired=expired,
        log_start_offset=(
            expired[-1].segment.next_offset if expired else state.log_start_offset
        ),
        starting=starting,
        going=tuple(each for each in state.retired if each.deletion_started_at_ms is not None),
        orphans=covered,
        leftovers=tuple(
            each for each in leftovers if times.now_ms - each.modified_ms >= times.orphan_age_ms
        ),
        notes=(
            *_kept_orphans(kept, ends),
            *_kept_for_brokers(view, rules, len(past_grace) - len(starting)),
        ),
    )


def _is_ours(each: RetiredSegment) -> bool:
    """No broker ever heard of it."""
    return bool(each.segment.written_by_run)


def _is_covered(
    each: ListedSegment, view: PartitionView, ends: Mapping[str, int | None]
) -> bool:
    """Whether all offsets that the orphan can hold are live elsewhere.

    After a change of leader brokers cut segments elsewhere: one may begin inside the live range and
    end beyond it, and then it alone holds what lies beyond.
    """
    if not each.is_complete:
        return True
    end_offset = ends.get(each.segment_id)
    return end_offset is not None and end_offset < view.next_offset


def _kept_orphans(
    kept: Sequence[ListedSegment], ends: Mapping[str, int | None]
) -> tuple[str, ...]:
    return tuple(
        f"orphan {each.segment_id} (start {each.start_offset}) stays: "
        + (
            "it cannot be read, so nobody knows what it holds; look at it"
            if ends.get(each.segment_id) is None
            else f"it holds offsets up to {ends[each.segment_id]}, beyond the live end"
        )
        for each in kept
    )


def _kept_for_brokers(view: PartitionView, rules: Rules, retired: int) -> tuple[str, ...]:
    if rules.is_detached or not (retired or view.orphans):
        return ()
    return (
        f"{retired} retired segments and {len(view.orphans)} orphans stay: a broker may still name"
        " them. Where no broker serves this tier, say tier.binding=detached",
    )
