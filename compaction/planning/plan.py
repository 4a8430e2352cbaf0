"""What should happen to a partition, and why.

    Rest      nothing to do, and why
    Compact   these groups, up to this offset; why, and why not more
    Refusal   a person must look first (`compaction.discovery.view`)

Every choice is frozen and printable; `dataclasses.asdict` turns it into what JSON can hold.
`compaction.planning.plan_check` checks it by other code before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.model.units import BATCH_HEADER_BYTES
from tierfold.compaction.model.wording import spaced
from tierfold.compaction.planning.eligibility import DirtyRatio, dirty_ratio, due_segments
from tierfold.compaction.planning.grouping import SegmentGroup, grouped
from tierfold.compaction.planning.regions import Regions

STALL_AGE_MS: Final = DAY_MS
"""How long uploads may wait for one that is missing: longer than a broker takes to upload it."""


class RestReason(StrEnum):
    """Why a partition is left alone."""

    NO_POLICY = "no policy"
    POLICY_NOT_COMPACT = "policy is not compact"
    EMPTY = "empty"
    NOTHING_DIRTY = "nothing dirty"
    ALL_UNSTABLE = "all unstable"
    TOO_YOUNG = "too young"
    RATIO_TOO_LOW = "dirty ratio too low"


class CompactReason(StrEnum):
    """Why a partition is compacted."""

    DIRTY = "dirty"
    MUST_CLEAN = "must clean"
    """`max.compaction.lag.ms` demands it, whatever the ratio (KIP-354)."""
    FORCED = "forced"
    """A person chose where the dirty region begins."""
    HORIZON_PASSED = "delete horizon passed"
    """Nothing dirty is to be cleaned, but tombstones or markers may go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Nothing to do."""

    reason: RestReason
    detail: str
    """A sentence with the numbers that decided."""
    notes: tuple[str, ...] = ()
    """Other findings, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """One round: live segments below `next_offset` are rewritten, group by group."""

    key: PartitionKey
    reason: CompactReason
    first_dirty: int
    next_offset: int
    """The first offset beyond the round; the next cleaner offset, if that is below."""
    groups: tuple[SegmentGroup, ...]
    """In offset order; together the whole of `[log start, next_offset)`, or, where only a delete
    horizon has passed, the segments concerned."""
    ratio: DirtyRatio
    bytes_in: int
    """The groups' `.log`s; each is read twice, once for its keys and once to be rewritten."""
    bytes_out_estimate: int
    """At most `bytes_in` and the closing batches, but for some bytes per record of a batch that
    gets its delete horizon now: its timestamp deltas grow."""
    is_last: bool = True
    """It reaches the end of the region to clean; False: a chunk that ends earlier."""
    chunks_done: int = 0
    """How many chunks of the partition this run has committed."""
    held_back: tuple[str, ...] = ()
    """Why the round does not reach the end of the remote range, a sentence each."""
    notes: tuple[str, ...] = ()
    """Other findings, a sentence each."""

    @property
    def sources(self) -> tuple[Segment, ...]:
        """The segments that the round reads and replaces, in offset order."""
        return tuple(segment for group in self.groups for segment in group.segments)

    @property
    def is_partial(self) -> bool:
        """Only the segments that a passed horizon concerns: what lies between them stays."""
        return self.reason is CompactReason.HORIZON_PASSED


Choice: TypeAlias = Rest | Compact | Refusal


def rest_by_policy(rules: Rules) -> Rest | None:
    """Rest where the topic's `cleanup.policy`, which has no default, lacks `compact` (SEMANTICS 2).

    It is checked before anything of the partition is read.
    """
    if not rules.cleanup_policy:
        return Rest(
            reason=RestReason.NO_POLICY,
            detail="no cleanup.policy is set for the topic: it is left alone",
        )
    if not rules.is_compacted:
        policy = ",".join(sorted(rules.cleanup_policy))
        return Rest(
            reason=RestReason.POLICY_NOT_COMPACT,
            detail=f"cleanup.policy={policy} does not name compact",
        )
    return None


def propose(view: PartitionView, rules: Rules, regions: Regions, now_ms: int) -> Choice:
    """Choose what to do with a partition; the same arguments give the same choice.

    A partition is eligible if it is dirtier than `min.cleanable.dirty.ratio`, if
    `max.compaction.lag.ms` demands it, or if a person asks for it (Kafka
    `grabFilthiestCompactedLog`). Beyond Kafka, clean segments whose delete horizon has passed are
    eligible where none of these holds. A partition that rests while uploads have waited for
    `STALL_AGE_MS` is refused, because it would go unnoticed otherwise.
    """
    if (by_policy := rest_by_policy(rules)) is not None:
        return by_policy
    choice = _choice(view, rules, regions, now_ms)
    since_ms = view.stalled_since_ms
    if not isinstance(choice, Rest) or since_ms is None or now_ms - since_ms < STALL_AGE_MS:
        return choice
    return Refusal(
        reason=RefusalReason.GAP,
        detail=f"nothing beyond offset {view.next_offset - 1} can be taken, and uploads have waited"
        f" for more than a day: {'; '.join(view.notes)}",
        remedy="Bring the missing segment back from a copy, or let the broker upload it again.",
    )


