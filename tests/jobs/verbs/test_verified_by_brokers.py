"""What `verify` says of a partition whose brokers do not have what the row says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.beside_brokers import view_beside
from tests.compaction.broker_events import GONE, LISTED, uploaded
from tests.compaction.builders import CLUSTER, a_segment, a_state
from tests.compaction.looks import a_look, a_row, given, replacement, started, whole
from tests.jobs.claims import ORDERS, note_served, view_of
from tests.jobs.vacuum_tiers import compacted
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.planning.open_step import served_look
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.verbs.verified_by_brokers import found_by_brokers

U, V, W = a_segment(0, 9), a_segment(10, 19), a_segment(20, 29)
R = replacement("R", 0, 19)
ROW = replace(a_row([R, W], [U, V]), served_by=(CLUSTER,))


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return compacted(tmp_path / "tier", ORDERS)


@pytest.mark.parametrize(
    "events",
    [whole(U, V, W), [*whole(U, V, W), started(R)]],
)
def test_what_is_not_published_yet_is_no_corruption(tier: Path, events: list[Event]) -> None:
    found = found_by_brokers(run_context(str(tier)), a_look(ROW, events))
    assert found.corruptions == ()
    assert "`tierfold compact --publish` goes on" in found.notes[0]


@pytest.mark.parametrize(
    "events",
    [
        # A hole, which a repair closes; a live segment that brokers deleted; one never named.
        [*whole(R, U, V, W), given(U, LISTED), given(V, LISTED), *whole(V), given(V, LISTED)],
        [*whole(U, V, W), given(W, LISTED), given(W, GONE)],
        whole(U, V),
    ],
)
def test_where_consumers_may_lack_offsets_it_is_one(tier: Path, events: list[Event]) -> None:
    found = found_by_brokers(run_context(str(tier)), a_look(ROW, events))
    assert found.notes == ()
    (corruption,) = found.corruptions
    assert corruption.startswith("brokers and catalog differ: ")


def test_only_what_brokers_serve_by_the_row_is_compared(tier: Path) -> None:
    assert served_look(view_of(tier), Rules(), 0) is None
    note_served(tier)
    assert served_look(view_of(tier), Rules(), 0) is None  # No brokers were asked.
    row = a_state([U], epoch=1)
    events = uploaded("0", 0, 9)
    assert served_look(view_beside(row, [], events), Rules(), 0) is None
    served = view_beside(replace(row, served_by=(CLUSTER,)), [], events)
    assert served_look(served, Rules(), 0) is not None
