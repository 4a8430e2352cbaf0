"""How dirty a partition is, how long it has waited, and which of its segments are due.

Bytes are counted as Kafka's `LogToClean` counts them. The segment that holds the first dirty offset
counts twice, as clean and as cleanable, because `UnifiedLog.logSegments(from, to)` starts with the
segment that holds `from`. No segment is opened: the catalog's metadata suffices.

The total is that of the whole log: what the tier has, and what only a broker has so far, if a log
directory tells (KIP-1272: cleanable / (local + remote)).

What is clean is read from the sum that each commit stores with its row. Segments are added up only
where others than the row's count, or another offset than its cleaner offset, for example with
`--first-dirty`. Those that are cleanable always are: which ones they are depends on the time, on
open transactions and on what was uploaded since that commit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import attrgetter
from typing import Final

from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.strategies import latest_strategy, strategy_name
from tierfold.compaction.model.wording import counted, spaced
from tierfold.compaction.planning.drop_limits import (
    DropLimits,
    Readers,
    limits_beside,
    readers_of,
    why_waiting,
)
from tierfold.compaction.planning.holds import is_overdue
from tierfold.compaction.planning.regions import Regions


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyRatio:
    """Cleanable bytes divided by all bytes of the log; never a float."""

    clean_bytes: int
    cleanable_bytes: int
    local_bytes: int = 0
    """Bytes of a broker's log that are not in the tier yet; 0: none, or no log directory tells."""
    must_clean_bytes: int = 0
    """The part of `cleanable_bytes` in segments that have waited too long (KIP-354)."""
    delay_ms: int = 0
    """How far the oldest uncompacted segment is past `max.compaction.lag.ms`; 0: it is not."""

    @property
    def total_bytes(self) -> int:
        """The ratio's denominator."""
        return self.clean_bytes + self.cleanable_bytes + self.local_bytes

    @property
    def must_clean(self) -> bool:
        """Whether `max.compaction.lag.ms` demands a round, whatever the ratio (KIP-354)."""
        return self.cleanable_bytes > 0 and self.delay_ms > 0

    @property
    def precedence(self) -> tuple[Fraction, Fraction]:
        """The must-clean dirty ratio, then the dirty ratio: the highest goes first (KIP-354)."""
        if not self.total_bytes:
            return Fraction(0), Fraction(0)
        return (
            Fraction(self.must_clean_bytes, self.total_bytes),
            Fraction(self.cleanable_bytes, self.total_bytes),
        )

    def exceeds(self, threshold: Fraction) -> bool:
        """Whether the ratio is strictly greater, which that of an empty log never is."""
        return self.cleanable_bytes * threshold.denominator > threshold.numerator * self.total_bytes

    @property
    def percent(self) -> str:
        """For display: `33.3 %`, rounded down to a tenth; `0.0 %` for an empty log."""
        per_mille = self.cleanable_bytes * 1000 // self.total_bytes if self.total_bytes else 0
        return f"{per_mille // 10}.{per_mille % 10} %"

    @property
    def total(self) -> str:
        """For display: the total, and its two parts if it has two."""
        if not self.local_bytes:
            return f"{spaced(self.total_bytes)} bytes"
        remote_bytes = self.clean_bytes + self.cleanable_bytes
        return (
            f"{spaced(self.total_bytes)} bytes ({spaced(remote_bytes)} in the tier,"
            f" {spaced(self.local_bytes)} only on the broker)"
        )

    def compared_with(self, threshold: Fraction) -> str:
        """The comparison of `exceeds` with its numbers, a clause."""
        which = "more than" if self.exceeds(threshold) else "not more than"
        return (
            f"{spaced(self.cleanable_bytes)} of {self.total} are dirty ({self.percent}), {which}"
            f" min.cleanable.dirty.ratio ({float(threshold * 100):g} %)"
        )


_START: Final = attrgetter("start_offset")
_NEXT: Final = attrgetter("next_offset")


def dirty_ratio(view: PartitionView, regions: Regions, rules: Rules, now_ms: int) -> DirtyRatio:
    """How dirty the partition is at `now_ms` (epoch milliseconds), and how overdue."""
    dirty, segments = regions.dirty, view.segments
    clean_bytes = view.kept_clean_below(dirty.start)
    if clean_bytes is None:
        clean = segments[: bisect_left(segments, dirty.start, key=_START)]
        clean_bytes = sum(segment.size_bytes for segment in clean)
    cleanable: tuple[Segment, ...] = ()
    if not dirty.is_empty:
        first = bisect_right(segments, dirty.start, key=_NEXT)
        cleanable = segments[first : bisect_left(segments, dirty.end, key=_START)]
    overdue = (segment.size_bytes for segment in cleanable if is_overdue(segment, rules, now_ms))
    delay_ms = 0
    if regions.earliest_dirty_ms is not None:
        delay_ms = now_ms - regions.earliest_dirty_ms - rules.max_compaction_lag_ms
    return DirtyRatio(
        clean_bytes=clean_bytes,
        cleanable_bytes=sum(segment.size_bytes for segment in cleanable),
        local_bytes=view.local_bytes,
        must_clean_bytes=sum(overdue),
        delay_ms=max(delay_ms, 0),
    )


