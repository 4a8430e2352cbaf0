"""What should happen to a partition: a value of a closed set, with its reason.

    Rest      nothing to do, and why
    Compact   these groups, up to here, and why not more
    Refusal   a person must look first (`compaction.view`)

Every choice is frozen and printable; `dataclasses.asdict` turns it into what JSON can hold.
`compaction.plan_check` checks it by other code before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from compaction.eligibility import DirtyRatio, dirty_ratio
from compaction.grouping import SegmentGroup, grouped
from compaction.regions import Regions
from compaction.rules import Rules
from compaction.segments import PartitionKey
from compaction.units import BATCH_HEADER_BYTES
from compaction.view import PartitionView, Refusal


class RestReason(StrEnum):
    """Why a partition is left alone."""

    NO_POLICY = "no policy"
    POLICY_NOT_COMPACT = "policy is not compact"
    EMPTY = "empty"
    NOTHING_DIRTY = "nothing dirty"
    ALL_UNSTABLE = "all unstable"
    RATIO_TOO_LOW = "dirty ratio too low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Nothing to do."""

    reason: RestReason
    detail: str
    """A sentence with the numbers that decided."""
    notes: tuple[str, ...] = ()
    """What was found beside, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """One round: all live segments below `end_offset` are rewritten, group by group."""

    key: PartitionKey
    first_dirty: int
    end_offset: int
    """The first offset beyond the round (exclusive); the next cleaner offset."""
    groups: tuple[SegmentGroup, ...]
    """In offset order; together the whole of `[log start, end_offset)`."""
    ratio: DirtyRatio
    bytes_in: int
    """The groups' `.log`s; each is read twice, once for its keys and once to be rewritten."""
    bytes_out_estimate: int
    """At most `bytes_in` and a closing batch, but for some bytes per record of a batch that gets
    its delete horizon now: its timestamp deltas grow."""
    held_back: tuple[str, ...] = ()
    """Why the round does not reach the end of the remote range, a sentence each."""
    notes: tuple[str, ...] = ()
    """What was found beside, a sentence each."""

    @property
    def source_ids(self) -> tuple[str, ...]:
        """The segments that the round replaces, in offset order."""
        return tuple(each.segment_id for group in self.groups for each in group.segments)


Choice: TypeAlias = Rest | Compact | Refusal


def rest_by_policy(rules: Rules) -> Rest | None:
    """A topic is compacted only if somebody said so: there is no default (SEMANTICS 2).

    Asked before anything of the partition is read.
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


def propose(view: PartitionView, rules: Rules, regions: Regions) -> Choice:
    """Choose what to do with a partition; the same arguments give the same choice."""
    rest = rest_by_policy(rules) or _rest_by_regions(view, regions)
    if rest is not None:
        return rest
    ratio = dirty_ratio(view, regions)
    if not regions.is_forced and not ratio.exceeds(rules.min_cleanable_dirty_ratio):
        return Rest(
            reason=RestReason.RATIO_TOO_LOW,
            detail=f"{ratio.cleanable_bytes} of {ratio.total_bytes} bytes are dirty"
            f" ({ratio.percent}), min.cleanable.dirty.ratio wants more than"
            f" {_as_percent(rules)}",
            notes=_notes(view, regions),
        )
    end_offset = regions.first_uncleanable
    sources = tuple(each for each in view.segments if each.start_offset < end_offset)
    bytes_in = sum(each.size_bytes for each in sources)
    return Compact(
        key=view.key,
        first_dirty=regions.first_dirty,
        end_offset=end_offset,
        groups=grouped(sources, rules),
        ratio=ratio,
        bytes_in=bytes_in,
        bytes_out_estimate=bytes_in + BATCH_HEADER_BYTES,
        held_back=_held_back(regions),
        notes=_notes(view, regions),
    )


def _rest_by_regions(view: PartitionView, regions: Regions) -> Rest | None:
    notes = _notes(view, regions)
    if not view.segments:
        return Rest(reason=RestReason.EMPTY, detail="no live segment in the tier", notes=notes)
    if not regions.dirty.is_empty:
        return None
    held_back = _held_back(regions)
    if held_back and regions.first_dirty < regions.end:
        return Rest(reason=RestReason.ALL_UNSTABLE, detail="; ".join(held_back), notes=notes)
    return Rest(
        reason=RestReason.NOTHING_DIRTY,
        detail=f"everything below offset {regions.end} is clean",
        notes=notes,
    )


def _held_back(regions: Regions) -> tuple[str, ...]:
    last_stable = regions.last_stable
    if last_stable is None:
        return ()
    whose = "" if last_stable.producer_id is None else f" of producer {last_stable.producer_id}"
    waits = regions.first_uncleanable
    return (
        f"held back at offset {last_stable.offset}: open transaction{whose};"
        f" the segments from offset {waits} on wait for its marker",
    )


def _notes(view: PartitionView, regions: Regions) -> tuple[str, ...]:
    return view.notes if regions.reset is None else (regions.reset, *view.notes)


def _as_percent(rules: Rules) -> str:
    return f"{float(rules.min_cleanable_dirty_ratio * 100):g} %"
