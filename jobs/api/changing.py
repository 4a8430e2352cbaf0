"""The verbs that change the catalog: `compact`, `vacuum`, `restore`, `forget`.

Each function raises BadSettings for a wrong setting or argument, and UnreadableObject or CorruptLog
if the tier or the catalog cannot be read. An error in one partition is in the result.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Unpack

from tierfold.compaction.commits.clocks import WritingVerb
from tierfold.compaction.deletion.served_grace import least_grace_ms
from tierfold.compaction.deletion.short_ages import short_ages
from tierfold.jobs.api.approving import with_plan
from tierfold.jobs.api.failures import checked
from tierfold.jobs.api.keywords import (
    CompactKeywords,
    ForgetKeywords,
    RestoreKeywords,
    VacuumKeywords,
    takes,
)
from tierfold.jobs.api.metrics_sinks import check_metrics, with_metrics
from tierfold.jobs.api.opening import (
    budget_of,
    engine_of,
    ids_of,
    limits_of,
    local_max_of,
    opened,
)
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.pipeline.left_unpublished import publishing_warnings
from tierfold.jobs.reports.change_report import ForgetResult, RestoreResult
from tierfold.jobs.reports.plan_report import CompactResult
from tierfold.jobs.reports.vacuum_report import VacuumResult
from tierfold.jobs.settings.remarks import on_new_catalog, policy_warnings
from tierfold.jobs.verbs import compact as compact_verb
from tierfold.jobs.verbs import forget as forget_verb
from tierfold.jobs.verbs import plan as plan_verb
from tierfold.jobs.verbs import restore as restore_verb
from tierfold.jobs.verbs import vacuum as vacuum_verb
from tierfold.jobs.verbs.catalog_cleanup import catalog_cleaned
from tierfold.jobs.verbs.vacuum_survey import inspect


@takes(CompactKeywords)
def compact(tier: str | Path, **given: Unpack[CompactKeywords]) -> CompactResult:
    """Compact every eligible partition.

    >>> tierfold.compact("s3://bucket/tier", topics=["orders.*"], config="tierfold.toml")
    """
    keywords = with_plan(tier, given)
    is_dry_run, budget = given.get("dry_run", False), budget_of(given)
    check_metrics(given)
    tools = opened(
        tier,
        keywords,
        has_advice=is_dry_run,
        writing=WritingVerb.COMPACT,
        asks_brokers=True,
        publishes=True,
    )
    verb, publishing = (tools.context, tools.settings, tools.scope), tools.context.publishing_state
    new_catalog = on_new_catalog(tools.context)
    if is_dry_run:
        reports = plan_verb.plan(*verb, budget, local_max_of(given))
    else:
        reports = compact_verb.compact(*verb, budget, engine_of(given))
    is_unchanged = is_dry_run or publishing is Publishing.OFF
    about = tools.about(
        *new_catalog,
        *policy_warnings(tools.settings, {report.key.topic for report in reports}),
        *publishing_warnings(tools.context, reports),
        run_id="" if is_unchanged else tools.context.run,
    )
    found = CompactResult(partitions=tuple(reports), publishing=publishing, **about)
    return checked(with_metrics(found, given), given)


@takes(VacuumKeywords)
def vacuum(tier: str | Path, **given: Unpack[VacuumKeywords]) -> VacuumResult:
    """Delete replaced, expired and orphaned segments.

    >>> tierfold.vacuum("/mnt/tier", settings={"tier.binding": "detached"}, dry_run=True)
    """
    is_dry_run = given.get("dry_run", False)
    check_metrics(given)
    tools = opened(tier, given, writing=WritingVerb.VACUUM, asks_brokers=True, publishes=True)
    publishing = tools.context.publishing_state
    limits = replace(
        limits_of(given, tools.context.now_ms),
        least_served_ms=least_grace_ms(tools.settings.of_run("message_timeout_ms")),
        publishes=publishing is Publishing.ON,
    )
    verb = (tools.context, tools.settings, tools.scope, limits)
    if is_dry_run:
        found = inspect(*verb)
    else:
        duration_ms = given.get("max_duration_ms")
        found = vacuum_verb.vacuum(*verb, max_duration_ms=duration_ms)
    files = catalog_cleaned(tools.context, is_dry_run=is_dry_run)
    short = () if is_dry_run else (age.sentence for age in short_ages(limits))
    about = tools.about(*short, run_id="" if is_dry_run else tools.context.run)
    result = VacuumResult(
        partitions=tuple(found), catalog_files=files, publishing=publishing, **about
    )
    return checked(with_metrics(result, given), given)


@takes(RestoreKeywords)
def restore(
    tier: str | Path, partition: str, to: str, **given: Unpack[RestoreKeywords]
) -> RestoreResult:
    """Bring back an earlier state of one partition, as long as its segments still exist.

    `to` is a time in ISO 8601 or epoch milliseconds, or a run's name or a prefix of it.

    >>> tierfold.restore("/mnt/tier", "orders-0", to="20261121T153046-hVb2Qx0A", dry_run=True)
    """
    is_dry_run = given.get("dry_run", False)
    tools = opened(tier, given, writing=WritingVerb.RESTORE, asks_brokers=True, publishes=True)
    found = restore_verb.restore(
        tools.context,
        tools.settings,
        partition,
        to,
        is_dry_run=is_dry_run,
        is_copy=given.get("copy", False),
    )
    about = tools.about(run_id="" if is_dry_run else tools.context.run)
    return checked(RestoreResult(partitions=(found,), **about), given)


@takes(ForgetKeywords)
def forget(tier: str | Path, partition: str, **given: Unpack[ForgetKeywords]) -> ForgetResult:
    """Accept that an unclean leader election truncated a partition's log; cannot be undone.

    >>> tierfold.forget("/mnt/tier", "orders-0", dry_run=True)
    """
    is_dry_run = given.get("dry_run", False)
    tools = opened(tier, given, writing=WritingVerb.FORGET, asks_brokers=True, publishes=True)
    found = forget_verb.forget(
        tools.context,
        tools.settings,
        partition,
        is_dry_run=is_dry_run,
        leave_alone=ids_of(given.get("leave_alone")),
    )
    about = tools.about(run_id="" if is_dry_run else tools.context.run)
    return checked(ForgetResult(partitions=(found,), **about), given)
