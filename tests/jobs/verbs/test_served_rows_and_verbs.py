"""A tier whose row names a cluster changes only if a user insists that the cluster is no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.builders import CLUSTER
from tests.jobs.claims import catalog_of, note_served, row_of
from tests.jobs.commands import ALWAYS, CLOCK, tierfold
from tests.jobs.tiers import files_below, updated_tier
from tests.jobs.vacuum_tiers import DETACHED, ORDERS, THEN_MS, compact, vacuum
from tierfold.compaction.model.serving import ConsentKind

NOW = (CLOCK, str(THEN_MS))
ABANDONED = ("--set", "tier.binding=abandoned")


def served_one(folder: Path) -> Path:
    """A compacted tier, whose originals wait for `vacuum`, and whose row names a cluster."""
    tier = updated_tier(folder, [ORDERS], 3)
    assert compact(tier).outcomes["orders", 0] == "compacted"
    note_served(tier)
    return tier


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """One of its own: a copy of another would stand elsewhere than its row says."""
    return served_one(tmp_path / "tier")


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


@pytest.mark.parametrize("is_dry_run", [False, True])
@pytest.mark.parametrize("verb", ["forget", "restore"])
def test_a_row_that_a_cluster_serves_is_neither_forgotten_nor_restored(
    tier: Path, verb: str, is_dry_run: bool
) -> None:
    row = row_of(tier)
    *_, first = catalog_of(tier).history(ORDERS)
    to = ("--to", str(first.committed_at_ms)) if verb == "restore" else ()
    dry = ("--dry-run",) if is_dry_run else ()
    ran = tierfold(verb, tier, "orders-0", *to, *dry, *NOW, "--json")
    assert (ran.code, ran.entry["outcome"]) == (3, "refused")
    assert f"cluster {CLUSTER.cluster_id} serves it" in ran.entry["reason"]
    assert "Name its brokers with --bootstrap-server" in ran.entry["reason"]
    assert row_of(tier) == row


def test_a_user_who_insists_deletes_and_leaves_a_consent(tier: Path) -> None:
    ran = vacuum(tier, *ABANDONED, hours=25)
    assert ran.outcomes["orders", 0] == "vacuumed"
    row = row_of(tier)
    assert [consent.kind for consent in row.consents] == [ConsentKind.DETACHED]
    assert (row.retired, row.is_served) == ((), False)
    assert row.cluster == replace(CLUSTER, place=f"{tier}/")
    again = vacuum(tier, *DETACHED, hours=25)
    assert again.outcomes["orders", 0] == "nothing_to_do"
