"""`plan` and `compact` say when replaced segments will be gone, and `vacuum` keeps to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.claims import ORDERS, row_of
from tests.jobs.commands import ALWAYS, CLOCK, tierfold
from tests.jobs.tiers import folder_of, put_updates, updated_tier
from tests.jobs.vacuum_tiers import THEN_MS
from tierfold.compaction.model.rules import DAY_MS
from tierfold.jobs.context.timestamps import timestamp_text

NOW: Final = (CLOCK, str(THEN_MS))
DETACHED: Final = ("--set", "tier.binding=detached")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", [ORDERS], 3)


def log_bytes(tier: Path) -> int:
    return sum(path.stat().st_size for path in folder_of(tier, ORDERS).glob("*.log"))


def said(tier: Path, verb: str, *arguments: str) -> tuple[int, str | None, str]:
    """What the verb says of the replaced segments of orders-0."""
    entry: dict[str, Any] = tierfold(verb, tier, *ALWAYS, *arguments, "--json").entry
    names = ("superseded_bytes", "superseded_gone_at", "superseded_note")
    size_bytes, gone_at, note = (entry[name] for name in names)
    return size_bytes, gone_at, note


def test_a_plan_counts_its_sources_and_the_grace_period_from_now(tier: Path) -> None:
    size_bytes, gone_at, note = said(tier, "plan", *NOW, *DETACHED)
    assert size_bytes == log_bytes(tier)
    assert gone_at == timestamp_text(THEN_MS + DAY_MS)
    assert f"`tierfold vacuum` after {gone_at}" in note
    explained = said(tier, "plan", *NOW, *DETACHED, "--explain", "orders-0")
    assert explained == (size_bytes, gone_at, note)


def test_vacuum_deletes_at_the_time_that_compact_said_and_not_before(tier: Path) -> None:
    original_bytes = log_bytes(tier)
    size_bytes, gone_at, _ = said(tier, "compact", *DETACHED)
    retired_ms = max(entry.retired_at_ms for entry in row_of(tier).retired)
    assert (size_bytes, gone_at) == (original_bytes, timestamp_text(retired_ms + DAY_MS))
    # Later plans and runs say the same, although they have nothing to do.
    assert said(tier, "plan", *DETACHED) == said(tier, "compact", *DETACHED)
    assert said(tier, "plan", *DETACHED)[:2] == (size_bytes, gone_at)
    for late_ms, outcome in ((-1, "nothing_to_do"), (0, "vacuumed")):
        now = (CLOCK, str(retired_ms + DAY_MS + late_ms))
        ran = tierfold("vacuum", tier, *now, *DETACHED, "--json")
        assert ran.outcomes == {("orders", 0): outcome}
    assert said(tier, "plan", *DETACHED) == (0, None, "")


def test_what_a_plan_would_replace_is_added_to_what_was_replaced_before(tier: Path) -> None:
    before = said(tier, "compact", *DETACHED)
    live = sum(segment.size_bytes for segment in row_of(tier).segments)
    new = put_updates(tier, ORDERS, 3).stat().st_size
    size_bytes, gone_at, note = said(tier, "plan", *NOW, *DETACHED)
    assert size_bytes == before[0] + live + new
    assert gone_at == timestamp_text(THEN_MS + DAY_MS)
    assert ";" not in note


def test_all_chunks_of_a_run_count(tier: Path) -> None:
    original_bytes = log_bytes(tier)
    size_bytes, _, _ = said(tier, "compact", *DETACHED, "--set", "chunk.bytes=1")
    retired = [entry.segment for entry in row_of(tier).retired]
    assert len(retired) > 3
    assert size_bytes == sum(segment.size_bytes for segment in retired) > original_bytes


def test_a_partition_that_is_left_keeps_what_was_replaced_before(tier: Path) -> None:
    before = said(tier, "compact", *DETACHED)
    put_updates(tier, ORDERS, 3)
    assert said(tier, "compact", *DETACHED, "--max-duration", "0s")[:2] == before[:2]


def test_where_brokers_may_serve_the_tier_their_segments_stay_and_ours_go(tier: Path) -> None:
    original_bytes = log_bytes(tier)
    size_bytes, gone_at, note = said(tier, "compact")
    assert (size_bytes, gone_at) == (original_bytes, None)
    assert "the cleanup.policy set here has no delete" in note
    put_updates(tier, ORDERS, 3)
    assert tierfold("compact", tier, *ALWAYS).code == 0
    ours, brokers = said(tier, "plan")[2].split("; ")
    assert "`tierfold vacuum`" in ours
    assert "set tier.binding=detached" in brokers


def test_where_brokers_expire_segments_our_retention_says_no_date(tier: Path) -> None:
    deleted = ("--set", "cleanup.policy=compact,delete", "--set", "retention.ms=1000")
    size_bytes, gone_at, note = said(tier, "plan", *deleted)
    assert (size_bytes, gone_at) == (log_bytes(tier), None)
    assert "brokers expire them by their own retention.ms" in note


def test_a_partition_without_a_policy_keeps_what_was_replaced_before(tier: Path) -> None:
    before = said(tier, "compact", *DETACHED)
    entry = tierfold("plan", tier, *DETACHED, "--json").entry
    assert entry["outcome"] == "nothing_to_do"
    assert (entry["superseded_bytes"], entry["superseded_gone_at"]) == before[:2]


def test_of_a_refused_partition_it_is_not_known(tier: Path) -> None:
    assert said(tier, "compact", *DETACHED)[0] > 0
    (live,) = row_of(tier).segments
    next(folder_of(tier, ORDERS).glob(f"*-{live.segment_id}.index")).unlink()
    assert tierfold("plan", tier, *ALWAYS).code == 3
    assert said(tier, "plan", *DETACHED) == (None, None, "")


def test_the_screen_sums_all_partitions(tier: Path) -> None:
    ran = tierfold("plan", tier, *ALWAYS, *DETACHED, *NOW)
    text = timestamp_text(THEN_MS + DAY_MS)
    assert ran.stdout.count("replaced segments stay until the first `tierfold vacuum`") == 1
    assert f"after {text} (the grace period is 1 d)." in ran.stdout
