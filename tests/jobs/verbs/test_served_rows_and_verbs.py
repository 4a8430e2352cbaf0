"""A tier whose row names a cluster changes only if a user insists that the cluster is no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.builders import CLUSTER
from tests.jobs.claims import catalog_of, row_of
from tests.jobs.commands import ALWAYS, CLOCK, tierfold
from tests.jobs.tiers import copied, files_below, updated_tier
from tests.jobs.vacuum_tiers import DETACHED, ORDERS, THEN_MS, compact, vacuum
from tierfold.compaction.commits.commit import ReleaseClaim, proposed
from tierfold.compaction.model.serving import ConsentKind

NOW = (CLOCK, str(THEN_MS))
ABANDONED = ("--set", "tier.binding=abandoned")


def served_one(folder: Path) -> Path:
    """A compacted tier, whose originals wait for `vacuum`, and whose row names a cluster."""
    tier = updated_tier(folder, [ORDERS], 3)
    assert compact(tier).outcomes["orders", 0] == "compacted"
    catalog, row = catalog_of(tier), replace(row_of(tier), served_by=(CLUSTER,))
    held = catalog.claim([row], "publisher", at_ms=row.committed_at_ms)[ORDERS].row
    release = ReleaseClaim(run="publisher")
    catalog.commit([proposed(held, release, commit_id="r", at_ms=row.committed_at_ms)])
    return tier


tier = copied(served_one)


@pytest.mark.parametrize("binding", [(), DETACHED])
@pytest.mark.parametrize("verb", ["vacuum", "compact", "plan"])
def test_it_is_refused_and_nothing_changes(
    tier: Path, verb: str, binding: tuple[str, ...]
) -> None:
    before, row = files_below(tier), row_of(tier)
    options = () if verb == "vacuum" else ALWAYS
    ran = tierfold(verb, tier, *options, *binding, *NOW, "--json")
    assert (ran.code, ran.entry["outcome"]) == (3, "refused")
    assert f"cluster {CLUSTER.cluster_id} serves it" in ran.entry["reason"]
    assert row_of(tier) == row
    assert {*before} <= {*files_below(tier)}


def test_a_row_that_a_cluster_serves_is_never_forgotten(tier: Path) -> None:
    ran = tierfold("forget", tier, "orders-0", *NOW, "--json")
    assert (ran.code, ran.entry["outcome"]) == (3, "refused")
    assert f"cluster {CLUSTER.cluster_id} serves it" in ran.entry["reason"]


def test_a_restore_brings_back_copies_without_being_asked(tier: Path) -> None:
    before = row_of(tier)
    *_, first = catalog_of(tier).history(ORDERS)
    to = str(first.committed_at_ms)
    ran = tierfold("restore", tier, "orders-0", "--to", to, *NOW, "--json")
    assert ran.entry["outcome"] == "restored"
    row = row_of(tier)
    assert row.live_ids.isdisjoint(before.named_ids)
    assert {segment.upload_id for segment in row.segments} <= before.retired_ids
    assert row.served_by == before.served_by


def test_a_user_who_insists_deletes_and_leaves_a_consent(tier: Path) -> None:
    ran = vacuum(tier, *ABANDONED, hours=25)
    assert ran.outcomes["orders", 0] == "vacuumed"
    row = row_of(tier)
    assert [consent.kind for consent in row.consents] == [ConsentKind.DETACHED]
    assert (row.retired, row.is_served, row.cluster) == ((), False, CLUSTER)
    again = vacuum(tier, *DETACHED, hours=25)
    assert again.outcomes["orders", 0] == "nothing_to_do"
