"""A commit that took place and was overwritten before it was read is reported as committed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.compaction.builders import KEY
from tests.storage.call_scripts import Event, Script, at, changes, fails, instead
from tests.storage.catalog_contract import claim, fresh
from tests.storage.scripted_table import ScriptedTable
from tierfold.compaction.commits.commit import ReleaseClaim, proposed
from tierfold.compaction.model.outcomes import Committed, Fenced
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.catalog import Catalog, new_commit_id


def ending(then: Event, *, is_written: bool, is_answered: bool = True) -> Script:
    """How the next write ends; another run's claim then hides its effect."""
    refused = instead("replace 1", lambda _: False)
    lost = fails("replace 1", is_done=True)
    return Script(
        *[refused] * (not is_written),
        at("replace 1", then, is_done=True),
        changes("replace 1", lambda _: False),
        *[lost] * (not is_answered),
    )


def row_of(uri: str) -> PartitionState:
    return Catalog(uri).read()[KEY]


def rivals(uri: str, *runs: str) -> Callable[[], object]:
    """Runs that claim the partition, one after the other."""
    return lambda: [claim(Catalog(uri), row_of(uri), run) for run in runs]


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("runs", [("b",), ("b", "c")])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_commit_without_segments_is_found_in_the_past(
    uri: str, is_written: bool, runs: tuple[str, ...], is_answered: bool
) -> None:
    for run in ("long", "before", "a"):
        state = claim(Catalog(uri), Catalog(uri).read().get(KEY, fresh()), run).row
    script = ending(rivals(uri, *runs), is_written=is_written, is_answered=is_answered)
    release = proposed(state, ReleaseClaim(run="a"), commit_id=new_commit_id(), at_ms=2)
    outcome = Catalog(uri, open_table=partial(ScriptedTable, script)).commit([release])[KEY]
    fenced = Fenced(epoch=3, by_epoch=3 + len(runs), by_run=runs[-1])
    took_place = Committed(epoch=3, commit_id=release.commit_id)
    assert outcome == (took_place if is_written else fenced)
    # The search ends at the row that the commit is based on.
    assert len(script.of("past")) == len(runs) + 1
    assert Catalog(uri).resolve([release]) == {KEY: outcome}
    # A repeated commit whose own call wrote nothing is judged by the row alone.
    assert Catalog(uri).commit([release]) == {KEY: fenced}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_claim_is_found_in_the_past(uri: str, is_written: bool, is_first: bool) -> None:
    before = fresh() if is_first else claim(Catalog(uri), fresh(), "a").row

    def rival() -> object:
        return claim(Catalog(uri), Catalog(uri).read().get(KEY, before), "c")

    script = ending(rival, is_written=is_written)
    found = claim(Catalog(uri, open_table=partial(ScriptedTable, script)), before, "b")
    assert isinstance(found.outcome, Committed) is is_written
    assert row_of(uri).owner_run == "c"
