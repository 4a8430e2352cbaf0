"""What should be done with a partition, and why.

    Rest      nothing
    Compact   rewrite these groups, up to this offset
    Refusal   nothing, until a person has acted (`compaction.discovery.view`)

Each choice phrases its own reason; reports only lay it out. `dataclasses.asdict` turns a choice
into what JSON can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.model.spared_bytes import compared_from, spared_sum
from tierfold.compaction.model.units import BATCH_HEADER_BYTES
from tierfold.compaction.model.wording import duration, spaced
from tierfold.compaction.planning.drop_limits import DropLimits
from tierfold.compaction.planning.eligibility import (
    DirtyRatio,
    dirty_ratio,
    due_segments,
    limits_by_view,
    waiting_notes,
)
from tierfold.compaction.planning.first_publication import first_publication_refusal
from tierfold.compaction.planning.grouping import (
    SegmentGroup,
    grouped,
    is_for_brokers,
    sharing_offsets,
)
from tierfold.compaction.planning.open_step import why_open
from tierfold.compaction.planning.regions import Regions
from tierfold.compaction.publishing.batches import sources_max
from tierfold.compaction.publishing.steps import Step

STALL_AGE_MS: Final = DAY_MS
"""How long uploads may wait for a missing one: longer than a broker takes to upload it."""


class RestReason(StrEnum):
    """Why a partition is left alone."""

    NO_POLICY = "no policy"
    NOT_OF_CLUSTER = "not of the cluster"
    """The brokers that were asked do not have the topic."""
    POLICY_NOT_COMPACT = "policy is not compact"
    EMPTY = "empty"
    NOTHING_DIRTY = "nothing dirty"
    ALL_UNSTABLE = "all unstable"
    TOO_YOUNG = "too young"
    HELD_BY_BROKERS = "held by brokers"
    """Brokers may yet upload segments over what is dirty."""
    RATIO_TOO_LOW = "dirty ratio too low"
    EARLY_DELETION = "early deletion"
    """Fees for deleting young objects are higher than what a round can save."""
    UNPUBLISHED = "unpublished"
    """Brokers do not have yet what the row says of an earlier pass."""


class CompactReason(StrEnum):
    """Why a partition is compacted."""

    DIRTY = "dirty"
    MUST_CLEAN = "must clean"
    """`max.compaction.lag.ms` demands it, whatever the ratio (KIP-354)."""
    FORCED = "forced"
    """`--first-dirty` says where the dirty region begins."""
    HORIZON_PASSED = "delete horizon passed"
    """No dirty data is cleaned, but tombstones or markers may go."""
    PRODUCER_EXPIRED = "producer expired"
    """The same, but only batches without records may go, which stayed for their producers."""
    MERGE = "merge"
    """Brokers have another segment beside a replacement: nothing goes (`planning.merges`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Nothing to do."""

    reason: RestReason
    detail: str
    """The reason with the numbers that decided, a clause."""
    notes: tuple[str, ...] = ()
    """Other findings, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """One round: live segments below `next_offset` are rewritten, group by group."""

    key: PartitionKey
    reason: CompactReason
    detail: str
    """The reason with the numbers that decided, a clause."""
    first_dirty: int
    next_offset: int
    """The first offset after the round. The cleaner offset moves up to it, and never down."""
    groups: tuple[SegmentGroup, ...]
    """In offset order; together all of `[log start, next_offset)`, or, if only a delete horizon
    has passed, the segments that it concerns."""
    ratio: DirtyRatio
    bytes_in: int
    """Bytes of the groups' `.log`s. Each is read twice at most: for keys, and to be rewritten."""
    bytes_out_estimate: int
    """`bytes_in` and a closing batch: as if no record went. It is no bound, because it needs no
    record: batches may compress worse than their producer's did, messages of magic 0 and 1 become
    batches (1.1 GB became 2.4 GB), and a delete horizon makes timestamp deltas grow."""
    is_last: bool = True
    """Whether it reaches the end of the region to clean; False: a chunk that ends earlier."""
    chunks_done: int = 0
    """How many chunks of the partition this run has committed."""
    held_back: tuple[str, ...] = ()
    """Why the round does not reach the end of the remote range, a sentence each."""
    notes: tuple[str, ...] = ()
    """Other findings, a sentence each."""
    beside: tuple[Segment, ...] = ()
    """Of a merge: uploads that the row does not name, and that give nothing to the log."""

    @property
    def sources(self) -> tuple[Segment, ...]:
        """The segments that the round reads and replaces, in offset order."""
        return tuple(segment for group in self.groups for segment in group.segments)

    @property
    def is_partial(self) -> bool:
        """Whether only some segments are rewritten, and no keys are compared."""
        due = (CompactReason.HORIZON_PASSED, CompactReason.PRODUCER_EXPIRED)
        return self.reason in due or self.is_merge

    @property
    def is_merge(self) -> bool:
        """Whether every record of its group is kept."""
        return self.reason is CompactReason.MERGE


Choice: TypeAlias = Rest | Compact | Refusal


def rest_by_policy(rules: Rules) -> Rest | None:
    """Rest if the topic's `cleanup.policy`, which has no default, lacks `compact` (SEMANTICS 2).

    This is checked before anything of the partition is read.
    """
    if not rules.cleanup_policy:
        detail = "no cleanup.policy is set for the topic; give it with --set or --config"
        return Rest(reason=RestReason.NO_POLICY, detail=detail)
    if not rules.is_compacted:
        policy = ",".join(sorted(rules.cleanup_policy))
        detail = f"cleanup.policy={policy} does not name compact"
        return Rest(reason=RestReason.POLICY_NOT_COMPACT, detail=detail)
    return None


def propose(
    view: PartitionView, rules: Rules, regions: Regions, now_ms: int, step: Step | None = None
) -> Choice:
    """Choose what to do with a partition; the same arguments give the same choice.

    A partition is eligible if it is dirtier than `min.cleanable.dirty.ratio`, if
    `max.compaction.lag.ms` demands it, or if a person asks for it (Kafka
    `grabFilthiestCompactedLog`). Beyond Kafka, clean segments of which something may go are
    eligible if none of these holds (`due_segments`).

    A partition without work while uploads have waited for `STALL_AGE_MS` is refused: otherwise it
    would go unnoticed. `step`: what publishing does next; a served row rests until it is done.
    """
    if (by_policy := rest_by_policy(rules)) is not None:
        return by_policy
    if (refusal := first_publication_refusal(view, rules, step)) is not None:
        return refusal
    if why := why_open(view.state, step):
        return Rest(reason=RestReason.UNPUBLISHED, detail=why)
    choice = _choice(view, rules, regions, now_ms)
    since_ms = view.stalled_since_ms
    if isinstance(choice, Rest) and since_ms is not None and now_ms - since_ms >= STALL_AGE_MS:
        return Refusal(
            reason=RefusalReason.GAP,
            detail=f"nothing after offset {view.next_offset - 1} can be used, and uploads have"
            f" waited for more than a day: {'; '.join(view.notes)}",
            remedy="Bring the missing segment back from a copy, or let the broker upload it again.",
        )
    notes = view.notes if regions.reset is None else (regions.reset, *view.notes)
    if isinstance(choice, Compact) and choice.first_dirty < regions.first_dirty:
        spared = spared_sum(() if view.state is None else view.state.spared)
        notes = (
            f"records are compared again from offset {choice.first_dirty} on, to remove up to"
            f" {spaced(spared)} superseded bytes that min.rewrite.gain and min.rewrite.bytes left",
            *notes,
        )
    return replace(choice, notes=(*notes, *choice.notes))


def _choice(view: PartitionView, rules: Rules, regions: Regions, now_ms: int) -> Rest | Compact:
    ratio = dirty_ratio(view, regions, rules, now_ms)
    rest = _rest(view, rules, regions, ratio)
    most = sources_max(view.key) if is_for_brokers(view) else None
    if rest is None:
        reason, detail = _reason(rules, regions, ratio)
        sources = [s for s in view.segments if s.start_offset < regions.first_uncleanable]
        groups = grouped(sources, rules, most)
        first_dirty = _compared_from(view, rules, regions)
    else:
        due = due_segments(view, regions, rules, now_ms)
        reason, detail = _why_due(due, limits_by_view(view, regions, rules, now_ms))
        if most is not None:
            due = _with_overlaps(due, view, regions)
        if not due:
            return replace(rest, notes=waiting_notes(view, regions, rules, now_ms))
        groups, first_dirty = grouped(due, rules, most), regions.first_dirty
    bytes_in = sum(group.size_bytes for group in groups)
    return Compact(
        key=view.key,
        reason=reason,
        detail=detail,
        first_dirty=first_dirty,
        next_offset=groups[-1].end_offset + 1,
        groups=groups,
        ratio=ratio,
        bytes_in=bytes_in,
        bytes_out_estimate=bytes_in + BATCH_HEADER_BYTES,
        held_back=regions.held_back,
    )


def _why_due(due: Sequence[Segment], limits: DropLimits) -> tuple[CompactReason, str]:
    """Why something of clean segments may go, and the same as a clause."""
    if any(map(limits.is_past_horizon, due)):
        return CompactReason.HORIZON_PASSED, (
            "only segments with tombstones or markers whose delete horizon has passed"
        )
    return CompactReason.PRODUCER_EXPIRED, (
        "only segments with the last batch, an empty one, of a producer that has expired"
        " (producer.id.expiration.ms)"
    )


def _with_overlaps(
    due: Sequence[Segment], view: PartitionView, regions: Regions
) -> tuple[Segment, ...]:
    """The segments that are due, and what shares offsets with them; all within the clean region."""
    ids = {segment.segment_id for segment in due}
    return tuple(
        segment
        for whole in sharing_offsets(view.segments)
        if whole[-1].next_offset <= regions.settled_until
        and any(segment.segment_id in ids for segment in whole)
        for segment in whole
    )


def _compared_from(view: PartitionView, rules: Rules, regions: Regions) -> int:
    """The first offset whose records a round compares: below the dirty ones if much was spared."""
    spared = () if view.state is None else view.state.spared
    since = compared_from(spared, view.segments, rules)
    return regions.first_dirty if since is None else min(since, regions.first_dirty)


def _rest(
    view: PartitionView, rules: Rules, regions: Regions, ratio: DirtyRatio
) -> Rest | None:
    """Why no dirty data is cleaned now; None: some is."""
    if not view.segments:
        return Rest(reason=RestReason.EMPTY, detail="no live segment in the tier")
    if not regions.dirty.is_empty:
        threshold = rules.min_cleanable_dirty_ratio
        if regions.is_forced or ratio.must_clean or ratio.exceeds(threshold):
            return None
        return Rest(reason=RestReason.RATIO_TOO_LOW, detail=ratio.compared_with(threshold))
    held_back = regions.held_back
    if held_back and regions.first_dirty < regions.next_offset:
        return Rest(reason=_why_held(regions), detail="; ".join(held_back))
    return Rest(
        reason=RestReason.NOTHING_DIRTY,
        detail=f"everything below offset {regions.next_offset} is clean",
    )


def _why_held(regions: Regions) -> RestReason:
    if regions.uncleanable.is_empty or regions.hold is None:
        return RestReason.ALL_UNSTABLE
    return RestReason.TOO_YOUNG if regions.hold.is_young else RestReason.HELD_BY_BROKERS


def _reason(rules: Rules, regions: Regions, ratio: DirtyRatio) -> tuple[CompactReason, str]:
    """Why dirty data is cleaned now, and the same as a clause with its numbers."""
    if regions.is_forced:
        return CompactReason.FORCED, f"--first-dirty is {regions.first_dirty}"
    if ratio.must_clean:
        most_ms = rules.max_compaction_lag_ms
        return CompactReason.MUST_CLEAN, (
            f"the oldest dirty record is {duration(ratio.delay_ms)} past"
            f" max.compaction.lag.ms ({most_ms})"
        )
    return CompactReason.DIRTY, ratio.compared_with(rules.min_cleanable_dirty_ratio)
