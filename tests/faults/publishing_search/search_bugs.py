"""Bugs that are planted into the product: each leaves one rule out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.publishing import (
    batches,
    deletions,
    groups,
    holes,
    lost_metadata,
    next_step,
    rebuild_order,
)
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.steps import Delete, Deletion, Step

Bug = Callable[[pytest.MonkeyPatch], None]


def _reorder(
    patch: pytest.MonkeyPatch, order: Callable[[Sequence[SegmentUpdated]], Iterable[SegmentUpdated]]
) -> None:
    swap_batch = next_step.swap_batch

    def reordered(*given: Any, **named: Any) -> tuple[SegmentUpdated, ...] | None:
        events = swap_batch(*given, **named)
        return events and tuple(order(events))

    patch.setattr(next_step, "swap_batch", reordered)


def _is_listed(event: SegmentUpdated) -> bool:
    return event.state is SegmentState.DELETE_STARTED


def deletes_descend(patch: pytest.MonkeyPatch) -> None:
    """Replacements are finished, then sources are listed, the last one first."""
    _reorder(
        patch,
        lambda events: [
            *(event for event in events if not _is_listed(event)),
            *(event for event in reversed(events) if _is_listed(event)),
        ],
    )


def deletes_come_first(patch: pytest.MonkeyPatch) -> None:
    """Sources are listed before their replacements are finished."""
    _reorder(patch, lambda events: sorted(events, key=lambda event: not _is_listed(event)))


def groups_descend(patch: pytest.MonkeyPatch) -> None:
    """The last group is sent first."""
    in_order = next_step._in_order
    patch.setattr(next_step, "_in_order", lambda *given, **_: in_order(*given, descends=True))


def restores_ascend(patch: pytest.MonkeyPatch) -> None:
    """What a restore brings back is sent in the order of any other pass."""
    in_order = next_step._in_order
    patch.setattr(next_step, "_in_order", lambda *given, **_: in_order(*given, descends=False))


def restored_groups_ascend(patch: pytest.MonkeyPatch) -> None:
    """Within a group, what a restore brings back is finished in turn."""
    swap_batch = next_step.swap_batch
    patch.setattr(next_step, "swap_batch", lambda *given, **_: swap_batch(*given))


def no_order_is_checked(patch: pytest.MonkeyPatch) -> None:
    """Replacements are always finished in turn, as if every order were safe."""
    patch.setattr(batches, "_is_safe", lambda *_: True)


def unreferenced_ones_are_left_out(patch: pytest.MonkeyPatch) -> None:
    """Only what look-ups find is listed for deletion."""
    to_drop = groups._to_drop

    def referenced(look: Look) -> Iterator[BrokerSegment]:
        ids = look.view.referenced_ids
        return (one for one in to_drop(look) if one.added.segment_id in ids)

    patch.setattr(groups, "_to_drop", referenced)


def others_stay_beside(patch: pytest.MonkeyPatch) -> None:
    """A replacement is published beside an upload over the same offsets."""
    patch.setattr(next_step, "_is_beside", lambda _: False)


def uploads_within_are_merged(patch: pytest.MonkeyPatch) -> None:
    """An upload of which live segments have all offsets waits for a merge."""
    without = next_step.without
    patch.setattr(next_step, "without", lambda *given: without(*given) or given[0])
    patch.setattr(next_step, "_uncovered", lambda *_: None)


def holes_are_not_repaired(patch: pytest.MonkeyPatch) -> None:
    """A look begins with the groups."""
    patch.setattr(next_step, "repairs", lambda *_: ())


def holes_wait_for_uploads(patch: pytest.MonkeyPatch) -> None:
    """A group that closes a hole waits for uploads at work like any other."""
    group_step = next_step._group_step

    def waiting(look: Look, group: groups.SwapGroup, **_: bool) -> Step:
        return group_step(look, group, has_hole=False)

    patch.setattr(next_step, "_group_step", waiting)


def retired_ones_are_merged(patch: pytest.MonkeyPatch) -> None:
    """A retired segment that brokers still have counts as an upload beside a replacement."""

    def beside(look: Look) -> Iterator[BrokerSegment]:
        return (one for one in look.finished if one.added.segment_id not in look.live_ids)

    patch.setattr(groups, "_beside", beside)
    patch.setattr(groups, "_to_drop", lambda _: iter(()))


def retired_ones_repair(patch: pytest.MonkeyPatch) -> None:
    """A hole is repaired with whatever covers it."""

    def covering(look: Look, offset: int) -> Iterator[BrokerSegment]:
        for segment in look.view.in_state(SegmentState.COPY_FINISHED):
            if segment.added.start_offset <= offset <= segment.added.end_offset:
                yield segment

    patch.setattr(holes, "_covering", covering)


def other_histories_count(patch: pytest.MonkeyPatch) -> None:
    """Segments of a deposed leader count as part of the log, the row's word about them as well."""
    patch.setattr(Look, "outside", ())


