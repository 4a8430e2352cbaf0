"""The plan, explained segment by segment: what happens to each segment, and why.

    Region            where a segment lies (SEMANTICS 1)
    SegmentAction     what the plan does with it
    ExplainedSegment  both, its ages, and the rule with the numbers that decided
    SegmentRun        similar neighbours, shown together

Nothing is decided here: regions and choice are arguments, and a sentence names their reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final

from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.rules import LONG_MAX, Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.wording import spaced
from tierfold.compaction.planning.eligibility import dirty_ratio
from tierfold.compaction.planning.plan import Choice, Compact, CompactReason, Rest
from tierfold.compaction.planning.regions import Regions, is_overdue

_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


class Region(StrEnum):
    """A region of a partition, by its name in messages."""

    CLEANED = "cleaned"
    DIRTY = "dirty"
    UNCLEANABLE = "too young"
    """`min.compaction.lag.ms` holds it back."""
    UNSTABLE = "unstable"
    """At or above the last stable offset, in whole segments."""


class SegmentAction(StrEnum):
    """What a plan does with a segment."""

    REWRITTEN = "rewritten"
    """Alone in its group it stays as it is, if nothing of it goes."""
    TRANSACTIONS_READ = "transactions read"
    """It stays; its transaction batches decide records of other segments."""
    WAITS = "waits"
    """It is dirty, and not cleaned now."""
    LEFT = "left"
    """Nothing of it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSegment:
    """One live segment, what happens to it, and why."""

    segment: Segment
    regions: tuple[Region, ...]
    """In offset order, at least one; two where the first dirty offset lies inside it."""
    action: SegmentAction
    why: str
    """The rule and the numbers that decided, a clause."""
    age_ms: int | None
    """Of its youngest record; negative: its timestamp lies ahead; None: it has none."""
    first_age_ms: int | None
    """Of its first batch, where `max.compaction.lag.ms` looks at it; else None."""
    due_in_ms: int | None
    """Until its earliest delete horizon; 0 or less: that has passed; None: none is set."""
    group: int | None = None
    """The number of its group in the plan, from 1; None: it is not rewritten."""
    group_segments: int = 0
    """How many segments that group merges."""


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
    """What the segments of one partition are explained by."""

    view: PartitionView
    rules: Rules
    regions: Regions
    choice: Choice
    now_ms: int

    @property
    def reads_all_transactions(self) -> bool:
        """A round that no chunk cuts short reads the transaction batches of every live segment."""
        choice = self.choice
        if not isinstance(choice, Compact):
            return False
        return choice.is_partial or choice.next_offset >= self.regions.dirty.end


def explained(
    view: PartitionView, rules: Rules, regions: Regions, choice: Choice, now_ms: int
) -> tuple[ExplainedSegment, ...]:
    """Every live segment in offset order.

    Args:
        view: the partition.
        rules: the topic's settings.
        regions: from `regions_of`.
        choice: from `propose`, or of its first chunk; a Refusal leaves all as it is.
        now_ms: the time, epoch milliseconds.
    """
    case = _Case(view=view, rules=rules, regions=regions, choice=choice, now_ms=now_ms)
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
    """One run per segment; if those are too many, neighbours of one region and action in one."""
    if len(segments) <= rows_max:
        return tuple(SegmentRun(segments=(segment,)) for segment in segments)
    alike = groupby(segments, key=lambda segment: (segment.regions, segment.action))
    return tuple(SegmentRun(segments=tuple(run)) for _, run in alike)


def decision(choice: Choice, rules: Rules) -> str:
    """The choice and its reason, a sentence without its full stop."""
    if isinstance(choice, Refusal):
        return f"refused, {choice.reason}: {choice.sentence}".removesuffix(".")
    if isinstance(choice, Rest):
        return f"nothing to do, {choice.reason}: {choice.detail}"
    why = _why_compacted(choice, rules)
    merged = f"{len(choice.sources)} → {len(choice.groups)} segments"
    return f"compact up to offset {choice.next_offset - 1}, {merged}, {choice.reason}: {why}"


