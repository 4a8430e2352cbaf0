"""Beside brokers a retired segment goes only if they never had it, or forgot it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.beside_brokers import brokers_have, discovered_beside, own_id, view_beside
from tests.compaction.broker_events import FINISHED, GONE, LISTED, added, updated, uploaded
from tests.compaction.builders import CLUSTER, a_chain, a_state, retired, segment_id, unknown
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.commits.commit import FinishDeletion, StartDeletion, proposed
from tierfold.compaction.commits.invariants import violations
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.commits.served_rows import SERVED_INVARIANTS, deletion_invariants
from tierfold.compaction.deletion.deletion_plan import (
    DeletionPlan,
    VacuumLimits,
    deletion_plan_of,
    waits_until,
)
from tierfold.compaction.deletion.dropped import left_behind
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.bindings import ServedBy
from tierfold.compaction.model.origins import UPLOADED, Compacted
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionState, RetiredSegment
from tierfold.compaction.model.serving import Consent, ConsentKind

NOW_MS: Final = 100 * DAY_MS
TIMES: Final = VacuumLimits(now_ms=NOW_MS)
OLD, LIVE = a_chain(10, 10)
LIVE_EVENTS: Final = uploaded("10-19", 10, 19)
NEVER: Final[Sequence[Event]] = ()
STATES: Final = {
    "never named": NEVER,
    "started": [added("old", 0, 9)],
    "finished": uploaded("old", 0, 9),
    "listed": [*uploaded("old", 0, 9), updated("old", LISTED)],
    "gone": [*uploaded("old", 0, 9), updated("old", LISTED), updated("old", GONE)],
}


def entry(*, is_ours: bool, for_ms: int = DAY_MS) -> RetiredSegment:
    """A retired segment with the id "old"."""
    origin = Compacted("earlier") if is_ours else UPLOADED
    segment = replace(OLD, segment_id=segment_id("old"), origin=origin)
    return retired(segment, retired_at_ms=NOW_MS - for_ms)


def row_with(one: RetiredSegment) -> PartitionState:
    """A served row with one live upload and one retired segment."""
    live = replace(LIVE, segment_id=segment_id("10-19"))
    return a_state([live], retired=(one,), log_start_offset=0, served_by=(CLUSTER,))


def seen(one: RetiredSegment, events: Sequence[Event], *, is_there: bool = True) -> PartitionView:
    """The partition as a run with brokers sees it; `is_there`: its objects are listed."""
    state = row_with(one)
    listing = () if is_there else (one.segment.segment_id,)
    ids = state.named_ids
    # Of an upload that they never had the discovery would refuse already.
    view = view_beside(row_with(entry(is_ours=True)), [], LIVE_EVENTS, gone=listing)
    return replace(view, state=state, brokers=brokers_have([*LIVE_EVENTS, *events], ids))


def planned(view: PartitionView) -> DeletionPlan:
    return deletion_plan_of(view, Rules(retention_ms=-1), ServedBy(CLUSTER), TIMES)


@pytest.mark.parametrize(
    ("log_start", "is_rebuilt", "is_ours", "state", "is_left"),
    [
        (10, True, False, "never named", True),
        (9, True, False, "never named", False),
        (10, False, False, "never named", False),
        (10, True, True, "never named", False),
        (10, True, False, "started", False),
        (10, True, False, "gone", False),
    ],
)
def test_an_upload_that_a_lost_topic_named_is_left_to_a_person_below_the_log_start(
    log_start: int, is_rebuilt: bool, is_ours: bool, state: str, is_left: bool
) -> None:
    """A broker that has restarted since does not know it, and tierfold did not write it."""
    one = entry(is_ours=is_ours)
    events = [*LIVE_EVENTS, *STATES[state]]
    brokers = brokers_have(events, [segment_id("old")], log_start=log_start)
    rebuilt = Consent(kind=ConsentKind.REBUILT, given_at_ms=one.retired_at_ms, run="mine")
    row = replace(row_with(one), consents=(rebuilt,) if is_rebuilt else ())
    assert left_behind(row, brokers) == ({segment_id("old")} if is_left else set())
    if is_left:
        view = replace(seen(one, NEVER), state=row, brokers=brokers)
        assert planned(view).starting == ()
        gone = replace(seen(one, NEVER, is_there=False), state=row, brokers=brokers)
        assert planned(gone).starting == (one,)


@pytest.mark.parametrize("state", ["never named", "gone"])
@pytest.mark.parametrize(
    ("is_there", "log_start", "is_kept"),
    [(True, 9, True), (False, 9, False), (True, 10, False)],
)
def test_what_a_lost_topic_may_have_named_stays_while_it_has_objects(
    is_there: bool, log_start: int, is_kept: bool, state: str
) -> None:
    """Until it lies below the log start, where no consumer reads it."""
    one = entry(is_ours=True)
    view = seen(one, STATES[state], is_there=is_there)
    events = [*LIVE_EVENTS, *STATES[state]]
    brokers = brokers_have(events, [segment_id("old")], log_start=log_start)
    view = replace(view, brokers=brokers)
    rebuilt = Consent(kind=ConsentKind.REBUILT, given_at_ms=one.retired_at_ms, run="mine")
    assert view.state is not None
    after = replace(view, state=replace(view.state, consents=(rebuilt,)))
    assert bool(planned(after).starting) is not is_kept
    earlier = replace(rebuilt, given_at_ms=one.retired_at_ms - 1)
    before = replace(view, state=replace(view.state, consents=(earlier,)))
    assert planned(before).starting


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("is_ours", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_what_brokers_have_of_it_decides(state: str, is_ours: bool, is_there: bool) -> None:
    one = entry(is_ours=is_ours)
    view = seen(one, STATES[state], is_there=is_there)
    deletion = planned(view)
    never = state == "never named" and is_ours
    forgotten = state == "gone" and (is_ours or not is_there)
    assert [one.segment.segment_id for one in deletion.starting] == (
        [segment_id("old")] if never or forgotten else []
    )
    if not deletion.starting:
        note, *unsent = deletion.notes
        assert note == "brokers have or may have these segments, so they stay: 1 retired"
        assert bool(unsent) is (state == "listed")
        return
    ids = (segment_id("old"),)
    start = StartDeletion(
        ids=ids,
        at_ms=5,
        listed=frozenset(ids if forgotten else ()),
        never_named=frozenset(ids if never else ()),
    )
    assert deletion.updates(at_ms=5, run="r") == (start,)
    finish = FinishDeletion(ids=ids, gone=start.listed, never_named=start.never_named)
    assert deletion.last_updates(ids) == (finish,)
    row = claimed(row_with(one), run="r", commit_id="1", at_ms=5)
    for update in (start, finish):
        proposal = proposed(row, update, commit_id="2", at_ms=5)
        after = applied(proposal, row)
        assert violations(row, after, (*SERVED_INVARIANTS, *deletion_invariants(proposal))) == {}
        row = after
    assert row.retired == ()


@pytest.mark.parametrize("state", STATES)
def test_the_grace_period_holds_all_the_same(state: str) -> None:
    view = seen(entry(is_ours=True, for_ms=DAY_MS - 1), STATES[state])
    assert planned(view).starting == ()
    waits = waits_until(view, Rules(), ServedBy(CLUSTER), TIMES)
    assert ("retired segment" in waits) is (state in {"never named", "gone"})


@pytest.mark.parametrize("state", STATES)
def test_a_deletion_stops_if_brokers_have_the_segment_again(state: str) -> None:
    started = replace(entry(is_ours=True), deletion_started_at_ms=NOW_MS)
    view = seen(started, STATES[state])
    assert bool(planned(view).going) is (state in {"never named", "gone"})


def test_without_a_look_nothing_goes() -> None:
    view = replace(seen(entry(is_ours=True), NEVER), brokers=None)
    assert planned(view).starting == ()


@pytest.mark.parametrize("is_ours", [False, True])
@pytest.mark.parametrize(
    ("events", "is_orphan"),
    [
        (NEVER, True),
        ([added("x", 10, 19)], False),
        ([added("x", 10, 19), updated("x", LISTED)], False),
        ([added("x", 10, 19), updated("x", LISTED), updated("x", GONE)], False),
    ],
)
def test_an_orphan_must_be_ours_and_never_have_been_named(
    events: Sequence[Event], is_orphan: bool, is_ours: bool
) -> None:
    name = own_id() if is_ours else own_id(1)
    stray = unknown(replace(LIVE, segment_id=name))
    stray = replace(stray, listed=replace(stray.listed, modified_ms=0))
    named = [event._replace(segment_id=name) for event in events]
    state = replace(row_with(entry(is_ours=True)), retired=())
    view = discovered_beside(state, [stray], [*LIVE_EVENTS, *named])
    # Named by brokers and not by the row, it is refused, unless it was only started or is gone.
    found = planned(view).orphans if isinstance(view, PartitionView) else ()
    orphans = [orphan.segment_id for orphan in found]
    assert orphans == ([name] if is_orphan and is_ours else [])
    if isinstance(view, PartitionView):
        assert [orphan.segment_id for orphan in view.orphans] == orphans
    # Nor if brokers were given it after it was taken for an orphan.
    stale = replace(
        view_beside(state, [], LIVE_EVENTS),
        orphans=(stray.listed,),
        brokers=brokers_have([*LIVE_EVENTS, *named], [name]),
    )
    assert bool(planned(stale).orphans) is (is_orphan and is_ours)


@pytest.mark.parametrize(
    ("metadata_start", "rebuilt_at_ms", "is_orphan"),
    [
        (0, None, True),
        (14, None, False),
        *((start, at_ms, at_ms < 8) for start in (0, 14) for at_ms in (7, 8)),
    ],
)
def test_an_orphan_that_a_lost_topic_may_have_named_stays(
    metadata_start: int, rebuilt_at_ms: int | None, is_orphan: bool
) -> None:
    """Only what was written after the rebuild it cannot have named."""
    stray = unknown(replace(LIVE, segment_id=own_id()))
    stray = replace(stray, listed=replace(stray.listed, modified_ms=8))
    row = replace(row_with(entry(is_ours=True)), retired=())
    if rebuilt_at_ms is not None:
        consent = Consent(kind=ConsentKind.REBUILT, given_at_ms=rebuilt_at_ms, run="mine")
        row = replace(row, consents=(consent,))
    view = view_beside(row, [stray], LIVE_EVENTS)
    assert view.orphans == (stray.listed,)
    assert view.brokers is not None
    cut = replace(view.brokers, metadata_start=metadata_start)
    found = planned(replace(view, brokers=cut))
    assert bool(found.orphans) is is_orphan


def test_what_brokers_have_finished_is_never_an_orphan() -> None:
    """A second upload over the same offsets, which no reader finds."""
    twice = unknown(replace(LIVE, segment_id=segment_id("twice")))
    twice = replace(twice, listed=replace(twice.listed, modified_ms=0))
    state = replace(row_with(entry(is_ours=True)), retired=())
    events = [added("twice", 10, 19), updated("twice", FINISHED), *LIVE_EVENTS]
    assert planned(view_beside(state, [twice], events)).orphans == ()