def _choice(view: PartitionView, rules: Rules, regions: Regions, now_ms: int) -> Rest | Compact:
    rest = _rest_by_regions(view, rules, regions)
    ratio = dirty_ratio(view, regions, rules, now_ms)
    if rest is None:
        reason = _reason(rules, regions, ratio)
        if reason is not None:
            sources = [s for s in view.segments if s.start_offset < regions.first_uncleanable]
            groups = grouped(sources, rules)
            return _compact(view, rules, regions, reason=reason, groups=groups, ratio=ratio)
        rest = Rest(
            reason=RestReason.RATIO_TOO_LOW,
            detail=f"{spaced(ratio.cleanable_bytes)} of {spaced(ratio.total_bytes)} bytes are dirty"
            f" ({ratio.percent}), min.cleanable.dirty.ratio wants more than"
            f" {_as_percent(rules)}",
            notes=_notes(view, regions),
        )
    due = due_segments(view, regions, rules, now_ms)
    if not due:
        return rest
    groups = tuple(group for run in _runs(due) for group in grouped(run, rules))
    reason = CompactReason.HORIZON_PASSED
    return _compact(view, rules, regions, reason=reason, groups=groups, ratio=ratio)


def _reason(rules: Rules, regions: Regions, ratio: DirtyRatio) -> CompactReason | None:
    """Why cleanable data are cleaned now; None: they are not."""
    if regions.is_forced:
        return CompactReason.FORCED
    if ratio.must_clean:
        return CompactReason.MUST_CLEAN
    return CompactReason.DIRTY if ratio.exceeds(rules.min_cleanable_dirty_ratio) else None


def _compact(
    view: PartitionView,
    rules: Rules,
    regions: Regions,
    *,
    reason: CompactReason,
    groups: tuple[SegmentGroup, ...],
    ratio: DirtyRatio,
) -> Compact:
    bytes_in = sum(group.size_bytes for group in groups)
    closings = len(groups) if reason is CompactReason.HORIZON_PASSED else 1
    return Compact(
        key=view.key,
        reason=reason,
        first_dirty=regions.first_dirty,
        next_offset=groups[-1].end_offset + 1,
        groups=groups,
        ratio=ratio,
        bytes_in=bytes_in,
        bytes_out_estimate=bytes_in + BATCH_HEADER_BYTES * closings,
        held_back=_held_back(rules, regions),
        notes=_notes(view, regions),
    )


def _runs(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Stretches of segments that follow each other without a gap."""
    run: list[Segment] = []
    for segment in segments:
        if run and run[-1].next_offset != segment.start_offset:
            yield run
            run = []
        run.append(segment)
    if run:
        yield run


def _rest_by_regions(view: PartitionView, rules: Rules, regions: Regions) -> Rest | None:
    notes = _notes(view, regions)
    if not view.segments:
        return Rest(reason=RestReason.EMPTY, detail="no live segment in the tier", notes=notes)
    if not regions.dirty.is_empty:
        return None
    held_back = _held_back(rules, regions)
    if held_back and regions.first_dirty < regions.next_offset:
        is_young = not regions.uncleanable.is_empty
        return Rest(
            reason=RestReason.TOO_YOUNG if is_young else RestReason.ALL_UNSTABLE,
            detail="; ".join(held_back),
            notes=notes,
        )
    return Rest(
        reason=RestReason.NOTHING_DIRTY,
        detail=f"everything below offset {regions.next_offset} is clean",
        notes=notes,
    )


def _held_back(rules: Rules, regions: Regions) -> tuple[str, ...]:
    said: list[str] = []
    if not regions.uncleanable.is_empty:
        said.append(
            f"held back at offset {regions.first_uncleanable}: the segment from there on holds"
            f" records younger than min.compaction.lag.ms ({rules.min_compaction_lag_ms})"
        )
    last_stable = regions.last_stable
    if last_stable is not None:
        whose = "" if last_stable.producer_id is None else f" of producer {last_stable.producer_id}"
        said.append(
            f"held back at offset {last_stable.offset}: open transaction{whose};"
            f" the segments from offset {regions.unstable_from} on wait for its marker"
        )
    return tuple(said)


def _notes(view: PartitionView, regions: Regions) -> tuple[str, ...]:
    return view.notes if regions.reset is None else (regions.reset, *view.notes)


def _as_percent(rules: Rules) -> str:
    return f"{float(rules.min_cleanable_dirty_ratio * 100):g} %"