def _why_compacted(choice: Compact, rules: Rules) -> str:
    ratio = choice.ratio
    match choice.reason:
        case CompactReason.DIRTY:
            return (
                f"{spaced(ratio.cleanable_bytes)} of {spaced(ratio.total_bytes)} bytes are dirty"
                f" ({ratio.percent}), more than min.cleanable.dirty.ratio"
                f" ({float(rules.min_cleanable_dirty_ratio * 100):g} %)"
            )
        case CompactReason.MUST_CLEAN:
            return (
                f"the oldest dirty record is {duration(ratio.delay_ms)} over"
                f" max.compaction.lag.ms ({rules.max_compaction_lag_ms})"
            )
        case CompactReason.FORCED:
            return f"--first-dirty puts the first dirty offset at {choice.first_dirty}"
        case CompactReason.HORIZON_PASSED:
            return "only the segments with tombstones or markers that may go now"


def duration(time_ms: int) -> str:
    """A time that is not negative, for people: `3.5 d`, `20 s`, `7 ms`; rounded down."""
    for unit, unit_ms in _UNITS_MS:
        if time_ms >= unit_ms:
            tenths = time_ms * 10 // unit_ms
            fraction = f".{tenths % 10}" if tenths % 10 else ""
            return f"{tenths // 10}{fraction} {unit}"
    return f"{time_ms} ms"


def _explained(
    case: _Case, segment: Segment, place: tuple[int, int] | None
) -> ExplainedSegment:
    lies = _regions(segment, case.regions)
    action = _action(case, lies, is_source=place is not None)
    group, group_segments = place or (None, 0)
    is_uncompacted = segment.next_offset > case.regions.first_dirty
    asks_first = is_uncompacted and case.rules.max_compaction_lag_ms < LONG_MAX
    has_first = asks_first and segment.first_timestamp_ms > 0
    due_ms = segment.earliest_due_ms
    return ExplainedSegment(
        segment=segment,
        regions=lies,
        action=action,
        why=_why(case, segment, lies, action) + _overlap(segment),
        age_ms=_age_ms(case, segment),
        first_age_ms=case.now_ms - segment.first_timestamp_ms if has_first else None,
        due_in_ms=None if due_ms is None else due_ms - case.now_ms,
        group=group,
        group_segments=group_segments,
    )


def _overlap(segment: Segment) -> str:
    """Why it counts only from its effective start on; empty: it counts as a whole."""
    if not segment.skipped_offsets:
        return ""
    own, last = segment.own_start_offset, segment.start_offset - 1
    return f"; its offsets {own} to {last} count in the segments before it, uploaded earlier"


def _regions(segment: Segment, regions: Regions) -> tuple[Region, ...]:
    spans = (
        (Region.CLEANED, regions.cleaned),
        (Region.DIRTY, regions.dirty),
        (Region.UNCLEANABLE, regions.uncleanable),
        (Region.UNSTABLE, regions.unstable),
    )
    lies = tuple(
        region
        for region, span in spans
        if max(segment.start_offset, span.start) < min(segment.next_offset, span.end)
    )
    # Wholly below the log start: counted as clean, as the dirty ratio does.
    return lies or (Region.CLEANED,)


def _action(case: _Case, lies: tuple[Region, ...], *, is_source: bool) -> SegmentAction:
    if is_source:
        return SegmentAction.REWRITTEN
    if isinstance(case.choice, Refusal):
        return SegmentAction.LEFT
    if lies[-1] is not Region.CLEANED:
        return SegmentAction.WAITS
    return SegmentAction.TRANSACTIONS_READ if case.reads_all_transactions else SegmentAction.LEFT


def _age_ms(case: _Case, segment: Segment) -> int | None:
    return None if segment.max_timestamp_ms < 0 else case.now_ms - segment.max_timestamp_ms


