"""Whether a round waits until the objects that it replaces may be deleted without a fee.

The storage of a young object is paid until its minimum duration is over, whether it is kept or
deleted. So until then a rewrite saves nothing of it, and pays for the new object beside it. Only
objects that are old enough save anything meanwhile: at most all that they cost. If the fees are
higher, the round waits. The retrieval fee has no say: it is due then as now.

A partition to which brokers go on uploading is not held back for ever: what gets old is more and
more, what is young stays as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.wording import dollars, duration
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact, CompactReason, Rest, RestReason
from tierfold.compaction.planning.storage_fees import ClassPrices, SegmentFees, fees_of

_NEVER_WAIT: Final = frozenset(
    {CompactReason.FORCED, CompactReason.MUST_CLEAN, CompactReason.MERGE}
)
"""A person asked for the round, max.compaction.lag.ms demands it, or brokers need it."""


def with_fees(plan: PartitionPlan, prices: ClassPrices, now_ms: int) -> PartitionPlan:
    """A round with the fees of its segments; a Rest if they are higher than what it saves."""
    compact = plan.choice
    if plan.view is None or not isinstance(compact, Compact):
        return plan
    plan = replace(plan, fees=fees_of(plan.view.stored, prices, now_ms))
    rest = _rest(compact, plan.fees_of_sources, plan.rules, now_ms)
    return plan if rest is None else replace(plan, choice=rest)


def _rest(
    compact: Compact, fees: Sequence[SegmentFees], rules: Rules, now_ms: int
) -> Rest | None:
    if rules.rewrite_young_objects or compact.reason in _NEVER_WAIT:
        return None
    young = [one for one in fees if one.free_at_ms > now_ms]
    wait_ms = max((one.free_at_ms for one in young), default=now_ms) - now_ms
    costs = sum((one.early_deletion_usd for one in young), Fraction(0))
    saves = wait_ms * sum((one.free_usd_per_ms for one in fees), Fraction(0))
    if costs <= saves:
        return None
    classes = sorted({(one.storage_class, one.minimum_days) for one in young if one.minimum_days})
    named = ", ".join(f"{name} {days} d" for name, days in classes) or "of some of their objects"
    return Rest(
        reason=RestReason.EARLY_DELETION,
        detail=f"a rewrite now costs {dollars(costs)} for deleting objects before the minimum"
        f" storage duration of their class ({named}), and saves at most {dollars(saves)} of storage"
        f" until that is over, in {duration(wait_ms)}; rewrite.young.objects=true does not wait",
        notes=compact.notes,
    )
