"""Publishes what earlier runs have committed, before anything else is done (PUBLISHING 4.6).

A run may have died between its commit and its last send. Nothing is dirty then, and the partition
is due all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tierfold.compaction.discovery.view import state_with_new
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import deferred, is_stopping
from tierfold.jobs.pipeline.claim_report import claim_report
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.partition_report import (
    PUBLISHED,
    PartitionReport,
    planned_report,
)
from tierfold.jobs.pipeline.publication import with_publication
from tierfold.jobs.pipeline.survey import survey_again
from tierfold.jobs.publishing.publisher import Publisher
from tierfold.jobs.publishing.publishing_run import some_at_a_time


def after_open_swaps(
    publisher: Publisher, plans: Sequence[PartitionPlan], scope: Scope
) -> tuple[list[PartitionPlan], dict[PartitionKey, PartitionReport]]:
    """Publish the partitions with an open step and no round of their own.

    Returns the plans to carry out and the reports of the partitions that were tried. A published
    one is planned again, and is among both if it is due.
    """
    reports = _with_open_swaps_published(publisher, plans)
    done = [key for key, report in reports.items() if report.outcome == PUBLISHED]
    again: dict[PartitionKey, PartitionPlan] = {}
    if done and not is_stopping():
        try:
            newer = survey_again(publisher.run.context, publisher.run.settings, done, scope)
        except TierfoldError as error:  # What is done must be reported.
            publisher.run.stopped_by = str(error)
        else:
            again = {plan.key: plan for plan in newer if plan.is_due}
    rest = [plan for plan in plans if plan.key in again or plan.key not in reports]
    return [again.get(plan.key, plan) for plan in rest], reports


def _with_open_swaps_published(
    publisher: Publisher, plans: Sequence[PartitionPlan]
) -> dict[PartitionKey, PartitionReport]:
    """Claim and publish the partitions with an open step; report them.

    A signal ends it between two of their groups.
    """
    reports: dict[PartitionKey, PartitionReport] = {}
    open_ones = [plan for plan in plans if plan.is_publishing_due and not plan.is_due]
    if not open_ones:
        return reports
    with deferred(), HeldPartitions(context=publisher.run.context, verb="compact") as held:
        for some in some_at_a_time(open_ones):
            if is_stopping():
                break
            reports |= _published(publisher, held, some)
    return reports


def _published(
    publisher: Publisher, held: HeldPartitions, plans: Sequence[PartitionPlan]
) -> dict[PartitionKey, PartitionReport]:
    views = [plan.view for plan in plans if plan.view is not None]
    refused = held.claim([state_with_new(view) for view in views], [*held.by_key])
    reports = {plan.key: planned_report(plan) for plan in plans}
    reports |= {key: claim_report(reports[key], why) for key, why in refused.items()}
    claimed = [plan for plan in plans if plan.key not in refused]
    for key, publication in publisher.publish(held, claimed).items():
        report = with_publication(reports[key], publication)
        reports[key] = replace(report, epoch=held.by_key[key].row.epoch)
    return reports
