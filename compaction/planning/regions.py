"""Where a partition is clean, dirty, and held back (SEMANTICS 1; Kafka `LogCleanerManager`).

    log start     first_dirty     first_uncleanable   unstable_from       next_offset
        |  cleaned     |      dirty      |  uncleanable   |   unstable     |  active: local only

Uncleanable records are too young (`min.compaction.lag.ms`), or brokers may yet upload segments over
their offsets (`planning.holds`); unstable ones are at or above the last stable offset.
`first_dirty` may lie inside a segment; `first_uncleanable` and `unstable_from` are always the start
of one, or the end of the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.planning.grouping import is_for_brokers, sharing_offsets
from tierfold.compaction.planning.holds import Hold, broker_holds, is_overdue


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStable:
    """The last stable offset as the remote tier shows it (KIP-1272)."""

    offset: int
    """The first offset of the oldest transaction without a marker in the tier."""
    producer_id: int | None = None
    """The transaction's producer; None: only batch headers or brokers show the offset."""
    is_by_brokers: bool = False
    """Whether the brokers say so, whose log goes on beyond the tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """The regions of one partition."""

    log_start: int
    first_dirty: int
    first_uncleanable: int
    unstable_from: int
    """The start of the first segment that an open transaction holds back; `next_offset`: none."""
    next_offset: int
    """The first offset after the remote range."""
    last_stable: LastStable | None
    """The transaction that holds back the segments from `unstable_from` on; None: none does."""
    hold: Hold | None = None
    """What makes records uncleanable from `first_uncleanable` on; None: nothing does."""
    earliest_dirty_ms: int | None = None
    """The earliest timestamp of the uncompacted segments; None: none of them has one (KIP-354)."""
    reset: str | None = None
    """Why the stored cleaner offset was ignored, a sentence."""
    is_forced: bool = False
    """`--first-dirty` set `first_dirty`."""

    @property
    def cleaned(self) -> OffsetSpan:
        """Offsets that an earlier round has cleaned."""
        return OffsetSpan(start=self.log_start, end=self.first_dirty)

    @property
    def dirty(self) -> OffsetSpan:
        """Offsets that a round may clean now; empty: all are clean or held back."""
        end = max(self.first_dirty, self.first_uncleanable)
        return OffsetSpan(start=self.first_dirty, end=end)

    @property
    def uncleanable(self) -> OffsetSpan:
        """Dirty offsets that `hold` holds back."""
        return OffsetSpan(start=self.dirty.end, end=max(self.dirty.end, self.unstable_from))

    @property
    def unstable(self) -> OffsetSpan:
        """Dirty offsets that an open transaction holds back."""
        return OffsetSpan(start=self.uncleanable.end, end=self.next_offset)

    @property
    def held_back(self) -> tuple[str, ...]:
        """Why a round does not reach the end of the remote range, a sentence each."""
        held = () if self.uncleanable.is_empty else (self.why_uncleanable,)
        return held if self.last_stable is None else (*held, self.why_unstable)

    @property
    def why_uncleanable(self) -> str:
        """Why `uncleanable` is held back, a clause; empty: nothing is."""
        return "" if self.hold is None else self.hold.why

    @property
    def is_held_for_brokers(self) -> bool:
        """Whether `uncleanable` waits for uploads of brokers, not for its records' age."""
        return self.hold is not None and not self.hold.is_young

    @property
    def settled_until(self) -> int:
        """The end of the clean range that neither a transaction nor brokers hold back."""
        until = min(self.first_dirty, self.unstable_from)
        return min(until, self.first_uncleanable) if self.is_held_for_brokers else until

    @property
    def why_unstable(self) -> str:
        """Why `unstable` is held back, a clause; empty: nothing is."""
        if self.last_stable is None:
            return ""
        offset, producer = self.last_stable.offset, self.last_stable.producer_id
        whose = "" if producer is None else f" of producer {producer}"
        held = f"held back from offset {self.unstable_from} on"
        if self.last_stable.is_by_brokers:
            return f"{held}: by the brokers, a transaction is open from offset {offset} on"
        begins = f"the transaction{whose} that begins at offset {offset}"
        return f"{held}: {begins} has no marker in the tier"


def last_stable_of(producers: Sequence[ProducerEntry]) -> LastStable | None:
    """The oldest open transaction in the newest producer snapshot in view; None: none is open.

    A broker may hold its marker in a segment that is not uploaded yet.
    """
    opened = [
        (entry.current_txn_first_offset, entry.producer_id)
        for entry in producers
        if entry.current_txn_first_offset is not None
    ]
    if not opened:
        return None
    offset, producer_id = min(opened)
    return LastStable(offset=offset, producer_id=producer_id)


