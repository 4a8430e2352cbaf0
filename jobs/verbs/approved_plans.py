"""The partitions of an approved plan, refused one by one where anything has changed since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.approval import Approved, approved, outdated, unless_changed
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.context.plan_files import Approval
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import Settings, rule_texts

_BINDING: Final = "tier.binding"
_CLUSTER: Final = "cluster.id"


def carrying_out(context: RunContext, approval: Approval | None) -> RunContext:
    """Return the context, whose decisions are made for the time of the plan, if there is one.

    What is written bears the time of the run, and new delete horizons count from it. Raises
    BadSettings if the run is not what was planned.
    """
    if approval is None:
        return context
    approval.check_run(context.catalog_uri, context.publishing_state.value, context.begun_ms)
    return replace(context, now_ms=approval.now_ms, dates_ms=context.begun_ms)


def surveyed(context: RunContext, settings: Settings, scope: Scope) -> list[PartitionPlan]:
    """Survey the partitions in scope; of an approved plan, as `unless_changed`. Raises as `survey`.

    A partition of the plan that the tier has no more is among them, and refused.
    """
    plans = survey(context, settings, scope)
    if (approval := scope.approval) is None:
        return plans
    found = [_checked(context, plan, approval) for plan in plans]
    gone = sorted(scope.approved_keys - {plan.key for plan in plans})
    lost = outdated("the tier has no such partition now")
    return [*found, *(PartitionPlan(key=key, rules=Rules(), choice=lost) for key in gone)]


def _checked(context: RunContext, plan: PartitionPlan, approval: Approval) -> PartitionPlan:
    settings = settings_of_plan(context, plan)
    return unless_changed(plan, approval.partitions[plan.key], settings)


def settings_of_plan(context: RunContext, plan: PartitionPlan) -> dict[str, str]:
    """Return all that was set for a partition, and which cluster it is of, as texts by name."""
    view, declared = context.cluster_view, context.declared
    return {
        **rule_texts(plan.rules),
        _BINDING: "none" if declared is None else declared.value,
        _CLUSTER: "none" if view is None else view.cluster_id,
    }


def approved_plans(
    context: RunContext, plans: Sequence[PartitionPlan]
) -> dict[PartitionKey, Approved]:
    """Return what a plan file keeps of these partitions, which are due."""
    return {plan.key: approved(plan, settings_of_plan(context, plan)) for plan in plans}
