"""Partitions that are due and left as they are, because nothing of them may be published.

Beside brokers, what is compacted is published, or it is not compacted (PUBLISHING 7.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tierfold.compaction.model.wording import counted
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.pipeline.partition_report import (
    LEFT,
    PLANNED,
    PartitionReport,
    planned_report,
)

NOT_ON: Final = (
    "left as it is: publishing to these brokers is not on. Turn it on with --publish, or with"
    " publish = true under [cluster]"
)


def unless_published(context: RunContext, plan: PartitionPlan) -> PartitionReport:
    """Report a plan; left, if the run may not carry it out beside its brokers."""
    why = why_left(context, plan)
    return _left(plan, why) if why else planned_report(plan)


def unless_taken_out(context: RunContext, plan: PartitionPlan) -> PartitionReport:
    """Report a plan; left, if its topic is never published to the brokers that were asked."""
    why = _why_taken_out(context, plan)
    return _left(plan, why) if why else planned_report(plan)


def why_left(context: RunContext, plan: PartitionPlan) -> str:
    """Why the run leaves a plan that is due, a clause; empty: it does not."""
    is_off = context.publishing_state is Publishing.OFF and plan.is_due
    return _why_taken_out(context, plan) or (NOT_ON if is_off else "")


def publishing_warnings(
    context: RunContext, reports: Sequence[PartitionReport]
) -> tuple[str, ...]:
    """Return what a person should know about brokers after `plan` or `compact`, a sentence each."""
    match context.publishing_state:
        case Publishing.OFF:
            due = [one for one in reports if one.outcome == PLANNED or one.reason == NOT_ON]
            if not due:
                return ()
            return (
                "Publishing to these brokers is not on, so `compact` changes nothing of"
                f" {counted(len(due), 'partition')} that could be compacted. Turn it on with"
                " --publish, or with publish = true under [cluster].",
            )
        case Publishing.NOT_NAMED if any(report.objects_written for report in reports):
            return (
                "No brokers are named, so none learn of this run. If brokers serve this tier, they"
                " keep serving the segments that they uploaded, which stay in the tier: name them"
                " with --bootstrap-server and --publish. If no broker serves it, set"
                " tier.binding=detached.",
            )
        case _:
            return ()


def _why_taken_out(context: RunContext, plan: PartitionPlan) -> str:
    if context.cluster is None or plan.rules.publish or not plan.is_due:
        return ""
    return (
        "left as it is: nothing of its topic is published, because publish is false in the topic's"
        f" settings. `tierfold config {plan.key.topic}` shows where"
    )


def _left(plan: PartitionPlan, why: str) -> PartitionReport:
    planned = planned_report(plan)
    return replace(
        planned,
        outcome=LEFT,
        reason=why,
        segments_out=planned.segments_in,
        bytes_out=planned.bytes_in,
    )
