"""What a person leaves alone is never read and never deleted, with or without brokers."""

from __future__ import annotations

from pathlib import Path

from tests.compaction.builders import leave_alone
from tests.jobs.claims import claimed, released, row_of
from tests.jobs.commands import ALWAYS, tierfold
from tests.jobs.vacuum_tiers import ORDERS, THEN_MS, compact, compacted, ids_in, orphan, vacuum
from tierfold.compaction.commits.commit import NoteConsent


def test_it_stays_on_a_detached_tier_and_is_not_part_of_the_log(tmp_path: Path) -> None:
    tier = compacted(tmp_path / "tier", ORDERS)
    row = claimed(tier, "person", at_ms=THEN_MS)
    below, beyond = (orphan(tier, number).stem[21:] for number in (1, 3))
    deletable = vacuum(tier, "--dry-run", hours=50).entry["objects"]
    assert {found["segment_id"] for found in deletable if found["kind"] == "orphan"} == {below}
    assert tierfold("plan", tier, *ALWAYS, "--json").entry["segments_in"] > 1
    agreed = NoteConsent(consent=leave_alone(below, beyond))
    released(tier, row, agreed, at_ms=THEN_MS)
    again = compact(tier, hours=1)
    assert again.entry["outcome"] == "nothing_to_do"
    assert row_of(tier).segments == row.segments
    planned = tierfold("plan", tier, *ALWAYS, "--json")
    assert "2 segments that a person says to leave alone: kept, not read" in planned.entry["notes"]
    vacuum(tier, "--diverged", hours=50)
    assert {below, beyond} <= ids_in(tier)
    assert row_of(tier).left_alone_ids == {below, beyond}
