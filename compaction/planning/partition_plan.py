"""The plan of one partition: what a run knows about it, and what it chose to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.bindings import UNDECLARED, Binding
from tierfold.compaction.model.passes import is_unpublished
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState, RetiredSegment
from tierfold.compaction.model.spared_bytes import spared_sum
from tierfold.compaction.model.strategies import strategy_change
from tierfold.compaction.planning.drop_limits import DropLimits
from tierfold.compaction.planning.eligibility import (
    DirtyRatio,
    dirty_ratio,
    should_have_rolled_at_ms,
)
from tierfold.compaction.planning.holds import dead_uploads
from tierfold.compaction.planning.outlook import Outlook
from tierfold.compaction.planning.plan import Choice, Compact, propose
from tierfold.compaction.planning.regions import Regions, last_stable_of, regions_of
from tierfold.compaction.planning.storage_fees import SegmentFees
from tierfold.compaction.publishing.event_counts import events_needed
from tierfold.compaction.publishing.steps import Done, Refused, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """The choice for one partition, and the facts behind it."""

    key: PartitionKey
    rules: Rules
    choice: Choice
    view: PartitionView | None = None
    """None: the partition was not inspected, or inspecting it failed."""
    regions: Regions | None = None
    """None: no view, or `--first-dirty` is outside the log."""
    ratio: DirtyRatio | None = None
    """How dirty and how overdue it is; None: no regions."""
    should_have_rolled_at_ms: int | None = None
    """The earliest time at which its active segment should have rolled; None: not due yet."""
    producers: tuple[ProducerEntry, ...] = field(default=(), repr=False)
    """The newest producer snapshot in view; read only if `needs_producers`."""
    epoch: int = 0
    """The compaction epoch in the catalog's row; 0: no row."""
    retired: tuple[RetiredSegment, ...] = field(default=(), repr=False)
    """The replaced segments that the row lists."""
    binding: Binding = UNDECLARED
    """The run's."""

    outlook: Outlook | None = None
    """What it means for brokers; None: none were asked, or nothing is due."""
    step: Step | None = None
    """What publishing does next; None: no broker serves the row, or none was asked."""
    fees: tuple[SegmentFees, ...] = field(default=(), repr=False)
    """Of the segments in the tier; none: they have the store's usual storage class."""

    @property
    def fees_of_sources(self) -> tuple[SegmentFees, ...]:
        """The fees of what is replaced; none if nothing is."""
        if not isinstance(self.choice, Compact):
            return ()
        ids = {source.segment_id for source in self.choice.sources}
        return tuple(one for one in self.fees if one.segment_id in ids)

    @property
    def spared_bytes(self) -> int:
        """An upper bound of the superseded bytes that rounds left in live segments."""
        state = None if self.view is None else self.view.state
        return 0 if state is None else spared_sum(state.spared)

    @property
    def is_due(self) -> bool:
        """Whether the partition is to be compacted."""
        return isinstance(self.choice, Compact)

    @property
    def is_publishing_due(self) -> bool:
        """Whether something is to be published, though the partition may be clean.

        Nothing is of what is refused, or of a topic that is taken out (PUBLISHING 7.1). A run that
        died after its last send has not noted that brokers have all of it.
        """
        if not self.rules.publish or isinstance(self.choice, Refusal):
            return False
        match self.step:
            case None | Refused():
                return False
            case Done():
                row = None if self.view is None else self.view.state
                is_to_note = row is not None and row.is_served and is_unpublished(row)
                return is_to_note and not self.is_due
            case _:
                return True

    @property
    def events_planned(self) -> int:
        """How many events brokers must be sent until they have what the plan leads to.

        0: none were asked, or the partition is refused.
        """
        if self.view is None or self.view.brokers is None or isinstance(self.choice, Refusal):
            return 0
        is_due, state = isinstance(self.choice, Compact), self.view.state
        taken = (*self.compact.sources, *self.compact.beside) if is_due else ()
        replaced = {segment.segment_id for segment in taken}
        return events_needed(
            self.view.brokers.view,
            new=len(self.compact.groups) if is_due else 0,
            live={segment.segment_id for segment in self.view.segments} - replaced,
            retired=replaced | (frozenset() if state is None else state.retired_ids),
        )

    @property
    def compact(self) -> Compact:
        """The work to do; raises TypeError if there is none."""
        if not isinstance(self.choice, Compact):
            raise TypeError(f"{self.key}: the partition is not due")
        return self.choice


def needs_producers(
    view: PartitionView, rules: Rules, now_ms: int, *, is_forced: bool
) -> bool:
    """Whether the newest producer snapshot matters: some segment is dirty or due."""
    is_clean = not is_forced and view.cleaner_offset == view.next_offset
    expired_ms = now_ms - rules.producer_id_expiration_ms
    has_due = any(map(DropLimits(now_ms=now_ms, expired_ms=expired_ms).is_due, view.segments))
    return bool(view.segments) and (not is_clean or has_due)


def partition_plan(
    view: PartitionView,
    producers: Sequence[ProducerEntry],
    rules: Rules,
    now_ms: int,
    *,
    first_dirty: int | None = None,
    step: Step | None = None,
) -> PartitionPlan:
    """Decide what to do with an inspected partition.

    `producers`: the newest snapshot in view, if `needs_producers`. `first_dirty`: `--first-dirty`;
    None: the row's cleaner offset counts. `step`: from `open_step.step_of`.
    """
    if dead := dead_uploads(view, rules, now_ms):
        view = replace(view, notes=(*view.notes, dead))
    regions = regions_of(
        view, last_stable_of(producers), rules, now_ms, forced_first_dirty=first_dirty
    )
    if isinstance(regions, Refusal):
        return PartitionPlan(key=view.key, rules=rules, choice=regions, view=view, step=step)
    return PartitionPlan(
        key=view.key,
        rules=rules,
        choice=propose(view, rules, regions, now_ms, step),
        view=view,
        regions=regions,
        ratio=dirty_ratio(view, regions, rules, now_ms),
        should_have_rolled_at_ms=should_have_rolled_at_ms(view, rules, now_ms),
        producers=tuple(producers),
        step=step,
    )


def with_row_notes(
    view: PartitionView, state: PartitionState | None, rules: Rules
) -> PartitionView:
    """Add the notes that come from the row alone: an open claim, a change of strategy."""
    claimed: tuple[str, ...] = ()
    if state is not None and state.owner_run:
        claimed = (
            f"run {state.owner_run} has not released its claim: `compact` leaves it the partition"
            " while it is at work, and takes it over if it is dead",
        )
    return replace(view, notes=(*claimed, *strategy_change(state, rules), *view.notes))


def in_order_of_work(plans: Sequence[PartitionPlan]) -> list[PartitionPlan]:
    """The plans that are due: most overdue first, then dirtiest (KIP-354)."""
    due = [plan for plan in plans if plan.is_due]
    return sorted(due, key=lambda plan: plan.compact.ratio.precedence, reverse=True)


def by_place(
    due: Sequence[PartitionPlan], place_of: Callable[[PartitionPlan], int]
) -> list[PartitionPlan]:
    """The plans in another order, for a run that has time for all of them.

    Those that are overdue stay first. The others are sorted by place, so that a commit of some of
    them touches few places.
    """
    return sorted(due, key=lambda plan: (-1 if plan.compact.ratio.must_clean else place_of(plan)))
