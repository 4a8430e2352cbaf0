"""The report of a partition that was not claimed: nothing was begun."""

from __future__ import annotations

from dataclasses import replace

from tierfold.compaction.commits.holders import INSIST, Holder, NotClaimed, Skip, Wait
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Unknown
from tierfold.compaction.model.refusal_parts import RefusalPart, part_of
from tierfold.jobs.pipeline.partition_report import (
    REFUSED,
    PartitionReport,
    failure_report,
    outcome_report,
)


def claim_report(planned: PartitionReport, why: NotClaimed) -> PartitionReport:
    """Report it with its reason; that a live run holds it is a refusal."""
    match why:
        case TierfoldError():
            return failure_report(planned, str(why), (part_of(why),))
        case Skip(holder=holder) | Wait(holder=holder):
            return refused_for(planned, holder)
        case Unknown(cause=cause):
            reason = (
                f"the claim got no answer ({cause}), so nothing was begun; run again: the next run"
                " claims the partition, whether this claim was written or not"
            )
            return replace(outcome_report(planned, why), reason=reason)
        case _:
            return outcome_report(planned, why)


def refused_for(planned: PartitionReport, holder: Holder) -> PartitionReport:
    """Report a partition that a person named, and that is left to the live run that holds it."""
    why = RefusalPart(
        code="held_by_run",
        detail=f"{holder.sentence}; nothing was changed",
        remedy="Run again once it has ended, which --if-held wait waits for, or discard its work on"
        f" the partition: {INSIST}",
    )
    return replace(
        planned,
        outcome=REFUSED,
        reason=f"{why.detail}. {why.remedy}",
        refusals=(why,),
        held_by=holder,
        bytes_out=0,
        notes=(),
    )
