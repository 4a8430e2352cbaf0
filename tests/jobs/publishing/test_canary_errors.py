"""What a canary found is said with the offset, and what repairs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compaction.builders import a_chain, a_segment, a_state, retired
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import made_tier
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.verification.canary import (
    CannotRead,
    Difference,
    Differs,
    NotServed,
    Stale,
)
from tierfold.jobs.context.run_context import RunContext
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
