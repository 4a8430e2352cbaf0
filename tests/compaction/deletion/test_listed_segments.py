"""What of retired segments goes once brokers list them, and what a look under the claim lets go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.beside_brokers import brokers_have, view_beside
from tests.compaction.broker_events import GONE, LISTED, updated, uploaded
from tests.compaction.builders import (
    CLUSTER,
    a_chain,
    a_segment,
    a_state,
    listed,
    retired,
    segment_id,
)
from tests.compaction.looks import (
    LIMITS,
    NOW_MS,
    a_look,
    a_row,
    given,
    replacement,
    started,
    whole,
)
from tests.storage.new_ids import foreign_id
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.commits.commit import FinishDeletion, StartDeletion
from tierfold.compaction.deletion.deletion_plan import (
    DeletionPlan,
    VacuumLimits,
    deletion_plan_of,
    waits_until,
)
from tierfold.compaction.deletion.dropped import Dropped
from tierfold.compaction.deletion.third_send import confirmed, read_back, why_open
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.bindings import UNDECLARED, Binding, ServedBy
from tierfold.compaction.model.origins import UPLOADED, Compacted
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState, RetiredSegment
from tierfold.compaction.model.serving import Consent, ConsentKind
from tierfold.compaction.publishing.deletions import next_deletion
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import (
    Copy,
    Delete,
    Done,
    RefusalCode,
    Refused,
    Step,
    Wait,
)

HOUR_MS: Final = LIMITS.grace_ms
TIMES: Final = VacuumLimits(now_ms=NOW_MS, grace_ms=HOUR_MS, publishes=True)
RULES: Final = Rules(retention_ms=-1)
SERVED: Final = ServedBy(CLUSTER)
OLD, LIVE = a_chain(10, 10)
LIVE_EVENTS: Final = uploaded("10-19", 10, 19)
OLD_LISTED: Final = [*uploaded("old", 0, 9), updated("old", LISTED)]


def entry(
    *, retired_ms: int = 0, is_marked: bool = False, is_ours: bool = False
) -> RetiredSegment:
    """A retired segment with the id "old"."""
    origin = Compacted("earlier") if is_ours else UPLOADED
    segment = replace(OLD, segment_id=segment_id("old"), origin=origin)
    return replace(
        retired(segment, retired_at_ms=retired_ms), deletion_started_at_ms=1 if is_marked else None
    )


def seen(
    one: RetiredSegment, *, since_ms: int = 0, events: Sequence[Event] = OLD_LISTED
) -> PartitionView:
    """The partition with one live upload, as a run with brokers sees it."""
    live = replace(LIVE, segment_id=segment_id("10-19"))
    state = a_state([live], retired=(one,), log_start_offset=0, served_by=(CLUSTER,))
    view = view_beside(replace(state, retired=(entry(is_ours=True),)), [], LIVE_EVENTS)
    brokers = brokers_have([*LIVE_EVENTS, *events], state.named_ids)
    segments = {
        name: found._replace(since_ms=since_ms) for name, found in brokers.view.segments.items()
    }
    brokers = replace(brokers, view=replace(brokers.view, segments=segments))
    return replace(view, state=state, brokers=brokers)


def planned(
    view: PartitionView,
    times: VacuumLimits = TIMES,
    rules: Rules = RULES,
    binding: Binding = SERVED,
) -> DeletionPlan:
    return deletion_plan_of(view, rules, binding, times)


def ids_of(entries: Sequence[RetiredSegment]) -> list[str]:
    return [one.segment.segment_id for one in entries]


@pytest.mark.parametrize("is_ours", [False, True])
def test_what_brokers_list_goes_uploads_too(is_ours: bool) -> None:
    deletion = planned(seen(entry(is_ours=is_ours)))
    assert ids_of(deletion.starting) == [segment_id("old")]
    assert (deletion.publishes, deletion.events, deletion.notes) == (True, 1, ())
    (start,) = deletion.updates(at_ms=5, run="r")
    assert isinstance(start, StartDeletion)
    assert start.listed == {segment_id("old")}
    # Until brokers know that it is gone, it stays in the row.
    assert deletion.last_updates({segment_id("old")}) == ()


def test_without_publishing_or_of_a_topic_taken_out_it_stays_and_that_is_said() -> None:
    for times, rules, why in (
        (replace(TIMES, publishes=False), RULES, "is not on. Turn it on with --publish"),
        (TIMES, replace(RULES, publish=False), "publish is false in the settings of topic"),
    ):
        for one in (entry(), entry(is_marked=True)):
            deletion = planned(seen(one), times, rules)
            assert deletion.is_nothing
            assert (deletion.publishes, deletion.events) == (False, 0)
            assert any("1 segment that brokers list" in n and why in n for n in deletion.notes)
            waits = waits_until(seen(one), rules, SERVED, times)
            assert waits == {}


def test_a_row_without_a_cluster_or_a_run_without_one_publishes_nothing() -> None:
    view = seen(entry())
    assert view.state is not None
    unserved = replace(view, state=replace(view.state, served_by=()))
    assert planned(unserved).is_nothing
    assert not planned(unserved).publishes
    undeclared = planned(view, binding=UNDECLARED)
    assert undeclared.is_nothing
    assert not any("list for deletion" in note for note in undeclared.notes)


@pytest.mark.parametrize("is_marked", [False, True])
@pytest.mark.parametrize("grace_ms", [1, HOUR_MS, 2 * HOUR_MS])
def test_the_grace_period_counts_from_listed_and_is_an_hour_at_least(
    grace_ms: int, is_marked: bool
) -> None:
    times = replace(TIMES, grace_ms=grace_ms)
    for early_ms in (0, 1):
        since_ms = NOW_MS - max(grace_ms, HOUR_MS) + early_ms
        view = seen(entry(is_marked=is_marked), since_ms=since_ms)
        deletion = planned(view, times)
        assert bool(deletion.starting or deletion.going) is not early_ms
        assert deletion.notes == ()
        waits = {} if is_marked or not early_ms else {"retired segment": (NOW_MS + 1,)}
        assert waits_until(view, RULES, SERVED, times) == waits


def test_readers_of_the_earlier_row_have_their_grace_period_all_the_same() -> None:
    """Listed by brokers long before the row retired it."""
    view = seen(entry(retired_ms=NOW_MS - HOUR_MS + 1))
    assert planned(view).is_nothing
    assert waits_until(view, RULES, SERVED, TIMES) == {"retired segment": (NOW_MS + 1,)}


def test_a_deletion_dated_in_the_future_is_sent_again() -> None:
    deletion = planned(seen(entry(), since_ms=NOW_MS + 1))
    assert (deletion.starting, deletion.listed_again) == ((), (segment_id("old"),))
    assert (deletion.needs_claim, deletion.is_nothing, deletion.events) == (True, False, 1)
    assert any("1 segment is dated in the future" in note for note in deletion.notes)
    assert planned(seen(entry(), since_ms=NOW_MS)).listed_again == ()


@pytest.mark.parametrize("is_marked", [False, True])
@pytest.mark.parametrize("events", [OLD_LISTED[:1], OLD_LISTED[:2]])
def test_what_brokers_started_or_finished_stays_whatever_the_row_says(
    events: Sequence[Event], is_marked: bool
) -> None:
    assert planned(seen(entry(is_marked=is_marked), events=events)).is_nothing


def test_of_a_partition_that_is_refused_nothing_is_published() -> None:
    deletion = deletion_plan_of(seen(entry()), RULES, SERVED, TIMES, is_refused=True)
    assert (deletion.publishes, deletion.starting, deletion.events) == (False, (), 0)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (Done(), ""),
        (Wait(until_ms=None, why="it waits"), ""),
        (Copy(segment_id="x", why="brokers deleted it"), "brokers deleted it"),
        (Refused(code=RefusalCode.NO_ORDER, why="no order passes"), "no order passes"),
    ],
)
def test_a_swap_that_is_half_done_holds_up_the_deletion(step: Step, says: str) -> None:
    assert (says in why_open(step)) if says else not why_open(step)


U, V = a_segment(0, 9), a_segment(10, 19)
R, N = replacement("R", 0, 19), replacement("N", 0, 9)
ROW = a_row([R], [U, V, N])
SWAPPED = [*whole(U, V, R), given(U, LISTED), given(V, LISTED)]
PLAN: Final = DeletionPlan(
    key=ROW.key,
    starting=ROW.retired[::2],
    going=ROW.retired[1:2],
    dropped=Dropped(listed={U.segment_id: 0, V.segment_id: 0}),
    listed_again=("x",),
    publishes=True,
)
NAMES: Final = {U.segment_id: "U", V.segment_id: "V", N.segment_id: "N"}


def let_go(events: Sequence[Event | tuple[Event, int]], present: Sequence[str]) -> str:
    """The names of what a look confirms, of a plan with all three."""
    ids = {name: one for one, name in NAMES.items()} | {"R": R.segment_id}
    look = a_look(ROW, events, present=frozenset(ids[one] for one in present))
    deletion = next_deletion(look)
    plan = confirmed(PLAN, look, deletion)
    assert plan.listed_again == ()
    return "".join(sorted(NAMES[one] for one in plan.marked_ids))


def test_a_look_lets_go_what_is_due_by_it() -> None:
    assert let_go(SWAPPED, "UVNR") == "NUV"
    late = [*SWAPPED, (given(V, LISTED), NOW_MS - HOUR_MS + 1)]
    assert let_go(late, "UVNR") == "NU"
    assert let_go([*whole(U, V, R), given(U, LISTED)], "UVNR") == "NU"
    assert let_go([*SWAPPED, started(N)], "UVNR") == "UV"
    # Listed and without objects: brokers are to be sent first that it is gone.
    assert let_go(SWAPPED, "VNR") == ""
    assert let_go([*SWAPPED, given(U, GONE)], "VNR") == "NUV"


def test_what_it_lets_go_is_marked_and_finished_by_what_brokers_have() -> None:
    look = a_look(ROW, SWAPPED)
    plan = confirmed(PLAN, look, next_deletion(look))
    (start,) = plan.updates(at_ms=1, run="r")
    assert isinstance(start, StartDeletion)
    assert (start.listed, start.never_named) == ({U.segment_id}, {N.segment_id})
    assert plan.gone_events == 2
    everything = {U.segment_id, V.segment_id, N.segment_id}
    (finish,) = plan.last_updates(everything)
    assert finish == FinishDeletion(ids=(N.segment_id,), never_named=frozenset({N.segment_id}))
    after = a_look(ROW, [*SWAPPED, given(U, GONE)], present=frozenset({R.segment_id}))
    (finish,) = read_back(plan, after).last_updates(everything)
    assert isinstance(finish, FinishDeletion)
    assert set(finish.ids) == {U.segment_id, N.segment_id}
    assert (finish.gone, finish.never_named) == ({U.segment_id}, {N.segment_id})
    # A first send that arrives late: brokers have it again, and `compact` lets it be dropped.
    late = a_look(ROW, [*SWAPPED, given(U, GONE), started(U)], present=frozenset())
    (finish,) = read_back(plan, late).last_updates(everything)
    assert isinstance(finish, FinishDeletion)
    assert finish.ids == (N.segment_id,)


def test_an_orphan_that_brokers_were_given_meanwhile_stays() -> None:
    unknown = replace(U, segment_id=foreign_id())
    orphans = tuple(listed(one) for one in (U, N, unknown))
    plan = confirmed(replace(PLAN, orphans=orphans), a_look(ROW, SWAPPED), Done())
    assert plan.orphans == (listed(N),)


def test_an_orphan_that_a_lost_topic_may_have_named_stays() -> None:
    """Under the claim the row may say so, though the survey's did not yet."""
    rebuilt = Consent(kind=ConsentKind.REBUILT, given_at_ms=NOW_MS, run="mine")
    early, late = (replace(listed(N), modified_ms=NOW_MS + ms) for ms in (0, 1))
    plan = replace(PLAN, orphans=(early, late))
    cut = replace(CLUSTER, metadata_start=14)

    def kept(row: PartitionState) -> tuple[ListedSegment, ...]:
        return confirmed(plan, a_look(row, SWAPPED), Done()).orphans

    assert kept(replace(ROW, served_by=(CLUSTER,))) == (early, late)
    assert kept(replace(ROW, served_by=(CLUSTER,), consents=(rebuilt,))) == (late,)
    assert kept(replace(ROW, served_by=(cut,), consents=(rebuilt,))) == (late,)
    assert kept(replace(ROW, served_by=(cut,))) == ()


def test_nothing_goes_after_a_look_without_a_listing() -> None:
    look = a_look(ROW, SWAPPED, present=None)
    with pytest.raises(ValueError, match="without a listing"):
        confirmed(PLAN, look, next_deletion(look))
    assert isinstance(next_step(look), Done)
    assert not isinstance(next_deletion(look), Delete)