def _why(
    case: _Case, segment: Segment, lies: tuple[Region, ...], action: SegmentAction
) -> str:
    if isinstance(case.choice, Refusal):
        return f"the partition is refused: {case.choice.reason}"
    if action is SegmentAction.REWRITTEN:
        return _why_rewritten(case, segment, lies)
    if action is not SegmentAction.WAITS:
        return _why_left(case, segment)
    if lies[-1] is Region.DIRTY:
        return _why_dirty_waits(case)
    is_young = lies[-1] is Region.UNCLEANABLE
    why = _why_too_young(case, segment) if is_young else _why_unstable(case)
    return f"{why}; only its transactions are read" if case.reads_all_transactions else why


def _why_rewritten(case: _Case, segment: Segment, lies: tuple[Region, ...]) -> str:
    choice, rules = case.choice, case.rules
    reason = choice.reason if isinstance(choice, Compact) else None
    if reason is CompactReason.HORIZON_PASSED:
        passed_ms = case.now_ms - (segment.earliest_due_ms or 0)
        return f"a delete horizon in it passed {duration(passed_ms)} ago"
    if lies[-1] is Region.CLEANED:
        return "clean, but newer records of its keys may lie above: a round starts at the log start"
    if reason is CompactReason.MUST_CLEAN:
        if not is_overdue(segment, rules, case.now_ms):
            return "dirty: goes along with what max.compaction.lag.ms demands"
        age = duration(case.now_ms - segment.first_timestamp_ms)
        rule = f"max.compaction.lag.ms is {rules.max_compaction_lag_ms}"
        return f"its first batch is {age} old, {rule}"
    first_dirty = case.regions.first_dirty
    if reason is CompactReason.FORCED:
        return f"--first-dirty says that it is dirty from offset {first_dirty} on"
    if Region.CLEANED in lies:
        return f"dirty from offset {first_dirty} on"
    return f"dirty: at or above the first dirty offset {first_dirty}"


def _why_too_young(case: _Case, segment: Segment) -> str:
    least_ms = case.rules.min_compaction_lag_ms
    rule = f"min.compaction.lag.ms is {least_ms} ({duration(least_ms)})"
    age_ms = _age_ms(case, segment)
    if age_ms is None or age_ms >= least_ms:
        first = case.regions.first_uncleanable
        return f"follows offset {first}, where records are too young: {rule}"
    if age_ms < 0:
        return f"its youngest record lies {duration(-age_ms)} ahead, {rule}"
    return f"its youngest record is {duration(age_ms)} old, {rule}"


def _why_unstable(case: _Case) -> str:
    last_stable = case.regions.last_stable
    if last_stable is None:
        return "at or above the last stable offset"
    known = last_stable.producer_id is not None
    whose = f"of producer {last_stable.producer_id}" if known else "of an unknown producer"
    return (
        f"the last stable offset is {last_stable.offset}: the transaction {whose} has no marker"
        " in the tier"
    )


def _why_dirty_waits(case: _Case) -> str:
    choice = case.choice
    if isinstance(choice, Compact) and not choice.is_partial:
        return f"the first chunk ends at offset {choice.next_offset - 1}: a later one takes it"
    ratio = dirty_ratio(case.view, case.regions, case.rules, case.now_ms)
    wanted = float(case.rules.min_cleanable_dirty_ratio * 100)
    return f"dirty ratio {ratio.percent}, min.cleanable.dirty.ratio wants more than {wanted:g} %"


def _why_left(case: _Case, segment: Segment) -> str:
    due_ms, rules = segment.earliest_due_ms, case.rules
    if due_ms is None:
        return "clean, and no delete horizon is set in it"
    if due_ms > case.now_ms:
        return f"clean, its earliest delete horizon is {duration(due_ms - case.now_ms)} ahead"
    if case.regions.is_forced:
        return "clean: with --first-dirty no delete horizon counts"
    if segment.next_offset > case.regions.unstable_from:
        return "clean: above the last stable offset no delete horizon counts"
    return (
        f"clean: under compaction.strategy={rules.compaction_strategy} a delete horizon counts once"
        " all is clean, and was cleaned under it"
    )
