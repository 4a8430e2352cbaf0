"""A tier whose row names a cluster changes only if a user insists that the cluster is no more."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.builders import CLUSTER
from tests.jobs.claims import catalog_of, note_served, row_of
from tests.jobs.commands import ALWAYS, CLOCK, tierfold
from tests.jobs.elections import histories
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


def first_state(tier: Path) -> tuple[str, str]:
    *_, first = catalog_of(tier).history(ORDERS)
    return "--to", str(first.committed_at_ms)


def test_a_copy_of_a_served_tier_is_restored_once_it_is_declared(
    tier: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tier, copy)
    restore = ("restore", copy, "orders-0", *first_state(copy), *NOW, "--json")
    assert "set tier.binding=detached" in tierfold(*restore).entry["reason"]
    originals = row_of(copy).retired_ids
    assert tierfold(*restore, *DETACHED).entry["outcome"] == "restored"
    row = row_of(copy)
    assert row.live_ids == originals
    assert [consent.kind for consent in row.consents] == [ConsentKind.DETACHED]
    assert row_of(tier).is_served


def test_a_copy_of_a_served_tier_is_compacted_as_one_that_no_broker_serves(
    tier: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tier, copy)
    words = (copy, *ALWAYS, "--first-dirty", "0", *DETACHED, "--json")
    much_later = (CLOCK, str(THEN_MS + 30 * 86_400_000))
    planned = tierfold("plan", *words, *much_later).entry
    assert planned["outcome"] == "planned", planned
    compacted = tierfold("compact", *words, "--engine", "local", *much_later).entry
    assert compacted["outcome"] == "compacted", compacted
    row = row_of(copy)
    assert ([consent.kind for consent in row.consents], row.is_served) == (["detached"], False)
    again = vacuum(copy, *DETACHED, hours=24 * 40)
    assert again.outcomes["orders", 0] == "vacuumed"
    assert row_of(copy).retired == ()
    assert row_of(tier).is_served


def test_a_tier_whose_cluster_is_no_more_is_restored_by_a_user_who_insists(tier: Path) -> None:
    restore = ("restore", tier, "orders-0", *first_state(tier), *NOW, "--json")
    assert tierfold(*restore, *DETACHED).code == 3
    assert tierfold(*restore, *ABANDONED).entry["outcome"] == "restored"
    assert not row_of(tier).is_served
    # From then on nothing needs to be said.
    assert tierfold("plan", tier, *ALWAYS, *NOW, "--json").code == 0


def test_that_a_cluster_is_no_more_is_noted_even_if_nothing_is_deleted(tier: Path) -> None:
    before, live = files_below(tier), row_of(tier).live_ids
    ran = vacuum(tier, *ABANDONED, hours=1)
    assert ran.outcomes["orders", 0] == "vacuumed"
    assert [consent.kind for consent in row_of(tier).consents] == [ConsentKind.DETACHED]
    assert (row_of(tier).live_ids, {*before} <= {*files_below(tier)}) == (live, True)
    assert tierfold("plan", tier, *ALWAYS, *NOW, "--json").code == 0


def test_no_consent_is_noted_where_the_row_names_no_cluster(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [ORDERS], 3)
    compact(tier)
    restore = ("restore", tier, "orders-0", *first_state(tier), *NOW, "--json")
    assert tierfold(*restore, *DETACHED).entry["outcome"] == "restored"
    assert row_of(tier).consents == ()


def test_a_truncated_log_of_a_cluster_that_is_no_more_is_forgotten(tmp_path: Path) -> None:
    tier, *_ = histories(tmp_path / "tier")
    note_served(tier)
    forget = ("forget", tier, "orders-0", "--json")
    assert "set tier.binding=abandoned" in tierfold(*forget).entry["reason"]
    assert tierfold(*forget, *ABANDONED).entry["outcome"] == "forgotten"
    assert [consent.kind for consent in row_of(tier).consents] == [ConsentKind.DETACHED]
    assert tierfold("plan", tier, *ALWAYS, "--json").code == 0
