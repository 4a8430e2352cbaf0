"""The tier's note keeps that a canary counted, or that a person published without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.builders import CLUSTER
from tests.jobs.claims import ORDERS, claimed
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import updated_tier
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.tier_service import UNPROVEN, CanaryProof, TierService
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import notes_of, place_of
from tierfold.jobs.publishing.canary_note import canary_proof, note_counted, note_off
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.service_notes import Noted, NumberedNote


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    """A run that has looked at the cluster, at time 7."""
    tier = updated_tier(tmp_path / "tier", [ORDERS], 1)
    claimed(tier, "earlier", at_ms=1)
    return replace(beside(tier), clock=lambda: 7)


def served(context: RunContext, **changes: object) -> TierService:
    """Let the tier say that this catalog publishes to this cluster from here, with changes."""
    service = TierService(
        cluster_id=CLUSTER.cluster_id,
        fingerprint=context.catalog.fingerprint(),
        place=place_of(context),
        noted_at_ms=1,
    )
    service = replace(service, **changes)  # type: ignore[arg-type]
    assert isinstance(notes_of(context).write(service, notes_of(context).newest()), Noted)
    return service


def newest(context: RunContext) -> NumberedNote:
    note = notes_of(context).newest()
    assert note is not None
    return note


def test_a_canary_counts_once(context: RunContext) -> None:
    service = served(context)
    assert canary_proof(context) == UNPROVEN
    assert canary_proof(context).is_open
    assert note_counted(context) is None
    proof = CanaryProof(counted_at_ms=7)
    assert canary_proof(context) == proof
    assert not proof.is_open
    assert newest(context).service == replace(service, noted_at_ms=7, canary=proof)
    assert note_counted(replace(context, clock=lambda: 8)) is None
    assert newest(context).number == 2


def test_a_consent_names_its_run_and_stays(context: RunContext) -> None:
    service = served(context)
    assert note_off(context) is None
    consented = CanaryProof(off_at_ms=7, off_run=context.run)
    assert not consented.is_open
    assert newest(context).service == replace(service, noted_at_ms=7, canary=consented)
    assert note_off(replace(context, clock=lambda: 8, run="another")) is None
    assert canary_proof(context) == consented
    assert note_counted(replace(context, clock=lambda: 9)) is None
    assert canary_proof(context) == replace(consented, counted_at_ms=9)


def test_another_place_cluster_or_catalog_is_not_proven(context: RunContext) -> None:
    assert canary_proof(context) == UNPROVEN  # Without a note.
    proven = CanaryProof(counted_at_ms=5, off_at_ms=5, off_run="run")
    for changes in ({"place": "/mnt/elsewhere/"}, {"cluster_id": "another"}, {"fingerprint": 1}):
        service = served(context, canary=proven, **changes)
        assert canary_proof(context) == UNPROVEN
        for note in (note_counted, note_off):
            refusal = note(context)
            assert refusal is not None
            assert refusal.reason is RefusalReason.ANOTHER_CATALOG
        assert newest(context).service == service
    served(context, canary=proven)
    assert canary_proof(context) == proven
    assert canary_proof(replace(context, cluster=None)) == UNPROVEN


def test_a_catalog_without_a_row_has_proven_nothing(context: RunContext, tmp_path: Path) -> None:
    served(context, canary=CanaryProof(counted_at_ms=5))
    new = replace(context, catalog=Catalog(str(tmp_path / "new")))
    assert canary_proof(new) == UNPROVEN


def test_without_a_note_nothing_is_noted(context: RunContext) -> None:
    assert note_counted(context) is not None
    assert notes_of(context).newest() is None


def test_what_another_run_notes_meanwhile_stays(context: RunContext) -> None:
    served(context)
    rivals = iter([lambda: note_off(context)])

    def clock() -> int:
        for rival in rivals:
            rival()
        return 9

    assert note_counted(replace(context, clock=clock)) is None
    assert canary_proof(context) == CanaryProof(
        counted_at_ms=9, off_at_ms=7, off_run=context.run
    )


def test_a_note_that_always_changes_ends_in_a_refusal(context: RunContext) -> None:
    served(context)
    times = iter(range(100, 200))

    def clock() -> int:
        served(context, noted_at_ms=next(times))
        return 9

    refusal = note_counted(replace(context, clock=clock))
    assert refusal is not None
    assert canary_proof(context) == UNPROVEN


def test_a_tier_that_moved_has_to_be_proven_again(context: RunContext) -> None:
    service = served(context, canary=CanaryProof(counted_at_ms=5, off_at_ms=5, off_run="run"))
    assert service.moved("/mnt/new/", 8) == replace(
        service, place="/mnt/new/", noted_at_ms=8, canary=UNPROVEN
    )
