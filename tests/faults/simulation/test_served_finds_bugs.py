"""The simulation of brokers finds planted bugs: each breaks one rule of publishing.

The search starts at a seed that finds the bug today; after a change of the product a later seed may
be the first one. docs/reliability.md says how many seeds each bug takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import pytest

from tests.faults.simulation import (
    served_rebuild,
    served_run,
    served_scenario,
    served_segments,
    served_verbs,
)
from tests.faults.simulation.served_environment import ServedEnvironment, drawn_served
from tests.faults.simulation.served_run import ServedRun
from tests.faults.simulation.served_scenario import played_served
from tests.faults.simulation.simulation_scheduler import DAY_MS, SECOND_MS
from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.events import Event, SegmentState, SegmentUpdated
from tierfold.compaction.commits.commit import StartDeletion
from tierfold.compaction.deletion.log_start import LogStartMove, log_start_move
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.publishing import (
    batches,
    deletions,
    groups,
    lost_metadata,
    rebuild_order,
)
from tierfold.compaction.publishing import next_step as steps
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.lost_metadata import (
    NameAgain,
    NothingLost,
    RebuildStep,
    rebuild_step,
    with_rebuilds,
)
from tierfold.compaction.publishing.replacements import update_event
from tierfold.compaction.publishing.steps import Done, Purpose, Send

Bug: TypeAlias = Callable[[pytest.MonkeyPatch], None]
Events: TypeAlias = tuple[SegmentUpdated, ...]


def _reordered(patch: pytest.MonkeyPatch, order: Callable[[Events], Iterable[Any]]) -> None:
    """Give the events of each batch in another order."""
    swap_batch = steps.swap_batch

    def reordered(*given: Any, **named: Any) -> Events | None:
        events = swap_batch(*given, **named)
        return events and tuple(order(events))

    patch.setattr(steps, "swap_batch", reordered)


def _finished(events: Events) -> Events:
    return tuple(event for event in events if event.state is SegmentState.COPY_FINISHED)


def _listed(events: Events) -> Events:
    return tuple(event for event in events if event.state is SegmentState.DELETE_STARTED)


def deletes_descend(patch: pytest.MonkeyPatch) -> None:
    """The last source is listed first."""
    _reordered(patch, lambda events: (*_finished(events), *reversed(_listed(events))))


def deletes_come_first(patch: pytest.MonkeyPatch) -> None:
    """Sources are listed before what replaces them is finished."""
    _reordered(patch, lambda events: (*_listed(events), *_finished(events)))


def cut_sources_ascend(patch: pytest.MonkeyPatch) -> None:
    """The replacements of a source that was cut are finished in ascending order."""

    def ascending(events: Events) -> Events:
        finished = _finished(events)
        is_cut = events[: len(finished)] == finished
        return (*reversed(finished), *_listed(events)) if is_cut else events

    _reordered(patch, ascending)


def batches_are_split(patch: pytest.MonkeyPatch) -> None:
    """A second send goes out in two batches, and nothing waits for the first."""
    send = ServedEnvironment.send

    def in_two(environment: ServedEnvironment, actor: Any, events: Any, seen: int) -> None:
        is_swap = len(events) > 1 and all(isinstance(one, SegmentUpdated) for one in events)
        half = len(events) // 2 if is_swap else 0
        with suppress(UnreadableObject):
            if half:
                send(environment, actor, events[:half], seen)
        send(environment, actor, events[half:], seen)

    patch.setattr(ServedEnvironment, "send", in_two)


def groups_descend(patch: pytest.MonkeyPatch) -> None:
    """The last group is published first."""
    in_order = steps._in_order
    patch.setattr(steps, "_in_order", lambda *given, **_: in_order(*given, descends=True))


def unreferenced_overlaps_are_left_out(patch: pytest.MonkeyPatch) -> None:
    """Only segments that look-ups find are dropped."""
    to_drop = groups._to_drop

    def of_referenced(look: Look) -> Iterable[BrokerSegment]:
        found = look.view.referenced_ids
        return [one for one in to_drop(look) if one.added.segment_id in found]

    patch.setattr(groups, "_to_drop", of_referenced)


def nothing_is_merged(patch: pytest.MonkeyPatch) -> None:
    """A replacement is published beside a live upload over the same offsets."""
    swap_batch = steps.swap_batch

    def safe_or_not(*given: Any, **named: Any) -> Events | None:
        if events := swap_batch(*given, **named):
            return events
        with pytest.MonkeyPatch.context() as unsafe:
            unsafe.setattr(batches, "_is_safe", lambda *_: True)
            return swap_batch(*given, **named)

    patch.setattr(steps, "_is_beside", lambda _: False)
    patch.setattr(steps, "swap_batch", safe_or_not)


def holes_are_not_repaired(patch: pytest.MonkeyPatch) -> None:
    """An offset that no look-up finds stays so."""
    patch.setattr(steps, "holes", lambda *_: ())
    patch.setattr(steps, "repairs", lambda *_: ())


def segments_of_another_history_count(patch: pytest.MonkeyPatch) -> None:
    """What a deposed leader wrote is merged, and may repair."""
    patch.setattr(Look, "is_of_log", lambda *_: True)
    patch.setattr(Look, "outside", ())
    patch.setattr(Look, "finished", property(all_finished))


def all_finished(look: Look) -> tuple[BrokerSegment, ...]:
    """The finished segments of any history."""
    return look.view.in_state(SegmentState.COPY_FINISHED)


def gone_before_objects(patch: pytest.MonkeyPatch) -> None:
    """Brokers learn that a segment is gone before its objects are deleted."""
    decided = served_verbs.next_deletion
    patch.setattr(
        served_verbs,
        "next_deletion",
        lambda look: decided(replace(look, present=frozenset())),
    )


def objects_before_listed(patch: pytest.MonkeyPatch) -> None:
    """Objects of retired segments are deleted whatever brokers have of them."""
    patch.setattr(deletions, "_unlisted", lambda look: look.retired_ids)
    patch.setattr(served_verbs, "_mark", _mark_anything)
    patch.setattr(served_verbs, "before_deletion", lambda _: Done())


def _mark_anything(run: ServedRun, look: Look, ids: Sequence[str]) -> None:
    """Mark segments whatever brokers have of them."""
    ids = frozenset(ids)
    run.commit(look, StartDeletion(ids=tuple(ids), at_ms=look.now_ms, listed=ids))


def objects_of_started_are_deleted(patch: pytest.MonkeyPatch) -> None:
    """What is only started counts as an orphan, once the row has retired it."""

    unlisted = deletions._unlisted

    def or_started(look: Look) -> set[str]:
        started = {one.added.segment_id for one in look.view.in_state(SegmentState.COPY_STARTED)}
        return {*unlisted(look), *(started & look.retired_ids)}

    patch.setattr(deletions, "_unlisted", or_started)
    patch.setattr(served_verbs, "_mark", _mark_anything)
    patch.setattr(served_verbs, "before_deletion", lambda _: Done())


def started_again_with_other_bytes(patch: pytest.MonkeyPatch) -> None:
    """Each run writes a replacement again under the id of the row."""
    event = steps.started_event

    def other(*given: Any) -> Any:
        made = event(*given)
        return made._replace(end_offset=made.end_offset + given[2] % 2)

    patch.setattr(steps, "started_event", other)


def replacements_are_cancelled(patch: pytest.MonkeyPatch) -> None:
    """A run that takes over undoes a swap that is only started."""
    claim = ServedRun.claim

    def cancelling(run: ServedRun, *, adopts: bool) -> None:
        look, table = run.look(), run.environment.table
        started = [
            one
            for one in look.view.in_state(SegmentState.COPY_STARTED)
            if one.added.segment_id in look.live_ids
            and not look.is_upload(one.added.segment_id)
        ]
        sources = [
            entry.segment
            for entry in look.row.retired
            if look.state_of(entry.segment.segment_id) is SegmentState.COPY_FINISHED
        ]
        if started and table.row == look.row and not run.environment.scheduler.is_calm:
            ids = {one.added.segment_id for one in started}
            kept = [one for one in look.row.segments if one.segment_id not in ids]
            live = sorted((*kept, *sources), key=lambda one: one.start_offset)
            bounds = [(one.start_offset, one.end_offset + 1) for one in live]
            is_chain = all(one[1] == other[0] for one, other in pairwise(bounds))
            was = look.row.segments[0].start_offset, look.row.next_offset
            if is_chain and (bounds[0][0], bounds[-1][1]) == was:
                retired = tuple(one for one in look.row.retired if one.segment not in sources)
                table.row = replace(
                    look.row, segments=tuple(live), retired=retired, commit_id=run.commit_id()
                )
                events: list[Event] = [
                    update_event(one, state, look.now_ms)
                    for one in started
                    for state in (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED)
                ]
                for one in started:
                    for part in served_verbs.PARTS:
                        run.environment.tier.objects.pop((one.added.segment_id, part), None)
                run.send(Send(purpose=Purpose.GONE, events=tuple(events), why="planted"))
        claim(run, adopts=adopts)

    patch.setattr(ServedRun, "claim", cancelling)


def grace_is_short(patch: pytest.MonkeyPatch) -> None:
    """Objects go seconds after they were listed, sooner than all brokers have read of it."""

    def drawn(seed: int) -> ServedEnvironment:
        environment = drawn_served(seed)
        environment.limits = replace(environment.limits, grace_ms=SECOND_MS)
        return environment

    patch.setattr(served_scenario, "drawn_served", drawn)


def dead_uploads_are_awaited_for_ever(patch: pytest.MonkeyPatch) -> None:
    """An upload that was given up holds its group back."""
    patch.setattr(steps, "is_given_up", lambda *_, **__: False)


def tombstones_go_at_their_horizon(patch: pytest.MonkeyPatch) -> None:
    """A tombstone goes at its horizon, published or not."""
    patch.setattr(
        served_segments,
        "_may_go",
        lambda environment, record, _: record.value is None
        and record.horizon_ms is not None
        and record.horizon_ms <= environment.now_ms,
    )


def retention_counts_a_day_less(patch: pytest.MonkeyPatch) -> None:
    """A run moves the log start as if its clock were a day ahead."""

    def a_day_older(segments: Sequence[Segment], *given: Any) -> LogStartMove | None:
        moved = [replace(one, max_timestamp_ms=one.max_timestamp_ms - DAY_MS) for one in segments]
        return log_start_move(moved, *given)

    patch.setattr(served_run, "log_start_move", a_day_older)
    patch.setattr(served_run, "move_violation", lambda *_: "")


def rebuilds_end_once_all_is_started(patch: pytest.MonkeyPatch) -> None:
    """A rebuild notes the topic before what is live is finished."""

    def decided(*given: Any, **named: Any) -> RebuildStep:
        step = rebuild_step(*given, **named)
        is_started = isinstance(step, NameAgain) and step.purpose is Purpose.SERVE_AGAIN
        return NothingLost() if is_started else step

    patch.setattr(served_rebuild, "rebuild_step", decided)


def retired_ones_are_not_named_again(patch: pytest.MonkeyPatch) -> None:
    """A rebuild names only what is live."""

    def of_live(look: Look, _: object) -> Look:
        found = with_rebuilds(look, ())
        live = {name: one for name, one in found.rebuilds.items() if name in look.live_ids}
        return replace(look, rebuilds=live)

    patch.setattr(served_rebuild, "with_rebuilds", of_live)


def inner_segments_are_finished_again(patch: pytest.MonkeyPatch) -> None:
    """A rebuild finishes each live segment, also one that another one contains."""
    for module in (lost_metadata, rebuild_order):
        patch.setattr(module, "required_ids", lambda look: look.live_ids)


def lost_names_stop_no_run(patch: pytest.MonkeyPatch) -> None:
    """Verbs go on by what the metadata topic still says."""
    patch.setattr(served_run, "refusal_of", lambda *_: "")


def versions_are_sent_by_groups(patch: pytest.MonkeyPatch) -> None:
    """A first publication and a restore are sent group by group, although versions decide."""
    patch.setattr(Look, "is_by_version", False)


def first_failure(bug: Bug, first: int, seeds: int) -> str:
    """Return the first failure of this many seeds, from `first` on."""
    for seed in range(first, first + seeds):
        with pytest.MonkeyPatch.context() as patch:
            bug(patch)
            failure = played_served(seed).failure
        if failure:
            return failure
    raise AssertionError(f"{bug.__name__}: not found within {seeds} seeds")


@pytest.mark.parametrize(
    ("bug", "first", "seeds", "found"),
    [
        (deletes_descend, 1, 50, "out of range after DELETE_STARTED"),
        (deletes_come_first, 0, 50, "out of range after DELETE_STARTED"),
        (cut_sources_ascend, 0, 50, "out of range after COPY_FINISHED"),
        (batches_are_split, 13, 200, "out of range"),
        (groups_descend, 16, 300, "instead of None"),
        (holes_are_not_repaired, 146, 300, "nothing is left to do, but offsets"),
        (unreferenced_overlaps_are_left_out, 0, 50, "still retired"),
        (nothing_is_merged, 81, 200, "out of range"),
        (segments_of_another_history_count, 47, 100, "beyond log|BEYOND_LOG|of no log"),
        (gone_before_objects, 0, 50, "is sent as gone, and an object of it is there"),
        (objects_before_listed, 0, 50, "is deleted"),
        (objects_of_started_are_deleted, 207, 300, "has it in COPY_STARTED"),
        (started_again_with_other_bytes, 0, 50, "is started with other"),
        (replacements_are_cancelled, 5, 300, "are missing|out of range|catalog set back"),
        (grace_is_short, 6, 150, "has it in COPY_FINISHED"),
        (dead_uploads_are_awaited_for_ever, 1, 50, "have not finished it"),
        (retention_counts_a_day_less, 0, 50, "moves the log start past .* which is young"),
        (rebuilds_end_once_all_is_started, 3, 50, "is not finished by"),
        (retired_ones_are_not_named_again, 3, 50, "out of range|still retired"),
        (inner_segments_are_finished_again, 983, 1, "out of range"),
        (lost_names_stop_no_run, 59, 100, "brokers never had the upload"),
        (versions_are_sent_by_groups, 39, 100, "instead of None"),
    ],
)
def test_a_planted_bug_is_found(bug: Bug, first: int, seeds: int, found: str) -> None:
    failure = first_failure(bug, first, seeds)
    assert re.search(found, failure), failure
