"""The verbs that change nothing: `plan`, `explain`, `status`, `doctor`, `history`, `runs`.

Each function raises BadSettings for a wrong setting or argument, and UnreadableObject or CorruptLog
if the tier or the catalog cannot be read. An error in one partition is in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.api.approving import write_plan
from tierfold.jobs.api.cluster_remarks import setup_warnings
from tierfold.jobs.api.failures import checked
from tierfold.jobs.api.keywords import (
    RUNS_SHOWN,
    CheckKeywords,
    DoctorKeywords,
    PlaceKeywords,
    PlanKeywords,
    ReplayKeywords,
    takes,
)
from tierfold.jobs.api.opening import cluster_alone, opened, settings_of
from tierfold.jobs.context.documents import check_new
from tierfold.jobs.pipeline.left_unpublished import publishing_warnings
from tierfold.jobs.pipeline.partition_report import PartitionReport
from tierfold.jobs.reports.doctor_report import DoctorResult
from tierfold.jobs.reports.estimate_report import prices_of
from tierfold.jobs.reports.explained_plan import ExplainResult
from tierfold.jobs.reports.history_report import HistoryResult
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.jobs.reports.runs_report import RunsResult
from tierfold.jobs.reports.status_report import StatusResult
from tierfold.jobs.settings.remarks import on_new_catalog, policy_warnings
from tierfold.jobs.verbs import doctor as doctor_verb
from tierfold.jobs.verbs import history as history_verb
from tierfold.jobs.verbs import plan as plan_verb
from tierfold.jobs.verbs import runs as runs_verb
from tierfold.jobs.verbs import status as status_verb


@takes(PlanKeywords)
def plan(
    tier: str | Path,
    *,
    estimate: bool = False,
    out: str | Path | None = None,
    **given: Unpack[PlanKeywords],
) -> PlanResult:
    """Return what `compact` would do to each partition, and why.

    `estimate`: read a small sample of the log, too, and say how many bytes would probably go.
    `out`: also write a plan file there, a path or a URI, which `compact(plan=…)` carries out.

    >>> tierfold.plan("/mnt/tier", settings={"cleanup.policy": "compact"}).bytes_in
    """
    if out is not None:
        check_new(str(out), option="--out")
    tools = opened(tier, given, has_advice=True, asks_brokers=True, publishes=True)
    reports, approved = plan_verb.plan_to_approve(
        tools.context, tools.settings, tools.scope, has_estimates=estimate
    )
    about = tools.about(
        *on_new_catalog(tools.context),
        *policy_warnings(tools.settings, {report.key.topic for report in reports}),
        *publishing_warnings(tools.context, reports),
    )
    result = PlanResult(
        partitions=tuple(reports),
        publishing=tools.context.publishing_state,
        prices=prices_of(tools.context.scheme, shares=tools.context.stored.shares)
        if estimate
        else None,
        **about,
    )
    if out is not None:
        result = replace(result, plan_file=str(out))
        write_plan(result, tools.context, given, approved)
    return checked(result, given)


@takes(PlanKeywords)
def explain(tier: str | Path, partition: str, **given: Unpack[PlanKeywords]) -> ExplainResult:
    """Return what `compact` would do to each segment of one partition, such as `orders-0`.

    >>> tierfold.explain("/mnt/tier", "orders-0", settings={"cleanup.policy": "compact"})
    """
    tools = opened(tier, given, has_advice=True, asks_brokers=True, publishes=True)
    found = plan_verb.explain(tools.context, tools.settings, tools.scope, partition)
    publishing = tools.context.publishing_state
    about = tools.about(*publishing_warnings(tools.context, [found.report]))
    return checked(ExplainResult(partitions=(found,), publishing=publishing, **about), given)


@takes(ReplayKeywords)
def status(tier: str | Path | None = None, **given: Unpack[ReplayKeywords]) -> StatusResult:
    """Return each partition's live segments, how dirty they are, and what was replaced.

    With brokers, also what they have of each partition; without `tier`, only that.

    >>> tierfold.status("/mnt/tier", topics=["orders.*"]).to_pandas()
    >>> tierfold.status(bootstrap_server="broker-1:9092")
    """
    view: ClusterView | None
    if tier is None:
        asked = cluster_alone(given)
        found = status_verb.status_of_cluster(asked.cluster, asked.scope, asked.progress)
        view = asked.cluster.view
        about = asked.about(*setup_warnings(view, settings_of(given)))
    else:
        tools = opened(tier, given, asks_brokers=True)
        found = status_verb.status(tools.context, tools.settings, tools.scope)
        view = tools.context.cluster_view
        about = tools.about(*setup_warnings(view, tools.settings))
    return checked(StatusResult(partitions=tuple(found), cluster=view, **about), given)


@takes(DoctorKeywords)
def doctor(
    tier: str | Path | None = None, *, estimate: bool = False, **given: Unpack[DoctorKeywords]
) -> DoctorResult:
    """Return what is wrong with a tier and its cluster: what loses data, what leaks, what hinders.

    Without `tier`, what brokers alone can say; without brokers, what the listing and the catalog
    can. `estimate`: read a small sample of the log, too, and say how many bytes compaction would
    probably save; a topic without a `cleanup.policy` counts as one that is to be compacted.

    >>> tierfold.doctor("/mnt/tier", bootstrap_server="broker-1:9092").findings
    """
    planned: Sequence[PartitionReport] | None = None
    price = given.get("storage_price")
    if tier is None:
        if estimate:
            raise BadSettings(
                "an estimate reads logs, and no tier is named",
                where="--estimate",
                remedy="Name the tier's folder or URI.",
            )
        asked, settings = cluster_alone(given), settings_of(given)
        found = doctor_verb.doctor_of_cluster(
            asked.cluster, settings, asked.scope, asked.progress, asked.began_ms
        )
        view, about, prices = asked.cluster.view, asked.about(), prices_of("", price)
    else:
        tools = opened(tier, given, asks_brokers=True)
        found = doctor_verb.doctor(tools.context, tools.settings, tools.scope)
        if estimate:
            verb = (tools.context, tools.settings.if_compacted(), tools.scope)
            planned = plan_verb.plan_with_estimates(*verb)
        view, about = tools.context.cluster_view, tools.about()
        prices = prices_of(tools.context.scheme, price, tools.context.stored.shares)
    result = DoctorResult(
        partitions=found.partitions,
        examination=found,
        prices=prices,
        cluster=view,
        planned=planned,
        **about,
    )
    return checked(result, given)


@takes(CheckKeywords)
def history(
    tier: str | Path, partition: str, limit: int | None = None, **given: Unpack[CheckKeywords]
) -> HistoryResult:
    """Return what happened to one partition, newest first, and what `restore` can bring back.

    >>> tierfold.history("/mnt/tier", "orders-0", limit=10)
    """
    tools = opened(tier, given)
    found = history_verb.history(tools.context, partition, limit)
    return checked(HistoryResult(partitions=(found,), **tools.about()), given)


@takes(PlaceKeywords)
def runs(
    tier: str | Path,
    run: str | None = None,
    limit: int = RUNS_SHOWN,
    **given: Unpack[PlaceKeywords],
) -> RunsResult:
    """Return what the last runs did, the newest first; of one run, also each partition and chunk.

    `run`: a run's name or a prefix of it. The catalog's table `runs` has all this.

    >>> tierfold.runs("/mnt/tier").to_pandas()[["run", "verb", "outcome", "saved_bytes"]]
    """
    tools = opened(tier, given)
    if run is None:
        found = runs_verb.last_runs(tools.context, limit)
    else:
        found = runs_verb.one_run(tools.context, run)
    tier_uri, remarks = tools.context.tier_uri, tools.remarks
    return RunsResult(tier=tier_uri, runs=found.runs, rows=found.rows, remarks=remarks)
