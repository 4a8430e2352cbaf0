"""The plan of one partition: what a run knows of it, and what it chose to do.

    partition_plan(view, producers, rules, ...)  ->  PartitionPlan; the same facts give the same one
    left_as_it_is(key, rules, choice, epoch)     ->  PartitionPlan of one that was not inspected
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.model.strategies import strategy_change
from tierfold.compaction.planning.eligibility import (
    DirtyRatio,
    dirty_ratio,
    should_have_rolled_at_ms,
)
from tierfold.compaction.planning.plan import Choice, Compact, propose
from tierfold.compaction.planning.plan_check import violations
from tierfold.compaction.planning.regions import Regions, last_stable_of, regions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """One partition, as planning left it."""

    key: PartitionKey
    rules: Rules
    choice: Choice
    view: PartitionView | None = None
    """None: the partition was not inspected, or could not be understood."""
    regions: Regions | None = None
    """None: as `view`, or a person's `--first-dirty` lies outside the log."""
    ratio: DirtyRatio | None = None
    """How dirty and how overdue it is; None: as `regions`."""
    should_have_rolled_at_ms: int | None = None
    """The earliest time at which its active segment should have rolled; None: not due yet."""
    producers: tuple[ProducerEntry, ...] = field(default=(), repr=False)
    """The newest producer snapshot in view; read only where `needs_producers`."""
    epoch: int = 0
    """The compaction epoch in the catalog's row; 0: no row."""

    @property
    def is_due(self) -> bool:
        """The partition is to be compacted."""
        return isinstance(self.choice, Compact)

    @property
    def compact(self) -> Compact:
        """The work to do; raises TypeError where there is none."""
        if not isinstance(self.choice, Compact):
            raise TypeError(f"{self.key}: the partition is not due")
        return self.choice


def left_as_it_is(
    key: PartitionKey, rules: Rules, choice: Choice, epoch: int = 0
) -> PartitionPlan:
    """Return the plan of a partition that was not inspected, or could not be."""
    return PartitionPlan(key=key, rules=rules, choice=choice, epoch=epoch)


def needs_producers(view: PartitionView, now_ms: int, *, is_forced: bool) -> bool:
    """Whether the newest producer snapshot decides anything: something is dirty, or due."""
    is_clean = not is_forced and view.cleaner_offset == view.next_offset
    has_due = any(segment.is_due(now_ms) for segment in view.segments)
    return bool(view.segments) and (not is_clean or has_due)


def partition_plan(
    view: PartitionView,
    producers: Sequence[ProducerEntry],
    rules: Rules,
    now_ms: int,
    *,
    first_dirty: int | None = None,
) -> PartitionPlan:
    """Decide what to do with an inspected partition.

    `producers`: the newest snapshot in view, where `needs_producers`. `first_dirty`: where a person
    has the dirty region begin; None: where the row says.
    """
    regions = regions_of(
        view, last_stable_of(producers), rules, now_ms, forced_first_dirty=first_dirty
    )
    if isinstance(regions, Refusal):
        return replace(left_as_it_is(view.key, rules, regions), view=view)
    return PartitionPlan(
        key=view.key,
        rules=rules,
        choice=propose(view, rules, regions, now_ms),
        view=view,
        regions=regions,
        ratio=dirty_ratio(view, regions, rules, now_ms),
        should_have_rolled_at_ms=should_have_rolled_at_ms(view, rules, now_ms),
        producers=tuple(producers),
    )


def with_row_notes(
    view: PartitionView, state: PartitionState | None, rules: Rules
) -> PartitionView:
    """Return the view with what its row alone tells a person: a claim, another strategy before.

    A dead run and a live one look the same from outside.
    """
    claimed: tuple[str, ...] = ()
    if state is not None and state.owner_run:
        run = state.owner_run
        claimed = (f"run {run} has not given its claim back: it is taken over, and fenced",)
    return replace(view, notes=(*claimed, *strategy_change(state, rules), *view.notes))


def plan_violations(plan: PartitionPlan, now_ms: int) -> tuple[str, ...]:
    """Check the plan with code that did not make it; empty: no violations."""
    if plan.view is None or not plan.is_due:
        return ()
    last_stable = last_stable_of(plan.producers)
    found = violations(plan.compact, plan.view, last_stable, plan.rules, now_ms)
    return tuple(violation.detail for violation in found)


def in_order_of_work(plans: Sequence[PartitionPlan]) -> list[PartitionPlan]:
    """Return the plans that are due: most overdue first, then dirtiest (KIP-354)."""
    due = [plan for plan in plans if plan.is_due]
    return sorted(due, key=lambda plan: plan.compact.ratio.precedence, reverse=True)
