"""The runs and the vacuum: a thin shell around the product's decisions.

Each step here is one that nothing else can come between; a run that is killed or sleeps is one that
takes no further step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.faults.publishing_search.search_decisions import Decision, Decisions, Place
from tests.faults.publishing_search.search_planner import Planner
from tests.faults.publishing_search.search_rebuild import (
    ground_of,
    is_due,
    is_served,
    noted,
    with_all_read,
)
from tests.faults.publishing_search.search_segments import OLD, Row, Stored, in_order, row_of
from tests.faults.publishing_search.search_state import (
    Message,
    Mistake,
    Next,
    Rewrite,
    Run,
    Scenario,
    State,
    Step,
    Tombstones,
)
from tests.faults.publishing_search.search_views import Sent, View, given_to, sent
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState
from tierfold.compaction.publishing.lost_metadata import NameAgain, NothingLost
from tierfold.compaction.publishing.steps import Copy, Delete, Done, Merge, Purpose, Retire


class Actors(NamedTuple):
    """The runs of a scenario, and what their shell does wrong."""

    scenario: Scenario
    decisions: Decisions
    mistakes: frozenset[Mistake]

    def steps(self, state: State, index: int) -> Iterator[Next]:
        """What one run may do next."""
        run = state.runs[index]
        is_fenced = state.row.epoch != run.epoch
        match run.step:
            case Step.START if not _may_begin(state, run):
                return
            case Step.START:
                row = state.row
                if run.name == "M":
                    row = ground_of(row, state.store, state.log_start).row
                row = row.claimed()
                claimed = state._replace(row=row)
                yield (
                    (f"{run.name} claims", ()),
                    claimed.with_run(index, step=Step.LOOK, epoch=row.epoch),
                )
            case Step.LOOK | Step.COMMIT if is_fenced:
                yield (f"{run.name} is fenced", ()), _ended(state, index)
            case Step.LOOK | Step.DECIDE if run.name != "M" and is_due(state):
                yield (f"{run.name} refuses", ()), _ended(state, index)
            case Step.COMMIT if run.name == "M":
                yield ("M notes the topic", ()), _ended(with_all_read(noted(state)), index)
            case Step.LOOK if self.scenario.slow_looks:
                yield (
                    (f"{run.name} reads the row", ()),
                    state.with_run(index, step=Step.DECIDE, seen=state.row),
                )
            case Step.LOOK:
                yield self._looked(state, index, state.row)
            case Step.DECIDE:
                assert run.seen is not None
                yield self._looked(state.with_run(index, seen=None), index, run.seen)
            case Step.COMMIT:
                row = self.planner(run, state.row, state.view, state.log_start).committed(run.plan)
                yield (
                    (f"{run.name} commits", ()),
                    state._replace(row=row).with_run(index, step=Step.LOOK, plan=()),
                )
            case Step.DELETE:
                yield self._deleted(state, index)

    def _looked(self, state: State, index: int, row: Row) -> Next:
        run = state.runs[index]
        if run.name == "M":
            return self._rebuilt(state, index, row)
        if (wrong := self._taken_over_wrongly(state, index)) is not None:
            return wrong
        place = (row, state.view, state.store, state.log_start)
        decision = self.decisions.step(place)
        if isinstance(decision.step, Retire):
            row = row.changed(row.live, decision.segments)
            kept = row if state.row.epoch == run.epoch else state.row
            return (f"{run.name} retires", decision.segments), state._replace(row=kept).with_run(
                index, step=Step.LOOK
            )
        if run.name == "V":
            return self._vacuumed(state, index, decision, place)
        if decision.events:
            return self._sends(state, index, decision.events)
        if not run.plans_left or not isinstance(decision.step, Done | Merge | Copy):
            return (f"{run.name} ends ({decision.why})", ()), _ended(state, index)
        plan = self.planned(run, decision, place)
        if not plan:
            return (f"{run.name} has nothing to do", ()), _ended(state, index)
        made = tuple(segment for rewrite in plan for segment in rewrite.made)
        return (f"{run.name} writes ({decision.why})", made), state._replace(
            store=state.store.union(made)
        ).with_run(index, step=Step.COMMIT, plan=plan, plans_left=run.plans_left - 1)

    def _rebuilt(self, state: State, index: int, row: Row) -> Next:
        place = (row, state.view, state.store, state.log_start)
        serves = is_served(self.scenario.log, state)
        decision = self.decisions.rebuild(
            place, is_served=serves, is_copying=state.topic.is_copying
        )
        has_all = isinstance(decision.step, NothingLost)
        if Mistake.NOTES_EARLY in self.mistakes and isinstance(decision.step, NameAgain):
            has_all = decision.step.purpose is Purpose.SERVE_AGAIN
        if has_all:
            return ("M has read back all", ()), state.with_run(index, step=Step.COMMIT, seen=None)
        if decision.events:
            return self._sends(state, index, decision.events)
        return (f"M ends ({decision.why})", ()), _ended(state, index)

    def planned(self, run: Run, decision: Decision, place: Place) -> tuple[Rewrite, ...]:
        """What a run writes after a step that asks for it, or that lets it plan a round."""
        row, view, store, log_start = place
        planner = self.planner(run, row, view, log_start)
        match decision.step:
            case Merge():
                joins = Mistake.JOINS_RECORDS in self.mistakes
                return planner.merge(decision.segments, self.scenario.cuts, joins_records=joins)
            case Copy():
                return planner.copy(decision.segments[0])
        if run.name == "Z":
            return planner.restore(store)
        tombstones = self.scenario.tombstones
        if Mistake.DROPS_TOMBSTONES in self.mistakes:
            tombstones = Tombstones.GO
        is_last = run.name == "P"
        return planner.round(
            0 if is_last else self.scenario.margin,
            self.scenario.cuts,
            one_group=is_last or run.name in self.scenario.one_group,
            tombstones=tombstones,
        )

    def planner(self, run: Run, row: Row, view: View, log_start: int) -> Planner:
        """The planner of a run, after one look."""
        return Planner(f"{run.name}{row.epoch}", row, view, log_start, self.scenario.log.lineage)

    def _vacuumed(self, state: State, index: int, decision: Decision, place: Place) -> Next:
        if Mistake.DELETES_UNLISTED in self.mistakes:
            retired = [one for one, _ in place[0].retired if one in state.store]
            decision = Decision(Delete(segment_ids=(), why="a mistake"), segments=tuple(retired))
        elif not decision.events:
            decision = self.decisions.deletion(place)
        if decision.events:
            return self._sends(state, index, decision.events)
        if decision.segments:
            return ("V may delete", decision.segments), state.with_run(
                index, step=Step.DELETE, todo=decision.segments
            )
        row = state.row
        if isinstance(decision.step, Done) and row.epoch == state.runs[index].epoch:
            row = left(row, state.view, state.store)
        return (f"V ends ({decision.why})", ()), _ended(state._replace(row=row), index)

    def _deleted(self, state: State, index: int) -> Next:
        first, *rest = state.runs[index].todo
        step = Step.DELETE if rest else Step.LOOK
        return ("V deletes", (first,)), state._replace(store=state.store - {first}).with_run(
            index, step=step, todo=tuple(rest)
        )

    def _sends(self, state: State, index: int, events: tuple[Sent, ...]) -> Next:
        name = state.runs[index].name
        parts = [events]
        if Mistake.SPLITS_BATCHES in self.mistakes and len(events) > 1:
            parts = [events[:1], events[1:]]
        way = state.on_the_way + tuple(
            Message(index if part is parts[-1] else None, part, 0) for part in parts
        )
        return (f"{name} sends", events), state._replace(on_the_way=way).with_run(
            index, step=Step.SENT
        )

    def _taken_over_wrongly(self, state: State, index: int) -> Next | None:
        """What a run does to the open swap of another one, if that is the mistake."""
        if not self.mistakes & {Mistake.CANCELS, Mistake.STARTS_AGAIN, Mistake.REVIVES}:
            return None
        row, view, name = state.row, state.view, state.runs[index].name
        if Mistake.REVIVES in self.mistakes:
            return None if name != "B" else _revived(state)
        open_ones = [
            segment
            for segment in row.live
            if view.state_of(segment) is SegmentState.COPY_STARTED and not segment.is_upload
        ]
        if name == "A" or not open_ones:
            return None
        if Mistake.STARTS_AGAIN in self.mistakes:
            added = view.broker.segments[open_ones[0].segment_id].added
            if added.end_offset < open_ones[0].end or added.end_offset == added.start_offset:
                return None
            shorter: SegmentAdded = added._replace(end_offset=added.end_offset - 1)
            return self._sends(state, index, (sent(shorter),))
        back = [one for one in row.gone if view.state_of(one) is SegmentState.COPY_FINISHED]
        gone = [entry for entry in row.retired if entry[0] not in back]
        live = (*(one for one in row.live if one not in open_ones), *back)
        row = row_of(row.epoch, (), tuple(gone)).changed(live, open_ones)
        events = tuple(
            given_to(segment, its_state)
            for segment in open_ones
            for its_state in (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED)
        )
        store = state.store.difference(open_ones)
        return self._sends(state._replace(row=row, store=store), index, events)


def left(row: Row, view: View, store: frozenset[Stored]) -> Row:
    """The row without retired segments that are gone everywhere (PUBLISHING 1.3)."""
    return row.without(
        frozenset(
            segment
            for segment, age in row.retired
            if segment.segment_id not in view.broker.segments
            and (segment.segment_id in view.named or (age >= OLD and segment not in store))
        )
    )


def _revived(state: State) -> Next | None:
    row, view = state.row, state.view
    back = [one for one in row.gone if view.state_of(one) is SegmentState.DELETE_STARTED]
    if not back:
        return None
    kept = tuple(entry for entry in row.retired if entry[0] not in back)
    over = [one for one in row.live if any(one.start <= it.start <= one.end for it in back)]
    live = (*(one for one in row.live if one not in over), *back)
    row = row_of(row.epoch, (), kept).changed(live, over)
    # A vacuum that looked before goes on meanwhile.
    store = state.store.difference(back)
    return ("B makes live again", in_order(back)), state._replace(row=row, store=store)


def _may_begin(state: State, run: Run) -> bool:
    """A rebuild begins once one is due; others after it wait until brokers read the topic."""
    return is_due(state) if run.name == "M" else state.topic.is_lost or not state.topic.is_unread


def _ended(state: State, index: int) -> State:
    return state.with_run(index, step=Step.END, plan=(), todo=())


