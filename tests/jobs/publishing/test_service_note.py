"""Before the first send the tier notes who serves it, and nothing is sent if that fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compaction.builders import CLUSTER
from tests.jobs.claims import ORDERS, claimed
from tests.jobs.runs_beside import beside
from tests.jobs.tiers import updated_tier
from tierfold.compaction.model.tier_service import TierService
from tierfold.compaction.verification.canary import CanaryMode
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import notes_of, place_of
from tierfold.jobs.publishing.publishing_run import PublishingRun
from tierfold.jobs.publishing.service_note import note_service
from tierfold.jobs.publishing.tier_proof import TierProof
from tierfold.jobs.settings.resolution import resolve
from tierfold.storage.brokers.event_door import EventDoor
from tierfold.storage.tiers.service_notes import Noted


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    """A run that has looked at the cluster, at time 7."""
    tier = updated_tier(tmp_path / "tier", [ORDERS], 1)
    claimed(tier, "earlier", at_ms=1)
    return replace(beside(tier), clock=lambda: 7)


def service_of(context: RunContext) -> TierService:
    return TierService(
        cluster_id=CLUSTER.cluster_id,
        fingerprint=context.catalog.fingerprint(),
        place=place_of(context),
        noted_at_ms=7,
    )


def noted(context: RunContext) -> list[TierService]:
    newest = notes_of(context).newest()
    return [] if newest is None else [newest.service]


def overtaken(context: RunContext) -> RunContext:
    """The run, if another one writes the note between its reading and its writing."""

    def clock() -> int:
        rival = replace(service_of(context), cluster_id="another")
        assert isinstance(notes_of(context).write(rival, None), Noted)
        return 7

    return replace(context, clock=clock)


def run_of(context: RunContext) -> PublishingRun:
    cluster, settings = context.cluster, resolve({})
    assert cluster is not None
    return PublishingRun(
        context=context,
        cluster=cluster,
        settings=settings,
        door=EventDoor.__new__(EventDoor),  # Without a connection: nothing is sent here.
        message_timeout_ms=1,
        grace_ms=1,
        proof=TierProof(context=context, cluster=cluster, mode=CanaryMode.BORDERS),
    )


def test_the_note_says_who_serves_and_is_written_once(context: RunContext) -> None:
    assert note_service(context) is None
    assert noted(context) == [service_of(context)]
    assert note_service(replace(context, clock=lambda: 8)) is None
    assert noted(context) == [service_of(context)]


def test_a_run_that_looked_at_no_cluster_notes_nothing(context: RunContext) -> None:
    assert note_service(replace(context, cluster=None)) is None
    assert noted(context) == []


def test_a_faster_run_is_a_refusal(context: RunContext) -> None:
    refusal = note_service(overtaken(context))
    assert refusal is not None
    assert "another run changed the note" in refusal.sentence


def test_a_run_may_send_once_the_note_is_there(context: RunContext) -> None:
    run = run_of(context)
    assert run.may_send()
    assert noted(context) == [service_of(context)]
    run.stopped_by = "the cluster is set up wrongly"
    assert not run.may_send()


def test_a_run_that_was_stopped_notes_nothing(context: RunContext) -> None:
    run = run_of(context)
    run.stopped_by = "the cluster is set up wrongly"
    assert not run.may_send()
    assert noted(context) == []
    assert run.stopped_by == "the cluster is set up wrongly"


def test_a_run_that_cannot_note_sends_nothing_and_says_why(context: RunContext) -> None:
    run = run_of(overtaken(context))
    assert not run.may_send()
    assert "another run changed the note" in run.stopped_by
    assert not run.may_send()
