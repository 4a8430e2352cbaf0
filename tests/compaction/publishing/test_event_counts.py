"""How many events are missing until brokers have what a row says."""

from __future__ import annotations

import pytest

from tests.compaction.beside_brokers import brokers_have
from tests.compaction.broker_events import uploaded
from tests.compaction.looks import given, replacement, started, whole
from tierfold.compaction.brokers.events import Event, SegmentState
from tierfold.compaction.publishing.event_counts import events_needed

R, S = replacement("R", 0, 29), replacement("S", 30, 39)


@pytest.mark.parametrize("sources", [1, 3, 20])
def test_a_swap_of_n_for_one_needs_two_and_twice_n(sources: int) -> None:
    events = [event for n in range(sources) for event in uploaded(n, 10 * n, 10 * n + 9)]
    view = brokers_have(events).view
    found = events_needed(view, new=1, live=(), retired=view.segments)
    assert found == 2 + 2 * sources


@pytest.mark.parametrize(
    ("events", "live", "retired", "missing"),
    [
        pytest.param((), [R], [], 2, id="the first send and the second"),
        pytest.param((started(R),), [R], [], 1, id="the second send"),
        pytest.param(whole(R), [R], [], 0, id="brokers have it"),
        pytest.param(whole(R, S), [R], [S], 2, id="listed and gone"),
        pytest.param((started(S),), [], [S], 2, id="it was only started"),
        pytest.param((*whole(S), given(S, SegmentState.DELETE_STARTED)), [], [S], 1, id="gone"),
        pytest.param((), [], [S], 0, id="brokers never had it"),
    ],
)
def test_each_state_has_its_missing_events(
    events: tuple[Event, ...], live: list[object], retired: list[object], missing: int
) -> None:
    view = brokers_have(events).view
    live_ids, retired_ids = ([one.segment_id for one in some] for some in (live, retired))
    assert events_needed(view, new=0, live=live_ids, retired=retired_ids) == missing
