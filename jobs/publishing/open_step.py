"""Publishes what is open of one partition: `restore` does so before it begins, and afterwards.

What a restore has committed is open as after any run that died there: the next run that publishes
the partition would send the same.

Rule: PUBLISHING 4.6, 6.4.
"""

from __future__ import annotations

from typing import Final

from tierfold.compaction.commits.served_view import served_view
from tierfold.compaction.discovery.view import PartitionView, Refusal, state_with_new
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.passes import is_unpublished
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.first_publication import first_publication_refusal
from tierfold.compaction.planning.open_step import step_of
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.compaction.publishing.steps import Done
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.stopping import Stopped, deferred
from tierfold.jobs.context.tier_identity import run_binding, serving_of, tier_identity
from tierfold.jobs.pipeline.claim_report import claim_report
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.partition_report import PartitionReport, planned_report
from tierfold.jobs.pipeline.publication import (
    Publication,
    PublicationState,
    with_publication,
)
from tierfold.jobs.pipeline.survey import inspected, known_among, with_identity
from tierfold.jobs.publishing.looks import failed_by
from tierfold.jobs.publishing.publisher import publisher_of
from tierfold.jobs.settings.cluster_settings import settings_beside
from tierfold.jobs.settings.resolution import Settings

_OPEN: Final = Rest(reason=RestReason.UNPUBLISHED, detail="brokers do not have all of it yet")


def published_step(
    context: RunContext, settings: Settings, key: PartitionKey, verb: str
) -> Publication | None:
    """Publish the partition if anything of it is open, with its canary; None: nothing is.

    An error is in the result; a signal ends it between two sends.
    """
    try:
        rules = settings_beside(settings, context.cluster_view).rules_for(key.topic)
        view = _viewed(context, key)
        if isinstance(view, Refusal):
            return failed_by(view)
        step = step_of(view, rules, context.clock())
        refusal = first_publication_refusal(view, rules, step)
        if refusal is not None:
            return failed_by(refusal)
        row = view.state
        if isinstance(step, Done) and row is not None and not is_unpublished(row):
            return None
        return _published(context, settings, view, rules, verb)
    except TierfoldError as error:
        return Publication(state=PublicationState.FAILED, why=str(error))


def with_step_published(
    context: RunContext, settings: Settings, report: PartitionReport, verb: str
) -> PartitionReport:
    """The report of a committed change, with what became of its publication.

    After a signal the next run sends it.
    """
    try:
        publication = published_step(context, settings, report.key, verb)
    except Stopped as stopped:
        publication = Publication(state=PublicationState.LEFT, why=f"stopped by {stopped.by}")
    return report if publication is None else with_publication(report, publication)


def _viewed(context: RunContext, key: PartitionKey) -> PartitionView | Refusal:
    """The partition as it is now, whatever is compacted of its topic; raises TierfoldError."""
    everywhere, rows = context.tier.partitions(), context.catalog.look([key])
    (known,) = known_among(context, everywhere, [key], rows, is_again=True)
    known = with_identity(known, tier_identity(context, run_binding(context)))
    view, serving = inspected(context, known), serving_of(context)
    if isinstance(view, Refusal) or serving is None:
        return view
    return served_view(view, serving)


def _published(
    context: RunContext, settings: Settings, view: PartitionView, rules: Rules, verb: str
) -> Publication:
    plan = PartitionPlan(key=view.key, rules=rules, choice=_OPEN, view=view)
    publisher = publisher_of(context, settings)
    publisher.begin([plan])
    with deferred(), HeldPartitions(context=context, verb=verb) as held:
        not_claimed = held.claim([state_with_new(view)])
        if not_claimed:
            report = claim_report(planned_report(plan), not_claimed[plan.key])
            return Publication(state=PublicationState.LEFT, why=report.reason)
        return publisher.publish(held, [plan])[plan.key]
