"""A look at partitions that other runs took over asks no broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.jobs.claims import ORDERS, catalog_of, claimed, row_of
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import updated_tier
from tierfold.compaction.model.rules import Rules
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.publishing.looks import by_discovery, looks_at


def test_where_all_partitions_are_lost_nothing_is_asked(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [ORDERS], 1)
    claimed(tier, "earlier", at_ms=1)
    context = replace(beside(tier), run="this")
    held = HeldPartitions(context=context, verb="vacuum")
    assert held.claim([row_of(tier)]) == {}
    catalog_of(tier).claim([row_of(tier)], "rival", at_ms=2)
    assert context.cluster is not None
    looks = looks_at(held, context.cluster, {ORDERS: Rules()}, 1, by_discovery)
    why = "another run took the partition over"
    assert looks.seen == {ORDERS: Publication(state=PublicationState.FENCED, why=why)}