def regions_of(
    view: PartitionView,
    last_stable: LastStable | None,
    rules: Rules,
    now_ms: int,
    *,
    forced_first_dirty: int | None = None,
) -> Regions | Refusal:
    """Divide a partition into its regions.

    `last_stable` is from `last_stable_of`, or from batch headers where there is no snapshot.
    `forced_first_dirty` is `--first-dirty`, used instead of the stored cleaner offset. Below the
    log start it means the log start, so that 0 cleans the whole log again.
    """
    end = view.next_offset
    if forced_first_dirty is not None and forced_first_dirty > end:
        return Refusal(
            reason=RefusalReason.FIRST_DIRTY_OUT_OF_RANGE,
            detail=f"--first-dirty is {forced_first_dirty}, above the log's end {end}",
            remedy=f"Choose an offset from {view.log_start_offset} to {end}.",
        )
    first_dirty, reset = _stored_first_dirty(view)
    is_forced = forced_first_dirty is not None
    if forced_first_dirty is not None:
        first_dirty, reset = max(forced_first_dirty, view.log_start_offset), None
    uncompacted = [segment for segment in view.segments if segment.next_offset > first_dirty]
    last_stable = _with_brokers(view, last_stable)
    unstable_from = _unstable_from(view, last_stable)
    holds = [*_young(uncompacted, rules, now_ms, end), *broker_holds(view, rules, now_ms)]
    hold = min(holds, key=lambda hold: hold.offset, default=None)
    if is_for_brokers(view):
        hold = _below_shared_offsets(view, hold, unstable_from)
    first_timestamps_ms = [
        segment.first_timestamp_ms for segment in uncompacted if segment.first_timestamp_ms > 0
    ]
    return Regions(
        log_start=view.log_start_offset,
        first_dirty=first_dirty,
        first_uncleanable=unstable_from if hold is None else min(unstable_from, hold.offset),
        unstable_from=unstable_from,
        next_offset=end,
        last_stable=last_stable if unstable_from < end else None,
        hold=hold,
        earliest_dirty_ms=min(first_timestamps_ms, default=None),
        reset=reset,
        is_forced=is_forced,
    )


def _below_shared_offsets(
    view: PartitionView, hold: Hold | None, unstable_from: int
) -> Hold | None:
    """The hold, so low that no live segment below it shares offsets with one that has to wait.

    What they become together is published once; apart, it would have to be merged at once.
    """
    lowest = hold if hold is not None and hold.offset <= unstable_from else None
    end = unstable_from if lowest is None else lowest.offset
    for whole in sharing_offsets(view.segments):
        start = whole[0].start_offset
        if start < end <= whole[-1].start_offset:
            held = f"held back from offset {end} on" if lowest is None else lowest.why
            return Hold(
                offset=start,
                why=f"held back from offset {start} on: the segments there share offsets with what"
                f" is {held}",
                is_young=lowest is not None and lowest.is_young,
            )
    return hold


def _with_brokers(view: PartitionView, last_stable: LastStable | None) -> LastStable | None:
    """The lower of what the tier and what the brokers show; a marker must be in the tier, too."""
    offsets = None if view.brokers is None else view.brokers.known_offsets
    if offsets is None or (last_stable and last_stable.offset <= offsets.last_stable):
        return last_stable
    return LastStable(offset=offsets.last_stable, is_by_brokers=True)


def _stored_first_dirty(view: PartitionView) -> tuple[int, str | None]:
    """The cleaner offset; or the log start and why, a sentence (Kafka `cleanableOffsets`)."""
    stored = view.cleaner_offset
    if stored is None:
        return view.log_start_offset, None
    if stored < view.log_start_offset:
        place = f"below the log start {view.log_start_offset}"
    elif stored > view.next_offset:
        place = f"above the log end {view.next_offset}"
    else:
        return stored, None
    return view.log_start_offset, (
        f"the stored cleaner offset {stored} lies {place}: the whole log counts as dirty"
    )


def _unstable_from(view: PartitionView, last_stable: LastStable | None) -> int:
    """The lower of the remote range's end and the LSO, rounded down to a segment's start."""
    if not view.segments or last_stable is None or last_stable.offset >= view.next_offset:
        return view.next_offset
    starts = [segment.start_offset for segment in view.segments]
    return starts[max(bisect_right(starts, last_stable.offset) - 1, 0)]


def _young(
    uncompacted: Sequence[Segment], rules: Rules, now_ms: int, end: int
) -> Iterator[Hold]:
    """Where `min.compaction.lag.ms` stops a round, but not below the end of an overdue segment.

    The minimum is Kafka's `findFirstUncleanableSegment`. The maximum overrides it, as KIP-354 says;
    in Kafka's code it overrides only the ratio.
    """
    if rules.min_compaction_lag_ms == 0:
        return
    youngest_ms = now_ms - rules.min_compaction_lag_ms
    young = (
        segment.start_offset for segment in uncompacted if segment.max_timestamp_ms > youngest_ms
    )
    overdue = [segment.next_offset for segment in uncompacted if is_overdue(segment, rules, now_ms)]
    offset = max([next(young, end), *overdue])
    if offset < end:
        yield Hold(
            offset=offset,
            why=f"held back from offset {offset} on: the segment there holds records younger than"
            f" min.compaction.lag.ms ({rules.min_compaction_lag_ms})",
            is_young=True,
        )