def started_ones_count_as_orphans(patch: pytest.MonkeyPatch) -> None:
    """Objects of replacements that are only started count as left by a dead run."""
    next_deletion = deletions.next_deletion

    def with_started(look: Look) -> Deletion:
        ids = [
            one.added.segment_id
            for one in look.view.in_state(SegmentState.COPY_STARTED)
            if not look.is_upload(one.added.segment_id) and one.added.segment_id in look.present
        ]
        return Delete(segment_ids=tuple(ids), why="a bug") if ids else next_deletion(look)

    patch.setattr(deletions, "next_deletion", with_started)


def gone_is_sent_first(patch: pytest.MonkeyPatch) -> None:
    """Brokers are given gone before the objects are deleted."""
    next_deletion = deletions.next_deletion
    patch.setattr(
        deletions, "next_deletion", lambda look: next_deletion(replace(look, present=frozenset()))
    )


def the_grace_period_is_nothing(patch: pytest.MonkeyPatch) -> None:
    """Objects go as soon as they are listed."""
    next_deletion = deletions.next_deletion

    def at_once(look: Look) -> Deletion:
        return next_deletion(replace(look, limits=replace(look.limits, grace_ms=0)))

    patch.setattr(deletions, "next_deletion", at_once)


def dead_uploads_are_awaited(patch: pytest.MonkeyPatch) -> None:
    """An upload that was begun holds its group back, however long ago that was."""
    patch.setattr(next_step, "is_given_up", lambda *_, **__: False)


def uploads_are_not_awaited(patch: pytest.MonkeyPatch) -> None:
    """A replacement is published while a leader uploads the same offsets."""
    patch.setattr(next_step, "_awaited", lambda *_: None)


def forgotten_starts_stay(patch: pytest.MonkeyPatch) -> None:
    """What a late send started, and no row remembers, stays started."""
    patch.setattr(next_step, "unnamed_step", lambda _: None)


def deleted_ones_count_as_live(patch: pytest.MonkeyPatch) -> None:
    """A live segment that brokers deleted goes unnoticed."""
    patch.setattr(next_step, "_lost", lambda *_: None)


def rebuilds_forget_memory(patch: pytest.MonkeyPatch) -> None:
    """A rebuild finishes segments by their ends, whatever brokers may still read from memory."""
    patch.setattr(rebuild_order, "_as_in_a_swap", lambda _, ends: ends)


def rebuilt_restores_ascend(patch: pytest.MonkeyPatch) -> None:
    """A rebuild finishes what a restore brings back as it does any other."""
    patch.setattr(rebuild_order, "_may_be_restored", lambda *_: False)


def rebuilds_finish_inner_ones(patch: pytest.MonkeyPatch) -> None:
    """A rebuild also finishes live segments that another one contains."""
    for module in (lost_metadata, rebuild_order):
        patch.setattr(module, "required_ids", lambda look: look.live_ids)


def rebuilds_finish_retired_ones(patch: pytest.MonkeyPatch) -> None:
    """A rebuild also finishes what the row has retired."""

    def unfinished(look: Look) -> tuple[SegmentAdded, ...]:
        found = look.view.in_state(SegmentState.COPY_STARTED)
        return tuple(one.added for one in found if one.added.segment_id in look.rebuilds)

    patch.setattr(lost_metadata, "_unfinished", unfinished)


def rebuilds_go_below_the_log_start(patch: pytest.MonkeyPatch) -> None:
    """A rebuild names live segments again that lie below the log start."""
    patch.setattr(lost_metadata, "_lost_already", lambda *_: None)


def the_log_start_hides_sources(patch: pytest.MonkeyPatch) -> None:
    """Sources below the log start are left to brokers, also within a group that reaches it."""
    to_drop = groups._to_drop

    def above(look: Look) -> Iterator[BrokerSegment]:
        return (one for one in to_drop(look) if one.added.end_offset >= look.log_start)

    patch.setattr(groups, "_to_drop", above)
