"""Steps that change the row, on real segments, until brokers have what the row says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.publishing.published_tier import PublishedTier, compacted


@pytest.fixture
def tier(tmp_path: Path) -> PublishedTier:
    return compacted(tmp_path / "tier")


def test_a_swap_is_noted_as_published(tier: PublishedTier) -> None:
    survivors = tier.given(tier.row.segments)
    assert tier.publish(tier.held()) == ["start", "swap", "Done"]
    tier.reads(survivors)


def test_a_merge_takes_in_what_a_new_leader_uploaded(tier: PublishedTier) -> None:
    (kept,) = tier.row.segments
    held = tier.held()
    tier.advance(held)
    beside = tier.upload(14, 29)
    survivors = tier.given([kept])
    survivors += [one for one in tier.given([beside]) if one.offset > kept.end_offset]
    assert tier.publish(held) == ["Merge", "start", "swap", "Done"]
    tier.reads(survivors)
    (merged,) = tier.row.segments
    assert (merged.start_offset, merged.end_offset) == (0, 29)
    assert {kept.segment_id, beside.segment_id} < tier.row.retired_ids