def due_segments(
    view: PartitionView, regions: Regions, rules: Rules, now_ms: int
) -> tuple[Segment, ...]:
    """The clean segments of which something may go.

    That is a tombstone or marker whose delete horizon has passed, or the last batch of a producer
    that has expired. Beyond Kafka, where they wait for new dirty data (SEMANTICS 2). Segments above
    the cleaner offset do not count: older values of a tombstone there may still lie below. With
    `--first-dirty` no segment counts.

    Under the strategies `timestamp` and `header`, a dirty record above may be older than a
    tombstone below. There the whole log must be clean, and cleaned under the same strategy.

    On a served row all of `planning.drop_limits` must have passed.
    """
    limits = limits_by_view(view, regions, rules, now_ms)
    return tuple(one for one in _settled(view, regions, rules) if limits.is_due(one))


def limits_by_view(
    view: PartitionView, regions: Regions, rules: Rules, now_ms: int
) -> DropLimits:
    """Which delete horizons have passed, and which producers have expired."""
    limits = limits_beside(readers_by_view(view, regions, rules, now_ms), now_ms)
    return replace(limits, expired_ms=now_ms - rules.producer_id_expiration_ms)


def readers_by_view(
    view: PartitionView, regions: Regions, rules: Rules, now_ms: int
) -> Readers | None:
    """What consumers may still read as it was; None: no broker serves the row."""
    return readers_of(
        None if view.state is None else state_with_new(view),
        view.brokers,
        rules,
        clean_until=regions.settled_until,
        now_ms=now_ms,
    )


def waiting_notes(
    view: PartitionView, regions: Regions, rules: Rules, now_ms: int
) -> tuple[str, ...]:
    """Why tombstones and markers stay though their delete horizon has passed, a sentence each."""
    readers = readers_by_view(view, regions, rules, now_ms)
    waiting = Counter(
        why_waiting(readers, one, now_ms) for one in _past_horizon(view, regions, rules, now_ms)
    )
    return tuple(
        f"tombstones or markers of {counted(count, 'segment')} stay beyond their delete horizon:"
        f" {why}"
        for why, count in waiting.items()
        if why
    )


def _past_horizon(
    view: PartitionView, regions: Regions, rules: Rules, now_ms: int
) -> tuple[Segment, ...]:
    """The clean segments with a passed delete horizon, whatever consumers have seen."""
    return tuple(one for one in _settled(view, regions, rules) if one.is_due(now_ms))


def _settled(view: PartitionView, regions: Regions, rules: Rules) -> tuple[Segment, ...]:
    """The clean segments, if what is due in them may go."""
    if regions.is_forced or not _is_settled(view, regions, rules):
        return ()
    clean_until = regions.settled_until
    return tuple(one for one in view.segments if one.next_offset <= clean_until)


def _is_settled(view: PartitionView, regions: Regions, rules: Rules) -> bool:
    """Whether no tombstone of the clean region can still supersede a record in view."""
    if rules.compaction_strategy is CompactionStrategy.OFFSET:
        return True
    is_same = view.state is not None and latest_strategy(view.state) == strategy_name(rules)
    return is_same and regions.first_dirty == regions.next_offset


def should_have_rolled_at_ms(view: PartitionView, rules: Rules, now_ms: int) -> int | None:
    """The earliest time at which the active segment should have rolled; None: not due yet.

    A broker rolls it `min(segment.ms, max.compaction.lag.ms)` after its first record (Kafka
    `LogConfig.maxSegmentMs`). The tier does not show the active segment, but its records are no
    older than the newest one uploaded. An active segment without records need not roll: brokers say
    whether the log goes on beyond the tier.
    """
    offsets = None if view.brokers is None else view.brokers.known_offsets
    if offsets is not None and offsets.high_watermark <= view.next_offset:
        return None
    newest_ms = view.segments[-1].max_timestamp_ms if view.segments else -1
    rolls_at_ms = newest_ms + min(rules.segment_ms, rules.max_compaction_lag_ms)
    return rolls_at_ms if newest_ms >= 0 and rolls_at_ms < now_ms else None
