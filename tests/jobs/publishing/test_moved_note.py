"""The tier's note names another place only for a person's word, and under the next number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.builders import CLUSTER
from tests.jobs.claims import ORDERS, claimed
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import updated_tier
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.bindings import TierBinding
from tierfold.compaction.model.tier_service import TierService
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import notes_of, place_of
from tierfold.jobs.publishing.service_note import note_moved
from tierfold.storage.tiers.service_notes import Noted


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    """A run that has looked at the cluster, and whose user set tier.binding=moved."""
    tier = updated_tier(tmp_path / "tier", [ORDERS], 1)
    claimed(tier, "earlier", at_ms=1)
    return replace(beside(tier), declared=TierBinding.MOVED)


def noted(context: RunContext, **changes: object) -> TierService:
    """Let the tier say that the cluster serves it elsewhere, and that this catalog publishes."""
    service = TierService(
        cluster_id=CLUSTER.cluster_id,
        fingerprint=context.catalog.fingerprint(),
        place="/mnt/elsewhere/",
        noted_at_ms=1,
    )
    service = replace(service, **changes)  # type: ignore[arg-type]
    assert isinstance(notes_of(context).write(service, notes_of(context).newest()), Noted)
    return service


def test_the_next_note_names_the_place(context: RunContext) -> None:
    assert note_moved(context) is None
    assert notes_of(context).newest() is None
    before = noted(context)
    assert note_moved(context) is None
    newest = notes_of(context).newest()
    assert newest is not None
    assert newest.number == 2
    assert newest.service.noted_at_ms > before.noted_at_ms
    assert newest.service == replace(
        before, place=place_of(context), noted_at_ms=newest.service.noted_at_ms
    )
    assert note_moved(context) is None
    assert notes_of(context).newest() == newest


def test_without_that_word_or_of_others_it_stays(context: RunContext) -> None:
    for run, changes in (
        (replace(context, declared=None), {}),
        (replace(context, cluster=None), {}),
        (context, {"fingerprint": 1}),
        (context, {"cluster_id": "another"}),
    ):
        before = noted(context, **changes)
        assert note_moved(run) is None
        newest = notes_of(context).newest()
        assert newest is not None
        assert newest.service == before


def test_a_note_that_another_run_writes_meanwhile_stays(context: RunContext) -> None:
    noted(context)
    others = []

    def clock() -> int:
        others.append(noted(context, fingerprint=1))
        return 5

    refusal = note_moved(replace(context, clock=clock))
    assert refusal is not None
    assert refusal.reason is RefusalReason.ANOTHER_CATALOG
    newest = notes_of(context).newest()
    assert newest is not None
    assert [newest.service] == others
