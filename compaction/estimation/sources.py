"""The segments that a run would rewrite, as the estimate sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.planning.grouping import is_for_brokers
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact, Rest, RestReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a run reads of a partition, and what it may remove."""

    segments: tuple[Segment, ...]
    """In offset order, at least one."""
    competes_from: int
    """Records from here on may supersede others."""
    compares_keys: bool = True
    """False: only records whose delete horizon has passed go."""
    drops_expired: bool = True
    """Whether a tombstone goes once its delete horizon has passed. For brokers more must hold
    (`planning.drop_limits`), so there none is counted."""
    may_spare: bool = False
    """Whether settings may leave superseded records in clean segments (`min.rewrite.gain`)."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments' `.log`s."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def stored_per_byte(self) -> float:
        """What a byte of a `.log` takes in the store: a layout may encode logs."""
        stored = sum(
            one.log_bytes if one.stored_log_bytes is None else one.stored_log_bytes
            for one in self.segments
        )
        return stored / sum(one.log_bytes for one in self.segments)

    @property
    def next_offset(self) -> int:
        """The first offset after them."""
        return self.segments[-1].next_offset

    @property
    def clean(self) -> tuple[Segment, ...]:
        """The segments without a record that may supersede others."""
        return tuple(one for one in self.segments if one.next_offset <= self.competes_from)

    @property
    def dirty(self) -> tuple[Segment, ...]:
        """The others."""
        return self.segments[len(self.clean) :]


def sources_of(plan: PartitionPlan) -> Sources | None:
    """The sources of a partition that is due, or that only its dirty ratio keeps from it.

    None for all others, and for a merge, which removes nothing. Of a partition that is compacted
    in chunks, those of the chunk that the plan has.
    """
    match plan.choice:
        case Compact() as compact:
            if compact.is_merge:
                return None
            found = _sources(plan, compact.sources, compact.first_dirty)
            return found and replace(found, compares_keys=not compact.is_partial)
        case Rest(reason=RestReason.RATIO_TOO_LOW):
            if plan.view is None or plan.regions is None:
                return None
            end = plan.regions.first_uncleanable
            below = [one for one in plan.view.segments if one.start_offset < end]
            return _sources(plan, below, plan.regions.first_dirty)
        case _:
            return None


def _sources(
    plan: PartitionPlan, segments: Sequence[Segment], first_dirty: int
) -> Sources | None:
    held = tuple(segment for segment in segments if segment.size_bytes)
    if not held:
        return None
    by_offset = plan.rules.compaction_strategy is CompactionStrategy.OFFSET
    return Sources(
        segments=held,
        # By versions every record competes, and as many go as if the last one stayed.
        competes_from=first_dirty if by_offset else held[0].start_offset,
        drops_expired=plan.view is None or not is_for_brokers(plan.view),
        may_spare=bool(plan.rules.min_rewrite_gain or plan.rules.min_rewrite_bytes),
    )
