"""The plan, explained segment by segment: what happens to each segment, and why.

    Region            where a segment lies (SEMANTICS 1)
    SegmentAction     what the plan does with it
    ExplainedSegment  both, its ages, and the reason with its numbers
    SegmentRun        similar neighbours, shown together

Nothing is decided here. Regions and choice are arguments and phrase their own reasons; what is
phrased here is why they apply to a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.rules import LONG_MAX, Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.wording import duration
from tierfold.compaction.planning.drop_limits import Readers, why_waiting
from tierfold.compaction.planning.eligibility import dirty_ratio, readers_by_view
from tierfold.compaction.planning.holds import is_overdue
from tierfold.compaction.planning.plan import Choice, Compact, CompactReason, Rest
from tierfold.compaction.planning.regions import Regions


class Region(StrEnum):
    """A region of a partition, by its name in messages."""

    CLEANED = "cleaned"
    DIRTY = "dirty"
    UNCLEANABLE = "too young"
    """Held back by `min.compaction.lag.ms`."""
    HELD = "held for uploads"
    """Brokers may yet upload segments over its offsets."""
    UNSTABLE = "unstable"
    """At or above the last stable offset, in whole segments."""


class SegmentAction(StrEnum):
    """What a plan does with a segment."""

    REWRITTEN = "rewritten"
    """A segment that is alone in its group and loses nothing is left unchanged after all."""
    TRANSACTIONS_READ = "transactions read"
    """It stays; its transaction batches decide about records of other segments."""
    WAITS = "waits"
    """It is dirty, and not cleaned now."""
    LEFT = "left"
    """It stays and is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSegment:
    """One live segment, what happens to it, and why."""

    segment: Segment
    regions: tuple[Region, ...]
    """In offset order, at least one; two if the first dirty offset lies inside the segment."""
    action: SegmentAction
    why: str
    """The reason with the numbers that decided, a clause."""
    age_ms: int | None
    """Age of its youngest record; negative: its timestamp lies ahead; None: it has none."""
    first_age_ms: int | None
    """Age of its first batch, if `max.compaction.lag.ms` applies to it; else None."""
    due_in_ms: int | None
    """Time until its earliest delete horizon; 0 or less: passed; None: none is set."""
    group: int | None = None
    """The number of its group in the plan, from 1; None: it is not rewritten."""
    group_segments: int = 0
    """The number of segments that the group merges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRun:
    """Neighbouring segments, at least one, that are shown in one row."""

    segments: tuple[ExplainedSegment, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of their `.log`s."""
        return sum(entry.segment.size_bytes for entry in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """The arguments of `explained`."""

    view: PartitionView
    rules: Rules
    regions: Regions
    choice: Choice
    now_ms: int
    readers: Readers | None

    @property
    def reads_all_transactions(self) -> bool:
        """Whether the round reads the transaction batches of every live segment: no chunk does."""
        choice = self.choice
        if not isinstance(choice, Compact):
            return False
        return choice.is_partial or choice.next_offset >= self.regions.dirty.end


def explained(
    view: PartitionView, rules: Rules, regions: Regions, choice: Choice, now_ms: int
) -> tuple[ExplainedSegment, ...]:
    """Explain every live segment, in offset order; `choice`: from `propose`, or its first chunk."""
    readers = readers_by_view(view, regions, rules, now_ms)
    case = _Case(
        view=view, rules=rules, regions=regions, choice=choice, now_ms=now_ms, readers=readers
    )
    groups = choice.groups if isinstance(choice, Compact) else ()
    placed = {
        segment.segment_id: (number, len(group.segments))
        for number, group in enumerate(groups, start=1)
        for segment in group.segments
    }
    return tuple(
        _explained(case, segment, placed.get(segment.segment_id)) for segment in view.segments
    )


def folded(segments: Sequence[ExplainedSegment], rows_max: int) -> tuple[SegmentRun, ...]:
    """One run per segment; beyond `rows_max`, neighbours of one region and action share a run."""
    if len(segments) <= rows_max:
        return tuple(SegmentRun(segments=(segment,)) for segment in segments)
    alike = groupby(segments, key=lambda segment: (segment.regions, segment.action))
    return tuple(SegmentRun(segments=tuple(run)) for _, run in alike)


def decision(choice: Choice) -> str:
    """The choice and its reason, a sentence without its full stop."""
    if isinstance(choice, Refusal):
        return f"refused, {choice.reason}: {choice.sentence}".removesuffix(".")
    if isinstance(choice, Rest):
        return f"nothing to do, {choice.reason}: {choice.detail}"
    merged = f"{len(choice.sources)} → {len(choice.groups)} segments"
    return (
        f"compact up to offset {choice.next_offset - 1}, {merged}, {choice.reason}: {choice.detail}"
    )


def _explained(
    case: _Case, segment: Segment, place: tuple[int, int] | None
) -> ExplainedSegment:
    lies = _regions(segment, case.regions)
    action = _action(case, lies, is_source=place is not None)
    group, group_segments = place or (None, 0)
    is_uncompacted = segment.next_offset > case.regions.first_dirty
    has_maximum = is_uncompacted and case.rules.max_compaction_lag_ms < LONG_MAX
    has_first = has_maximum and segment.first_timestamp_ms > 0
    newest_ms, due_ms = segment.max_timestamp_ms, segment.earliest_due_ms
    return ExplainedSegment(
        segment=segment,
        regions=lies,
        action=action,
        why=_why(case, segment, lies[-1], action) + _overlap(segment),
        age_ms=None if newest_ms < 0 else case.now_ms - newest_ms,
        first_age_ms=case.now_ms - segment.first_timestamp_ms if has_first else None,
        due_in_ms=None if due_ms is None else due_ms - case.now_ms,
        group=group,
        group_segments=group_segments,
    )


def _overlap(segment: Segment) -> str:
    """Why the segment counts only from its effective start on; empty: it counts as a whole."""
    if not segment.skipped_offsets:
        return ""
    own, last = segment.own_start_offset, segment.start_offset - 1
    return f"; its offsets {own} to {last} are read from earlier uploads"


def _regions(segment: Segment, regions: Regions) -> tuple[Region, ...]:
    uncleanable = Region.HELD if regions.is_held_for_brokers else Region.UNCLEANABLE
    spans = (
        (Region.CLEANED, regions.cleaned),
        (Region.DIRTY, regions.dirty),
        (uncleanable, regions.uncleanable),
        (Region.UNSTABLE, regions.unstable),
    )
    lies = tuple(
        region
        for region, span in spans
        if max(segment.start_offset, span.start) < min(segment.next_offset, span.end)
    )
    # A segment wholly below the log start counts as clean, as in the dirty ratio.
    return lies or (Region.CLEANED,)


def _action(case: _Case, lies: tuple[Region, ...], *, is_source: bool) -> SegmentAction:
    if is_source:
        return SegmentAction.REWRITTEN
    if isinstance(case.choice, Refusal):
        return SegmentAction.LEFT
    if lies[-1] is not Region.CLEANED:
        return SegmentAction.WAITS
    return SegmentAction.TRANSACTIONS_READ if case.reads_all_transactions else SegmentAction.LEFT


def _why(case: _Case, segment: Segment, region: Region, action: SegmentAction) -> str:
    """Why `action`; `region` is the segment's last one."""
    choice, regions = case.choice, case.regions
    if isinstance(choice, Refusal):
        return f"the partition is refused: {', '.join(part.code for part in choice.parts)}"
    if action is SegmentAction.REWRITTEN and isinstance(choice, Compact):
        return _why_rewritten(case, choice.reason, segment, region)
    if action is not SegmentAction.WAITS:
        return _why_left(case, segment)
    if region is Region.DIRTY:
        if isinstance(choice, Compact) and not choice.is_partial:
            return f"the first chunk ends at offset {choice.next_offset - 1}: a later one takes it"
        ratio = dirty_ratio(case.view, regions, case.rules, case.now_ms)
        return ratio.compared_with(case.rules.min_cleanable_dirty_ratio)
    is_unstable = region is Region.UNSTABLE
    why = regions.why_unstable if is_unstable else regions.why_uncleanable
    return f"{why}; only its transactions are read" if case.reads_all_transactions else why


def _why_rewritten(case: _Case, reason: CompactReason, segment: Segment, region: Region) -> str:
    first_dirty, most_ms = case.regions.first_dirty, case.rules.max_compaction_lag_ms
    if reason in {CompactReason.HORIZON_PASSED, CompactReason.PRODUCER_EXPIRED}:
        return _why_due(case, segment)
    if region is Region.CLEANED:
        return "clean, but a round starts at the log start: records above may supersede its records"
    if reason is CompactReason.MUST_CLEAN:
        if not is_overdue(segment, case.rules, case.now_ms):
            return "dirty: in the same round as the segments past max.compaction.lag.ms"
        age = duration(case.now_ms - segment.first_timestamp_ms)
        return f"its first batch is {age} old, max.compaction.lag.ms is {most_ms}"
    said = " (--first-dirty)" if reason is CompactReason.FORCED else ""
    return f"the log is dirty from offset {first_dirty} on{said}"


def _why_due(case: _Case, segment: Segment) -> str:
    if segment.is_due(case.now_ms):
        passed_ms = case.now_ms - (segment.earliest_due_ms or 0)
        return f"a delete horizon in it passed {duration(passed_ms)} ago"
    kept_ms = segment.kept_for_producer_ms
    if kept_ms is None:
        return "it shares offsets with a segment of which something may go"
    expired_ms = case.now_ms - kept_ms - case.rules.producer_id_expiration_ms
    return f"a producer whose last batch in it is empty expired {duration(expired_ms)} ago"


def _why_left(case: _Case, segment: Segment) -> str:
    due_ms, regions = segment.earliest_due_ms, case.regions
    if due_ms is None and segment.kept_for_producer_ms is not None:
        expires_ms = segment.kept_for_producer_ms + case.rules.producer_id_expiration_ms
        ahead = duration(max(expires_ms - case.now_ms, 0))
        return f"clean; an empty batch in it stays until its producer expires, {ahead} ahead"
    if due_ms is None:
        return "clean, and no delete horizon is set in it"
    if due_ms > case.now_ms:
        return f"clean; its earliest delete horizon is {duration(due_ms - case.now_ms)} ahead"
    if regions.is_forced:
        return "clean; with --first-dirty no delete horizon counts"
    if why := why_waiting(case.readers, segment, case.now_ms):
        return f"clean; tombstones or markers in it stay beyond their delete horizon: {why}"
    if segment.next_offset > regions.unstable_from:
        return "clean; above the last stable offset no delete horizon counts"
    if segment.next_offset > regions.settled_until:
        return f"clean; {regions.why_uncleanable}"
    return (
        f"clean; under compaction.strategy={case.rules.compaction_strategy} a delete horizon counts"
        " only once the whole log is clean, and was cleaned under this strategy"
    )
