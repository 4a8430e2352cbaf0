"""What is in the way of a restore's publication ends it, and is said; the rest needs brokers."""

from __future__ import annotations

from dataclasses import replace

from tests.jobs.claims import ORDERS
from tests.jobs.publishing.published_tier import PublishedTier, compacted_once
from tests.jobs.runs_beside import beside
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.pipeline.publication import PublicationState
from tierfold.jobs.publishing.open_step import published_step
from tierfold.jobs.settings.resolution import resolve

tier = compacted_once()


def why_failed(context: RunContext) -> str:
    publication = published_step(context, resolve([]), ORDERS, "restore")
    assert publication is not None
    assert publication.state is PublicationState.FAILED
    return publication.why


def test_an_error_of_the_look(tier: PublishedTier) -> None:
    context = replace(beside(tier.folder), holes_are_holes=("payments-0",))
    assert "payments-0" in why_failed(context)


def test_a_refusal_of_the_partition(tier: PublishedTier) -> None:
    assert "serves it from" in why_failed(run_context(str(tier.folder)))
