"""What a canary found is said with the offset, and what repairs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.builders import a_chain, a_segment, a_state, retired
from tests.jobs.claims import ORDERS, catalog_of, claimed, released
from tests.jobs.commands import ALWAYS, tierfold
from tests.jobs.publishing.published_tier import PublishedTier
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import made_tier
from tests.storage.call_scripts import Script, fails
from tests.storage.scripted_catalog import ScriptedCatalog
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.verification.canary import (
    CannotRead,
    Difference,
    Differs,
    NotServed,
    Stale,
)
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.publishing.canary_errors import canary_error

UPLOADS = a_chain(10, 10)
ROW = a_state(
    (a_segment(0, 19, segment_id="ours"),),
    retired=(retired(UPLOADS[0], retired_at_ms=500), retired(UPLOADS[1], retired_at_ms=700)),
    committed_at_ms=900,
)


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return beside(made_tier(tmp_path / "tier"))


@pytest.mark.parametrize("difference", Difference)
def test_a_difference_is_named_with_what_repairs_it(
    context: RunContext, difference: Difference
) -> None:
    error = canary_error(context, ROW, Differs(offset=3, difference=difference), "b:1")
    assert f"at offset 3: {difference}" in error.what
    assert (error.where, error.code) == ("orders-3", "canary")
    assert "Do not run `vacuum` until then" in error.remedy
    again = f"`tierfold compact {context.tier_uri} --topic orders --publish --bootstrap-server b:1`"
    assert (again in error.remedy) is (difference is Difference.OUT_OF_RANGE)


def remedy_of(context: RunContext, row: PartitionState, offset: int = 3) -> str:
    found = Differs(offset=offset, difference=Difference.MISSING)
    return canary_error(context, row, found, "b:1").remedy


@pytest.fixture
def tier(tmp_path: Path) -> PublishedTier:
    """Three uploads, compacted twice, and a fourth one that the row has."""
    tier = PublishedTier(folder=made_tier(tmp_path / "compacted"))
    tier.upload(0, 9)
    tier.upload(10, 19)
    for first in (20, 25):
        assert tierfold("compact", tier.folder, *ALWAYS).code == 0
        tier.upload(first, first + 4)
    at_ms = tier.row.committed_at_ms
    released(tier.folder, claimed(tier.folder, "other", at_ms), at_ms=at_ms)
    return tier


def test_the_state_before_the_run_that_wrote_the_offset_can_be_brought_back(
    tier: PublishedTier,
) -> None:
    """Brokers take it in `test_restore_beside_brokers`."""
    states = [*catalog_of(tier.folder).history(ORDERS)]
    (writer, _upload) = (one.written_by_run for one in states[0].segments)
    before = next(
        row for row in states if all(one.written_by_run != writer for one in row.segments)
    )
    to = timestamp_text(before.committed_at_ms)
    restore = f"`tierfold restore {tier.folder} orders-0 --to {to} --publish"
    remedy = remedy_of(beside(tier.folder), tier.row)
    assert f"{restore} --bootstrap-server b:1` brings back" in remedy


def test_no_restore_is_named_that_could_not_be_carried_out(tier: PublishedTier) -> None:
    context, row = beside(tier.folder), tier.row
    unanswered = ScriptedCatalog(context.catalog_uri, Script(fails("history")))
    for other, changed, offset in (
        (context, replace(row, retired=()), 3),
        (context, row, row.next_offset - 1),
        (context, row, row.next_offset),
        (replace(context, catalog=unanswered), row, 3),
    ):
        assert "tierfold restore" not in remedy_of(other, changed, offset)


def test_objects_that_brokers_do_not_find_are_named(context: RunContext) -> None:
    error = canary_error(context, ROW, NotServed(offset=13, error="UNKNOWN"), "b:1")
    assert "brokers answer UNKNOWN to consumers at offset 13" in error.what
    assert "copy the objects of segment ours there" in error.remedy
    assert "Do not run `vacuum` until then" in error.remedy
    error = canary_error(context, ROW, NotServed(offset=20, error="UNKNOWN"), "b:1")
    assert "copy the objects of segment none there" in error.remedy


def test_a_broker_that_does_not_follow_is_looked_for(context: RunContext) -> None:
    error = canary_error(context, ROW, Stale(offset=3), "b:1")
    assert "the record at offset 3" in error.what
    assert "Nothing of this partition is deleted" in error.remedy


def test_what_cannot_be_read_says_so_itself(context: RunContext) -> None:
    cause = UnreadableObject("no answer", where="broker b:1", remedy="Run again.")
    assert canary_error(context, ROW, CannotRead(cause), "b:1") is cause
